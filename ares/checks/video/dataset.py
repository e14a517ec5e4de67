"""Checks the cameras of each episode against what is typical of its dataset, in looks and in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.checks.codes import (
    BLUR,
    CAMERA_LAG,
    COLOUR_ORDER,
    OVEREXPOSED,
    SWAPPED_CAMERAS,
    UNDEREXPOSED,
    VIDEO_LAG,
    VIDEO_RATE,
)
from ares.checks.record import (
    QualityFinding,
    finding_confidence,
)
from ares.checks.video.camera_lag import (
    Pair,
    VideoLag,
    measure_picture_lag,
    shrink_lag_to_dataset,
    sum_motion_products,
)
from ares.checks.video.features import video_finding
from ares.checks.video.frame_summary import CameraSummary, VideoSummary
from ares.signals import LagProducts
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
# Looks that lie apart by so many times what episodes of one camera do can be told from each other.
_APART = 3.0
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


_LAG_SECONDS = 0.1
_LAG_STEPS = 1.5
# A camera may show a motion so much later than the encoders, and not much earlier.
_LATEST_SECONDS = 0.35
_EARLIEST_SECONDS = 0.1
# Cameras of a dataset may differ by so much.
_APART_SECONDS = 0.15
_LOWEST_CORRELATION = 0.2
# Two cameras may see different motions, such as an object and a hand.
_LOWEST_BETWEEN_CAMERAS = 0.5
# An interval wider than this says nothing.
_WIDEST_SECONDS = 0.5
_RATE_SHARE = 0.05
# At another rate the lag must be known so well.
_RATE_STEPS = 2.0
_RATE_SECONDS = 0.3
_GAIN_BETWEEN_CAMERAS = 0.1
_FEWEST_FOR_RATES = 4


def check_lags(
    lags: Mapping[tuple[str, str], VideoLag],
    typical: Mapping[tuple[str, str], float],
    rate_hz: float,
    num_episodes: int,
) -> Iterator[QualityFinding]:
    """A041, A042 and A043.

    Args:
        lags: Lags of an episode by (cause, camera); the cause is "" for the state.
        typical: Median lags of the dataset, in steps.
        rate_hz: Steps per second.
        num_episodes: Episodes that the motions were learnt from: of few, none says another's rate.
    """
    rates = dict(_cameras_with_other_rate(lags, rate_hz)) if num_episodes >= _FEWEST_FOR_RATES else {}
    yield from (
        video_finding(VIDEO_RATE, camera, 0.0, rate, finding_confidence(abs(rate), _RATE_SHARE))
        for camera, rate in rates.items()
    )
    for (cause, camera), lag in lags.items():
        if camera in rates or cause in rates:
            continue
        if cause and (lag.steps is None or lag.correlation < _LOWEST_BETWEEN_CAMERAS):
            continue
        excess = _excess_steps(lag, typical.get((cause, camera)), rate_hz, is_state=not cause)
        bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
        if excess >= bar:
            check = CAMERA_LAG if cause else VIDEO_LAG
            middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
            yield video_finding(check, camera, 0.0, middle / rate_hz, finding_confidence(excess, bar))


def _cameras_with_other_rate(
    lags: Mapping[tuple[str, str], VideoLag], rate_hz: float
) -> Iterator[tuple[str, float]]:
    """Cameras of another rate, with the share of it: by the state, or by two cameras that differ.

    Of two cameras that differ it is the one whose other rate agrees more with the state, else the second.
    """
    for (cause, camera), lag in lags.items():
        rate = lag.rate_factor - 1
        width = max(_RATE_STEPS, _RATE_SECONDS * rate_hz)
        if abs(rate) < _RATE_SHARE or lag.high_steps - lag.low_steps > width:
            continue
        if cause and not _cameras_agree(lag):
            continue
        first, second = lags.get(("", cause)), lags.get(("", camera))
        if cause and first is not None and second is not None and first.rate_gain > second.rate_gain:
            yield cause, -rate
        else:
            yield camera, rate


def _cameras_agree(lag: VideoLag) -> bool:
    """Whether two cameras clearly show one motion, at another rate."""
    return lag.correlation >= _LOWEST_BETWEEN_CAMERAS and lag.rate_gain >= _GAIN_BETWEEN_CAMERAS


def _excess_steps(lag: VideoLag, typical: float | None, rate_hz: float, *, is_state: bool) -> float:
    """Steps by which the interval of a lag is beyond what its dataset, or any camera, has; 0 where it says nothing."""
    width = (lag.high_steps - lag.low_steps) / rate_hz
    if lag.correlation < _LOWEST_CORRELATION or width > _WIDEST_SECONDS:
        return 0.0
    beyond = 0.0
    if typical is not None:
        is_apart = lag.low_steps > typical or lag.high_steps < typical
        middle = lag.steps if lag.steps is not None else (lag.low_steps + lag.high_steps) / 2
        beyond = abs(middle - typical) if is_apart else 0.0
    latest = _LATEST_SECONDS if is_state else _APART_SECONDS
    earliest = _EARLIEST_SECONDS if is_state else _APART_SECONDS
    over = max(lag.low_steps - latest * rate_hz, -earliest * rate_hz - lag.high_steps)
    bar = max(_LAG_STEPS, _LAG_SECONDS * rate_hz)
    return max(beyond, bar + over if over > 0 else 0.0)


# Causes and effects of the lags of an episode: the camera, or the first camera and another one.
LagKey = tuple[str, str]
_LEAST_EPISODES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalVideo:
    """What is typical of the videos of a dataset.

    Attributes:
        rate_hz: Steps per second.
        cameras: Looks by camera.
        motions: How the picture moves with the state, or with that of another camera, by (cause, camera).
        lags: Median lag by (cause, camera), for those with any.
        members: Ids of the episodes that it was learnt from.
    """

    rate_hz: float
    cameras: Mapping[str, TypicalCameraView]
    motions: Mapping[LagKey, LagProducts]
    lags: Mapping[LagKey, float] = field(default_factory=dict)
    members: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCheck:
    """What the checks say of the videos of one episode.

    Attributes:
        findings: What they found.
        lags: Lag of each camera behind the state, by its name.
        camera_lags: Lag of each camera behind the first, by its name.
        moving_seconds: Seconds in which the robot moves.
        rate_hz: Steps per second.
        num_frames: Frames that were decoded.
    """

    findings: tuple[QualityFinding, ...]
    lags: Mapping[str, VideoLag]
    camera_lags: Mapping[str, VideoLag]
    moving_seconds: float
    rate_hz: float
    num_frames: int


def learn_typical_video(summaries: Sequence[VideoSummary]) -> TypicalVideo | None:
    """What is typical of some episodes of one dataset and one layout; None without any."""
    import numpy as np

    if not summaries:
        return None
    rate_hz = float(np.median([summary.rate_hz for summary in summaries]))
    by_camera: dict[str, list[CameraSummary]] = {}
    pairs: dict[LagKey, list[Pair]] = {}
    for summary in summaries:
        for camera in summary.cameras:
            by_camera.setdefault(camera.camera, []).append(camera)
        for key, pair in pair_motions_for_lag(summary).items():
            pairs.setdefault(key, []).append(pair)
    appearances = {
        name: part for name, of in by_camera.items() if (part := compute_typical_camera_view(of)) is not None
    }
    motions = {
        key: learnt
        for key, of in pairs.items()
        if len(of) >= _LEAST_EPISODES and (learnt := sum_motion_products(of, rate_hz)) is not None
    }
    typical = TypicalVideo(
        rate_hz=rate_hz,
        cameras=appearances,
        motions=motions,
        members=frozenset(summary.episode_id for summary in summaries),
    )
    return _with_lags(typical, summaries)


def _with_lags(typical: TypicalVideo, summaries: Sequence[VideoSummary]) -> TypicalVideo:
    """The median lags, where any episode says them."""
    import numpy as np

    known: dict[LagKey, list[float]] = {}
    for summary in summaries:
        for key, lag in measure_video_lags(summary, typical).items():
            if lag.steps is not None:
                known.setdefault(key, []).append(lag.steps)
    return replace(typical, lags={key: float(np.median(steps)) for key, steps in known.items()})


def pair_motions_for_lag(summary: VideoSummary) -> dict[LagKey, Pair]:
    """Causes and effects of an episode: its state and each camera, its first camera and each other."""
    seen = [camera for camera in summary.cameras if camera.motion is not None]
    pairs: dict[LagKey, Pair] = {}
    for camera in seen:
        assert camera.motion is not None
        if summary.state is not None:
            pairs["", camera.camera] = summary.state, camera.motion
        if camera is not seen[0] and seen[0].motion is not None:
            pairs[seen[0].camera, camera.camera] = seen[0].motion, camera.motion
    return pairs


def measure_video_lags(summary: VideoSummary, typical: TypicalVideo) -> dict[LagKey, VideoLag]:
    """The lags of an episode; of one that was learnt from, by the others."""
    lags = {}
    for key, (cause, effect) in pair_motions_for_lag(summary).items():
        learnt = typical.motions.get(key)
        if learnt is None or len(learnt.power) != cause.shape[1]:
            continue
        is_member = summary.episode_id in typical.members
        lag = measure_picture_lag(cause, effect, learnt, summary.rate_hz, is_member=is_member)
        usual = typical.lags.get(key)
        lags[key] = lag if usual is None else shrink_lag_to_dataset(lag, usual, summary.rate_hz)
    return lags


def check_videos(summary: VideoSummary, typical: TypicalVideo | None) -> VideoCheck:
    """Run every check on the videos of one episode."""
    camera_findings = tuple(finding for camera in summary.cameras for finding in camera.findings)
    lags = {} if typical is None else measure_video_lags(summary, typical)
    findings = (
        camera_findings
        if typical is None
        else (*camera_findings, *_dataset_findings(camera_findings, summary, typical, lags))
    )
    return VideoCheck(
        findings=findings,
        lags={camera: lag for (cause, camera), lag in lags.items() if not cause},
        camera_lags={camera: lag for (cause, camera), lag in lags.items() if cause},
        moving_seconds=summary.moving_seconds,
        rate_hz=summary.rate_hz,
        num_frames=sum(camera.num_frames for camera in summary.cameras),
    )


def _dataset_findings(
    camera_findings: tuple[QualityFinding, ...],
    summary: VideoSummary,
    typical: TypicalVideo,
    lags: Mapping[LagKey, VideoLag],
) -> tuple[QualityFinding, ...]:
    """Findings against the dataset; one code says of a camera only once."""
    known = {(finding.code, finding.dimension) for finding in camera_findings}
    against = (
        *compare_with_typical_camera(summary.cameras, typical.cameras),
        *check_lags(lags, typical.lags, summary.rate_hz, len(typical.members)),
    )
    return tuple(finding for finding in against if (finding.code, finding.dimension) not in known)
