"""What is kept of the videos of one episode, and what their frames alone say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.checks.finding import QualityFinding
from ares.checks.video.camera_lag import picture_motion, state_motion
from ares.checks.video.features import CameraFeatures
from ares.checks.video.frame_changes import check_frame_timing
from ares.checks.video.picture_quality import check_picture_quality, compute_cell_brightness
from ares.clock import nearest_steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Trajectory


# A robot moves at a step where its speed is this share of its fastest tenth.
_MOVING_SHARE = 0.15
_RATE_TOLERANCE = 0.01
# Lags are measured over so many steps from the start, five minutes at 30 Hz: an hour says no more of them.
_LAG_STEPS = 9000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CameraSummary:
    """One camera of an episode.

    Attributes:
        camera: Its name.
        findings: What its frames alone say.
        appearance: (6, 8, 3) float32 RGB, median over the frames; None without frames.
        detail: Median of the detail of its frames.
        light: Median of the logarithm of its light, in stops.
        motion: (T, 16) motion of the picture, one row per step of the first 9,000; None without frames.
        num_frames: Frames that were decoded.
    """

    camera: str
    findings: tuple[QualityFinding, ...]
    appearance: NDArray[np.float32] | None
    detail: float
    light: NDArray[np.float32] | None
    motion: NDArray[np.float32] | None
    num_frames: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VideoSummary:
    """The videos of one episode.

    Attributes:
        episode_id: Id of the episode.
        rate_hz: Steps per second.
        moving_seconds: Seconds in which the robot moves; 0 without signals.
        state: (T, D) motion of the robot, one row per step of the first 9,000; None without signals.
        cameras: Its cameras.
    """

    episode_id: str
    rate_hz: float
    moving_seconds: float
    state: NDArray[np.float32] | None
    cameras: tuple[CameraSummary, ...]


def summarise_video(
    episode: Episode, trajectory: Trajectory, features: Sequence[CameraFeatures]
) -> VideoSummary:
    """Check the frames of an episode, and keep what its dataset is to judge."""
    import numpy as np

    state = trajectory.state.values.astype(np.float64) if trajectory.state is not None else None
    if state is not None and not (np.isfinite(state).all() and state.size):
        state = None
    speed = None if state is None or len(state) < 2 else _relative_speed(state)
    return VideoSummary(
        episode_id=episode.episode_id,
        rate_hz=episode.rate_hz,
        moving_seconds=0.0 if speed is None else float((speed > 0).sum()) / episode.rate_hz,
        state=None if state is None else state_motion(state[:_LAG_STEPS], episode.rate_hz),
        cameras=tuple(
            _summarise_camera(episode, trajectory.timestamps, camera, speed) for camera in features
        ),
    )


def _relative_speed(state: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T - 1,) speed over its median while the robot moves, 0 where it rests."""
    import numpy as np

    span = np.ptp(state, axis=0)
    if not span.any():
        return np.zeros(len(state) - 1)
    speed = np.abs(np.diff(state, axis=0)) @ (1 / np.where(span > 1e-3 * span.max(), span, np.inf))
    moving = speed >= max(_MOVING_SHARE * float(np.quantile(speed, 0.9)), 1e-9)
    return np.where(moving, speed / np.median(speed[moving]), 0.0) if moving.any() else speed * 0


def _summarise_camera(
    episode: Episode,
    stamps: NDArray[np.float64],
    features: CameraFeatures,
    speed: NDArray[np.float64] | None,
) -> CameraSummary:
    import numpy as np

    has_frames = features.num_frames >= 2
    at_frames = None if speed is None or not has_frames else _speed_at(episode, stamps, features, speed)
    light = np.log2(compute_cell_brightness(features)) if has_frames else None
    return CameraSummary(
        camera=features.camera,
        findings=(*check_picture_quality(features), *check_frame_timing(features, at_frames)),
        appearance=np.median(features.colours, axis=0).astype(np.float32) if has_frames else None,
        detail=float(np.median(features.detail)) if has_frames else 0.0,
        light=np.median(light, axis=0).astype(np.float32) if light is not None else None,
        motion=_picture_motion_at_steps(episode, stamps, features) if has_frames else None,
        num_frames=features.num_frames,
    )


def _speed_at(
    episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures, speed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(T - 1,) speed of the robot between each two frames."""
    import numpy as np

    steps = _steps_of(episode, stamps, features)
    return speed[np.minimum(steps[:-1], len(speed) - 1)]


def _steps_of(episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures) -> NDArray[np.int64]:
    """(T,) the step that each frame belongs to."""
    import numpy as np

    if episode.frame_pairing == "index":
        numbers = np.round(features.seconds * features.rate_hz).astype(np.int64)
        return np.clip(numbers, 0, max(len(stamps) - 1, 0))
    return nearest_steps(stamps, features.seconds, hold=False)


def _picture_motion_at_steps(
    episode: Episode, stamps: NDArray[np.float64], features: CameraFeatures
) -> NDArray[np.float32]:
    """Motion of the picture on the clock of the steps; frames that are missing are those before them."""
    import numpy as np

    num_steps = min(len(stamps), _LAG_STEPS)
    if features.num_frames == len(stamps) and abs(features.rate_hz / episode.rate_hz - 1) < _RATE_TOLERANCE:
        return picture_motion(features.thumbs[:num_steps], episode.rate_hz)
    steps = _steps_of(episode, stamps, features)
    covered = min(num_steps, int(steps[-1]) + 1)
    numbers = np.searchsorted(steps, np.arange(covered), side="right") - 1
    return picture_motion(features.thumbs[np.maximum(numbers, 0)], episode.rate_hz)
