"""What a camera of a dataset usually shows, and an episode that shows something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.checks.codes import (
    BLUR,
    COLOUR_ORDER,
    OVEREXPOSED,
    SWAPPED_CAMERAS,
    UNDEREXPOSED,
)
from ares.checks.finding import QualityFinding, finding_confidence
from ares.checks.video.frame_summary import CameraSummary
from ares.checks.video.picture_quality import video_finding
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FEWEST_EPISODES = 3

# Whoever is nearer to another appearance by this factor, and as near to it as its members are, belongs there.
_NEARER = 1.6

_MEMBER = 2.0

# Of a darker picture neither colours nor light say anything.
_DARK_LEVEL = 30.0

# Pictures that differ by less, in grey levels, are one.
_LEAST_LEVELS = 2.0

_STOPS = 1.0

_DETAIL_SHARE = 0.6

_DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalCameraView:
    """What a camera shows in most episodes.

    Attributes:
        num_episodes: Episodes that were learnt from.
        appearance: (6, 8, 3) RGB, red first as in most episodes.
        spread: Median distance of the episodes from it, in grey levels.
        detail: Median of the logarithm of the detail.
        detail_spread: Its standard deviation, by the median deviation.
        light: (48,) median light of each cell, in stops.
        light_spread: Standard deviation of the light of the episodes, by the median deviation.
    """

    num_episodes: int
    appearance: NDArray[np.float32]
    spread: float
    detail: float
    detail_spread: float
    light: NDArray[np.float32]
    light_spread: float


def compute_typical_camera_view(summaries: Sequence[CameraSummary]) -> TypicalCameraView | None:
    """What is typical of the episodes of one camera; None without frames."""
    import numpy as np

    seen = [part for part in summaries if part.appearance is not None and part.light is not None]
    if not seen:
        return None
    appearances = np.stack([part.appearance for part in seen if part.appearance is not None])
    appearance, spread = _usual_appearance(appearances)
    light = np.median([part.light for part in seen], axis=0)
    stops = np.array([np.median(part.light - light) for part in seen])
    detail = np.log([max(part.detail, 1e-3) for part in seen])
    return TypicalCameraView(
        num_episodes=len(seen),
        appearance=appearance,
        spread=spread,
        detail=float(np.median(detail)),
        detail_spread=_robust_deviation(detail),
        light=light,
        light_spread=_robust_deviation(stops),
    )


def _robust_deviation(values: NDArray[np.float64]) -> float:
    import numpy as np

    return DEVIATIONS_PER_MAD * float(np.median(np.abs(values - np.median(values))))


def _usual_appearance(appearances: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """What most of (N, 6, 8, 3) appearances show, some with red and blue swapped, and their median distance."""
    import numpy as np

    swapped = np.zeros(len(appearances), bool)
    for _ in range(5):
        turned = np.where(swapped[:, None, None, None], appearances[..., ::-1], appearances)
        usual = np.median(turned, axis=0)
        nearer = _appearance_distance(appearances[..., ::-1], usual) < _appearance_distance(
            appearances, usual
        )
        nearer = nearer if nearer.mean() <= 0.5 else ~nearer
        if (nearer == swapped).all():
            break
        swapped = nearer
    distance = np.minimum(
        _appearance_distance(appearances, usual), _appearance_distance(appearances[..., ::-1], usual)
    )
    return usual.astype(np.float32), float(np.median(distance))


def _appearance_distance(appearances: NDArray[np.float32], usual: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean difference in grey levels at equal brightness, over the last three axes."""
    import numpy as np

    brightness = appearances.mean(axis=(-3, -2, -1), keepdims=True) + 1
    scaled = appearances * (float(usual.mean() + 1) / brightness)
    return np.asarray(np.abs(scaled - usual).mean(axis=(-3, -2, -1)))


def compare_with_typical_camera(
    cameras: Sequence[CameraSummary], typical: Mapping[str, TypicalCameraView]
) -> Iterator[QualityFinding]:
    """A030, A031, A032, A037 and A038 of whole episodes."""
    for camera in cameras:
        usual = typical.get(camera.camera)
        if usual is None or camera.appearance is None or usual.num_episodes < _FEWEST_EPISODES:
            continue
        if min(camera.appearance.max(), usual.appearance.max()) < _DARK_LEVEL:
            continue
        other = tuple(_check_other(camera, usual, typical))
        yield from other
        if not other:  # of another camera neither light nor focus say anything
            yield from _check_light(camera, usual)
            yield from _check_detail(camera, usual)


def _check_other(
    camera: CameraSummary, usual: TypicalCameraView, typical: Mapping[str, TypicalCameraView]
) -> Iterator[QualityFinding]:
    """Whether red and blue are swapped, or it shows what another camera shows."""
    assert camera.appearance is not None
    usual_distance = float(_appearance_distance(camera.appearance, usual.appearance))
    alternatives = [
        (COLOUR_ORDER, float(_appearance_distance(camera.appearance[..., ::-1], usual.appearance)), usual)
    ]
    alternatives += [
        (SWAPPED_CAMERAS, float(_appearance_distance(camera.appearance, part.appearance)), part)
        for name, part in typical.items()
        if name != camera.camera and part.appearance.max() >= _DARK_LEVEL
    ]
    check, distance, of = min(alternatives, key=lambda alternative: alternative[1])
    is_member = distance <= _MEMBER * max(of.spread, _LEAST_LEVELS)
    ratio = usual_distance / max(distance, _LEAST_LEVELS)
    if ratio >= _NEARER and is_member and usual_distance >= 2 * _LEAST_LEVELS:
        yield video_finding(check, camera.camera, 0.0, ratio, finding_confidence(ratio, _NEARER))


def _check_light(camera: CameraSummary, usual: TypicalCameraView) -> Iterator[QualityFinding]:
    import numpy as np

    assert camera.light is not None
    stops = float(np.median(camera.light - usual.light))
    bar = max(_STOPS, _DEVIATIONS * usual.light_spread)
    if abs(stops) >= bar:
        check = OVEREXPOSED if stops > 0 else UNDEREXPOSED
        yield video_finding(check, camera.camera, 0.0, stops, finding_confidence(abs(stops), bar))


def _check_detail(camera: CameraSummary, usual: TypicalCameraView) -> Iterator[QualityFinding]:
    """The size is the length of the episode's video: all of it is out of focus."""
    import numpy as np

    lost = usual.detail - float(np.log(max(camera.detail, 1e-3)))
    bar = max(-float(np.log(_DETAIL_SHARE)), _DEVIATIONS * usual.detail_spread)
    if lost >= bar:
        yield video_finding(BLUR, camera.camera, 0.0, camera.num_frames, finding_confidence(lost, bar))
