"""The cameras of each episode against what is typical of its dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ares.checks.finding import QualityFinding
from ares.checks.video.camera_lag import (
    Pair,
    measure_picture_lag,
    shrink_lag_to_dataset,
    sum_motion_products,
)
from ares.checks.video.frame_summary import CameraSummary, VideoSummary
from ares.checks.video.lags import check_lags
from ares.checks.video.typical_camera import (
    TypicalCameraView,
    compare_with_typical_camera,
    compute_typical_camera_view,
)
from ares.signals import LagPeak, LagProducts

# Looks that lie apart by so many times what episodes of one camera do can be told from each other.
_APART = 3.0


_LEAST_EPISODES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalVideo:
    """What is typical of the videos of a dataset.

    Attributes:
        rate_hz: Steps per second.
        cameras: Looks by camera.
        motions: How the picture moves with the state, by camera.
        lags: Median lag by camera, for those with any.
        members: Ids of the episodes that it was learnt from.
    """

    rate_hz: float
    cameras: Mapping[str, TypicalCameraView]
    motions: Mapping[str, LagProducts]
    lags: Mapping[str, float] = field(default_factory=dict)
    members: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoCheck:
    """What the checks say of the videos of one episode.

    Attributes:
        findings: What they found.
        lags: Lag of each camera behind the state, by its name.
        moving_seconds: Seconds in which the robot moves.
        rate_hz: Steps per second.
        num_frames: Frames that were decoded.
    """

    findings: tuple[QualityFinding, ...]
    lags: Mapping[str, LagPeak]
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
    pairs: dict[str, list[Pair]] = {}
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

    known: dict[str, list[float]] = {}
    for summary in summaries:
        for key, lag in measure_video_lags(summary, typical).items():
            if lag.steps is not None:
                known.setdefault(key, []).append(lag.steps)
    return replace(typical, lags={key: float(np.median(steps)) for key, steps in known.items()})


def pair_motions_for_lag(summary: VideoSummary) -> dict[str, Pair]:
    """The state of an episode and the motion of each of its cameras."""
    if summary.state is None:
        return {}
    return {
        camera.camera: (summary.state, camera.motion)
        for camera in summary.cameras
        if camera.motion is not None
    }


def measure_video_lags(summary: VideoSummary, typical: TypicalVideo) -> dict[str, LagPeak]:
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
        lags=lags,
        moving_seconds=summary.moving_seconds,
        rate_hz=summary.rate_hz,
        num_frames=sum(camera.num_frames for camera in summary.cameras),
    )


def _dataset_findings(
    camera_findings: tuple[QualityFinding, ...],
    summary: VideoSummary,
    typical: TypicalVideo,
    lags: Mapping[str, LagPeak],
) -> tuple[QualityFinding, ...]:
    """Findings against the dataset; one code says of a camera only once."""
    known = {(finding.code, finding.dimension) for finding in camera_findings}
    against = (
        *compare_with_typical_camera(summary.cameras, typical.cameras),
        *check_lags(lags, typical.lags, summary.rate_hz),
    )
    return tuple(finding for finding in against if (finding.code, finding.dimension) not in known)
