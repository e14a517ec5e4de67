"""What is typical of the videos of a dataset, and the check of every episode against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ares.quality.finding import QualityFinding
from ares.quality.video.appearance import TypicalCamera, check_appearances, typical_camera
from ares.quality.video.lag_checks import check_lags
from ares.quality.video.motion_map import MotionMap, VideoLag, learn_map, measure_lag, pooled_lag
from ares.quality.video.summary import CameraSummary, VideoSummary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Causes and effects of the lags of an episode: the camera, or the first camera and another one.
LagKey = tuple[str, str]
Pair = tuple["NDArray[np.float32]", "NDArray[np.float32]"]
_LEAST_EPISODES = 2
# Where no episode says its lag alone, all together do from so many and this correlation on.
_POOLED_EPISODES = 3
_POOLED_CORRELATION = 0.3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalVideo:
    """What is typical of the videos of a dataset.

    Attributes:
        rate_hz: Steps per second.
        cameras: Looks by camera.
        maps: How the picture moves with the state, or with that of another camera, by (cause, camera).
        lags: Median lag by (cause, camera), for those with any.
        members: Ids of the episodes that it was learnt from.
    """

    rate_hz: float
    cameras: Mapping[str, TypicalCamera]
    maps: Mapping[LagKey, MotionMap]
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


def learn_videos(summaries: Sequence[VideoSummary]) -> TypicalVideo | None:
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
        for key, pair in motion_pairs(summary).items():
            pairs.setdefault(key, []).append(pair)
    appearances = {name: part for name, of in by_camera.items() if (part := typical_camera(of)) is not None}
    maps = {
        key: learnt
        for key, of in pairs.items()
        if len(of) >= _LEAST_EPISODES and (learnt := learn_map(of, rate_hz)) is not None
    }
    typical = TypicalVideo(
        rate_hz=rate_hz,
        cameras=appearances,
        maps=maps,
        members=frozenset(summary.episode_id for summary in summaries),
    )
    return _with_lags(typical, summaries)


def _with_lags(typical: TypicalVideo, summaries: Sequence[VideoSummary]) -> TypicalVideo:
    """The median lags, where enough episodes say them, else the lag at which the map was learnt."""
    import numpy as np

    measured: dict[LagKey, list[VideoLag]] = {}
    for summary in summaries:
        for key, lag in measure_lags(summary, typical).items():
            measured.setdefault(key, []).append(lag)
    lags = {}
    for key, of in measured.items():
        known = [lag.steps for lag in of if lag.steps is not None]
        if known:
            lags[key] = float(np.median(known))
        elif (
            len(of) >= _POOLED_EPISODES and np.median([lag.correlation for lag in of]) >= _POOLED_CORRELATION
        ):
            lags[key] = float(typical.maps[key].lag_steps)
    return replace(typical, lags=lags)


def motion_pairs(summary: VideoSummary) -> dict[LagKey, Pair]:
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


def measure_lags(summary: VideoSummary, typical: TypicalVideo) -> dict[LagKey, VideoLag]:
    """The lags of an episode; of one that was learnt from, by the map of the others."""
    lags = {}
    for key, (cause, effect) in motion_pairs(summary).items():
        known = typical.maps.get(key)
        if known is None or known.causes.shape[0] != cause.shape[1]:
            continue
        of_others = known.without(cause, effect) if summary.episode_id in typical.members else known
        lag = measure_lag(cause, effect, of_others, summary.rate_hz)
        usual = typical.lags.get(key)
        lags[key] = lag if usual is None else pooled_lag(lag, usual, summary.rate_hz)
    return lags


def check_videos(summary: VideoSummary, typical: TypicalVideo | None) -> VideoCheck:
    """Run every check on the videos of one episode."""
    own = tuple(finding for camera in summary.cameras for finding in camera.findings)
    lags = {} if typical is None else measure_lags(summary, typical)
    findings = own if typical is None else (*own, *_dataset_findings(own, summary, typical, lags))
    return VideoCheck(
        findings=findings,
        lags={camera: lag for (cause, camera), lag in lags.items() if not cause},
        camera_lags={camera: lag for (cause, camera), lag in lags.items() if cause},
        moving_seconds=summary.moving_seconds,
        rate_hz=summary.rate_hz,
        num_frames=sum(camera.num_frames for camera in summary.cameras),
    )


def _dataset_findings(
    own: tuple[QualityFinding, ...],
    summary: VideoSummary,
    typical: TypicalVideo,
    lags: Mapping[LagKey, VideoLag],
) -> tuple[QualityFinding, ...]:
    """Findings against the dataset; one code says of a camera only once."""
    known = {(finding.code, finding.dimension) for finding in own}
    against = (
        *check_appearances(summary.cameras, typical.cameras),
        *check_lags(lags, typical.lags, summary.rate_hz, len(typical.members)),
    )
    return tuple(finding for finding in against if (finding.code, finding.dimension) not in known)
