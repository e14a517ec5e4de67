"""Checks of a camera against the other episodes of its dataset: colour order, swapped cameras, focus and light."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.finding import QualityFinding, confidence_of
from ares.quality.video.codes import BLUR, COLOUR_ORDER, OVEREXPOSED, SWAPPED_CAMERAS, UNDEREXPOSED
from ares.quality.video.picture_checks import video_finding
from ares.quality.video.summary import CameraSummary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST_EPISODES = 3
# Whoever is nearer to another appearance by this factor, and as near to it as its own members are, belongs there.
_NEARER = 1.6
_MEMBER = 2.0
# Of a darker picture neither colours nor light say anything.
_DARK_LEVEL = 30.0
# Looks that lie apart by so many times what episodes of one camera do can be told from each other.
_APART = 3.0
# Pictures that differ by less, in grey levels, are one.
_LEAST_LEVELS = 2.0
_STOPS = 1.0
_DETAIL_SHARE = 0.6
_DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalCamera:
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


def typical_camera(summaries: Sequence[CameraSummary]) -> TypicalCamera | None:
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
    return TypicalCamera(
        num_episodes=len(seen),
        appearance=appearance,
        spread=spread,
        detail=float(np.median(detail)),
        detail_spread=_deviation(detail),
        light=light,
        light_spread=_deviation(stops),
    )


def _deviation(values: NDArray[np.float64]) -> float:
    import numpy as np

    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _usual_appearance(appearances: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """What most of (N, 6, 8, 3) appearances show, some with red and blue swapped, and their median distance."""
    import numpy as np

    swapped = np.zeros(len(appearances), bool)
    for _ in range(5):
        turned = np.where(swapped[:, None, None, None], appearances[..., ::-1], appearances)
        usual = np.median(turned, axis=0)
        nearer = _distance(appearances[..., ::-1], usual) < _distance(appearances, usual)
        nearer = nearer if nearer.mean() <= 0.5 else ~nearer
        if (nearer == swapped).all():
            break
        swapped = nearer
    distance = np.minimum(_distance(appearances, usual), _distance(appearances[..., ::-1], usual))
    return usual.astype(np.float32), float(np.median(distance))


def _distance(appearances: NDArray[np.float32], usual: NDArray[np.float32]) -> NDArray[np.float64]:
    """Mean difference in grey levels at equal brightness, over the last three axes."""
    import numpy as np

    brightness = appearances.mean(axis=(-3, -2, -1), keepdims=True) + 1
    scaled = appearances * (float(usual.mean() + 1) / brightness)
    return np.asarray(np.abs(scaled - usual).mean(axis=(-3, -2, -1)))


def check_appearances(
    cameras: Sequence[CameraSummary], typical: Mapping[str, TypicalCamera]
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
    camera: CameraSummary, usual: TypicalCamera, typical: Mapping[str, TypicalCamera]
) -> Iterator[QualityFinding]:
    """Whether red and blue are swapped, or it shows what another camera shows."""
    assert camera.appearance is not None
    own = float(_distance(camera.appearance, usual.appearance))
    alternatives = [(COLOUR_ORDER, float(_distance(camera.appearance[..., ::-1], usual.appearance)), usual)]
    alternatives += [
        (SWAPPED_CAMERAS, float(_distance(camera.appearance, part.appearance)), part)
        for name, part in typical.items()
        if name != camera.camera and part.appearance.max() >= _DARK_LEVEL
    ]
    check, distance, of = min(alternatives, key=lambda alternative: alternative[1])
    is_member = distance <= _MEMBER * max(of.spread, _LEAST_LEVELS)
    ratio = own / max(distance, _LEAST_LEVELS)
    if ratio >= _NEARER and is_member and own >= 2 * _LEAST_LEVELS:
        yield video_finding(check, camera.camera, 0.0, ratio, confidence_of(ratio, _NEARER))


def _check_light(camera: CameraSummary, usual: TypicalCamera) -> Iterator[QualityFinding]:
    import numpy as np

    assert camera.light is not None
    stops = float(np.median(camera.light - usual.light))
    bar = max(_STOPS, _DEVIATIONS * usual.light_spread)
    if abs(stops) >= bar:
        check = OVEREXPOSED if stops > 0 else UNDEREXPOSED
        yield video_finding(check, camera.camera, 0.0, stops, confidence_of(abs(stops), bar))


def _check_detail(camera: CameraSummary, usual: TypicalCamera) -> Iterator[QualityFinding]:
    """The size is the length of the episode's video: all of it is out of focus."""
    import numpy as np

    lost = usual.detail - float(np.log(max(camera.detail, 1e-3)))
    bar = max(-float(np.log(_DETAIL_SHARE)), _DEVIATIONS * usual.detail_spread)
    if lost >= bar:
        yield video_finding(BLUR, camera.camera, 0.0, camera.num_frames, confidence_of(lost, bar))
