"""Checks of the change between frames: frozen spans, repeated and dropped frames, and the rate of the camera."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.finding import QualityFinding, confidence_of
from ares.quality.video.codes import CAMERA_RATE, DROPPED_FRAMES, FROZEN, REPEATED_FRAMES, VIDEO_LENGTH
from ares.quality.video.features import CameraFeatures
from ares.quality.video.picture_checks import black_frames, runs_where, video_finding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST_FRAMES = 16
# A frame repeats the one before where its change is below this share of the usual one, or this many grey levels.
_SAME_SHARE = 0.12
_SAME_LEVELS = 0.03
# Frames beside a place that tell what change is usual there.
_BESIDE = 5
_FROZEN_SECONDS = 0.5
_REPEATED_SECONDS = 0.1
_FEWEST_REPEATED = 2
_RUN_FACTOR = 3.0
_STOP_SHARE = 0.4
_JUMP_FACTOR = 1.3
_DROP_FACTOR = 2.2
_GAP_PERIODS = 2.5
_RATE_SHARE = 0.3
_LENGTH_SECONDS = 0.25
_LENGTH_FRAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameChanges:
    """How much the picture changes from frame to frame.

    Attributes:
        energy: (T - 1,) mean change of the grey levels.
        is_same: (T - 1,) whether the second frame repeats the first.
        usual: Median change of the frames that repeat nothing.
    """

    energy: NDArray[np.float64]
    is_same: NDArray[np.bool_]
    usual: float


def frame_changes(features: CameraFeatures) -> FrameChanges:
    """The changes of a camera with at least two frames."""
    import numpy as np

    thumbs = features.thumbs.astype(np.float32)
    energy = np.abs(np.diff(thumbs, axis=0)).mean(axis=(1, 2)).astype(np.float64)
    usual = float(np.median(energy[energy > _SAME_LEVELS])) if (energy > _SAME_LEVELS).any() else 0.0
    return FrameChanges(energy=energy, is_same=energy <= max(_SAME_LEVELS, _SAME_SHARE * usual), usual=usual)


def check_motion(features: CameraFeatures, speed: NDArray[np.float64] | None) -> Iterator[QualityFinding]:
    """A034 to A036, A040 and A044.

    Args:
        features: The camera.
        speed: (T - 1,) speed of the robot between frames over its median while it moves; None where not known.
    """
    yield from _check_length(features)
    yield from _check_gaps(features)
    if features.num_frames < _FEWEST_FRAMES:
        return
    changes = frame_changes(features)
    if changes.usual > 0:
        native = _native_run(changes)
        yield from _check_rate(features, changes, native)
        yield from _check_repeats(features, changes, native, speed)
        yield from _check_jumps(features, changes)


def _native_run(changes: FrameChanges) -> float:
    """Repeats in a row that are usual during motion: 1 where a camera of 15 Hz is stored at 30 Hz."""
    import numpy as np

    lengths = [stop - start for start, stop in runs_where(changes.is_same)]
    if len(lengths) < 0.05 * len(changes.energy):
        return 0.0
    return float(np.median(lengths))


def _check_rate(features: CameraFeatures, changes: FrameChanges, native: float) -> Iterator[QualityFinding]:
    """Many short runs of repeats, between frames that change."""
    runs = [run for run in runs_where(changes.is_same) if run[1] - run[0] <= max(2, 2 * native)]
    share = sum(stop - start for start, stop in runs) / len(changes.energy)
    if share >= _RATE_SHARE and len(runs) >= 0.15 * len(changes.energy):
        confidence = confidence_of(share, _RATE_SHARE)
        yield video_finding(CAMERA_RATE, features.camera, features.seconds[runs[0][0]], share, confidence)


def _check_repeats(
    features: CameraFeatures, changes: FrameChanges, native: float, speed: NDArray[np.float64] | None
) -> Iterator[QualityFinding]:
    """Runs of equal frames while the scene moves: it jumps where they end, or the robot moves during them."""
    fewest = max(_FEWEST_REPEATED, _REPEATED_SECONDS * features.rate_hz, _RUN_FACTOR * native)
    worst: dict[str, tuple[float, QualityFinding]] = {}
    black = black_frames(features)
    for start, stop in runs_where(changes.is_same):
        length = stop - start
        if length + 0.5 < fewest or black[start] or not _is_moving(changes, start, stop, speed):
            continue
        seconds = length / features.rate_hz
        check = FROZEN if seconds >= _FROZEN_SECONDS else REPEATED_FRAMES
        bar = _FROZEN_SECONDS if check is FROZEN else _REPEATED_SECONDS
        finding = video_finding(
            check, features.camera, features.seconds[start], seconds, confidence_of(seconds, bar)
        )
        worst[check.code] = max(worst.get(check.code, (0.0, finding)), (seconds, finding), key=lambda w: w[0])
    yield from (finding for _, finding in worst.values())


def _is_moving(changes: FrameChanges, start: int, stop: int, speed: NDArray[np.float64] | None) -> bool:
    """Whether something moved while the frames [start, stop] were equal."""
    import numpy as np

    if speed is not None and float(np.median(speed[start:stop])) >= 1.0 and stop - start >= 4:
        return True
    if start < 1 or stop >= len(changes.energy):
        return False
    fresh = ~changes.is_same
    before = changes.energy[max(0, start - 2 * _BESIDE) : start][fresh[max(0, start - 2 * _BESIDE) : start]]
    after = changes.energy[stop + 1 : stop + 2 * _BESIDE][fresh[stop + 1 : stop + 2 * _BESIDE]]
    if not len(before) or not len(after):
        return False
    beside = max(float(np.median(before[-_BESIDE:])), float(np.median(after[:_BESIDE])))
    is_abrupt = before[-1] >= _STOP_SHARE * beside
    jump = changes.energy[stop] >= _JUMP_FACTOR * beside
    return bool(is_abrupt and jump and beside >= 0.3 * changes.usual)


def _check_jumps(features: CameraFeatures, changes: FrameChanges) -> Iterator[QualityFinding]:
    """One frame changes far more than those before and after it, and the picture does not jump back."""
    import numpy as np

    fresh = np.flatnonzero(~changes.is_same)
    energy = changes.energy[fresh]
    if len(energy) < 2 * _BESIDE + 1:
        return
    padded = np.pad(energy, _BESIDE, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _BESIDE + 1)
    beside = np.maximum(windows[:, 3:_BESIDE].max(axis=1), windows[:, _BESIDE + 1 : -3].max(axis=1))
    ratio = energy / np.maximum(beside, 0.5 * changes.usual)
    ratio[[0, -1]] = 0
    at = int(ratio.argmax())
    if ratio[at] >= _DROP_FACTOR and fresh[at] - fresh[at - 1] <= 2:
        seconds = min((ratio[at] - 1) / features.rate_hz, 2.0)
        confidence = confidence_of(float(ratio[at]), _DROP_FACTOR)
        second = features.seconds[fresh[at] + 1]
        yield video_finding(DROPPED_FRAMES, features.camera, second, seconds, confidence)


def _check_gaps(features: CameraFeatures) -> Iterator[QualityFinding]:
    import numpy as np

    if features.num_frames < 3:
        return
    periods = np.diff(features.seconds)
    usual, worst = float(np.median(periods)), int(periods.argmax())
    is_damage = any(
        features.seconds[worst] < second < features.seconds[worst + 1] for second in features.damaged
    )
    if usual > 0 and periods[worst] > _GAP_PERIODS * usual and not is_damage:
        confidence = confidence_of(periods[worst] / usual, _GAP_PERIODS)
        lost = periods[worst] - usual
        yield video_finding(DROPPED_FRAMES, features.camera, features.seconds[worst], lost, confidence)


def _check_length(features: CameraFeatures) -> Iterator[QualityFinding]:
    """Frames that the episode should have and the file has not, or those that follow it in a file of its own."""
    missing = features.expected_frames - features.num_frames - len(features.damaged)
    frames = features.surplus_frames if missing <= 0 else -missing
    bar = max(_LENGTH_FRAMES, _LENGTH_SECONDS * features.rate_hz)
    if abs(frames) >= bar and not features.failure:
        seconds = frames / features.rate_hz
        confidence = confidence_of(abs(frames), bar)
        end = features.seconds[-1] if features.num_frames else 0.0
        yield video_finding(VIDEO_LENGTH, features.camera, end, seconds, confidence)
