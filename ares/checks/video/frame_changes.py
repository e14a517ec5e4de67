"""Checks of the change between frames: frozen spans, repeated frames, gaps, and the rate of the camera."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.checks.codes import (
    CAMERA_RATE,
    DROPPED_FRAMES,
    FROZEN,
    REPEATED_FRAMES,
    VIDEO_LENGTH,
)
from ares.checks.finding import QualityFinding, finding_confidence
from ares.checks.video.features import CameraFeatures
from ares.checks.video.picture_quality import black_frames, video_finding
from ares.signals import find_runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_FEWEST_FRAMES = 16
# Frames that are compared at once: an hour has 108,000.
_CHUNK_FRAMES = 4096
# Cells of the small picture that change by less, in grey levels, may be noise or the work of the coder.
_CODED_LEVELS = 1.5
# A frame repeats the one before where all cells but three change by less than so many grey levels, or than this
# share of what the fastest twentieth of the frames do.
_SAME_LEVELS = 2.25
_SAME_SHARE = 0.35
_LARGEST = 4
_FAST_QUANTILE = 0.95
_USUAL_QUANTILE = 0.8
# Where a keyframe redraws a held picture, it changes by less than this share of the usual change.
_KEY_SHARE = 0.1
# A change is clear from this share of the usual one.
_CLEAR_SHARE = 0.5
_LONGEST_NATIVE = 3
_NATIVE_SHARE = 0.08
# A camera that is too slow: the changes of a window alternate by this factor.
_WINDOW_FRAMES = 12
_ALTERNATING = 1.6
_FEWEST_WINDOWS = 3
_RATE_SHARE = 0.43
_LEAST_ENERGY = 0.02
# The robot is driven where it has this share of its median speed, in this share of the steps.
_DRIVEN_SPEED = 0.3
_DRIVEN_SHARE = 0.6
_FROZEN_SECONDS = 0.5
_REPEATED_SECONDS = 0.13
_FEWEST_REPEATED = 2
_RUN_FACTOR = 3.0
# Where repeats end, the picture jumps by so many times the changes beside them: less where the robot is driven,
# more where it rests.
_JUMP_FACTOR = 1.2
_JUMP_DRIVEN = 0.6
_JUMP_RESTING = 2.5
_LEAST_JUMP_SHARE = 0.15
_LEAST_JUMP = 0.2
_GAP_PERIODS = 2.5
# The first frame is apart where it changes by so many times the largest of some changes after it.
_APART, _BESIDE_FIRST = 3.0, 4
# Two frames are one picture, coded twice, where they differ by this share of that change at most.
_SAME_EDGE_SHARE = 0.2
_LENGTH_SECONDS = 0.25
_LENGTH_FRAMES = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameChanges:
    """How much the picture changes from frame to frame.

    Attributes:
        energy: (T - 1,) mean change of the cells of the small picture beyond noise and coding, in grey levels.
        is_same: (T - 1,) whether the second frame repeats the first.
        usual: Change of the frames that move more than most.
    """

    energy: NDArray[np.float64]
    is_same: NDArray[np.bool_]
    usual: float


def frame_changes(features: CameraFeatures) -> FrameChanges:
    """The changes of a camera from each of its frames to the next; there are at least two."""
    import numpy as np

    thumbs = features.thumbs
    parts = [
        _cell_changes(thumbs[start : start + _CHUNK_FRAMES + 1])
        for start in range(0, len(thumbs) - 1, _CHUNK_FRAMES)
    ]
    energy, largest = (np.concatenate(part) for part in zip(*parts, strict=True))
    usual = float(np.quantile(energy, _USUAL_QUANTILE))
    is_same = largest <= min(_SAME_LEVELS, _SAME_SHARE * float(np.quantile(largest, _FAST_QUANTILE)))
    is_same[1:-1] |= is_same[:-2] & is_same[2:] & (energy[1:-1] <= _KEY_SHARE * usual)
    return FrameChanges(energy=energy, is_same=is_same, usual=usual)


def _cell_changes(thumbs: NDArray[np.float16]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """(T - 1,) mean change of the cells beyond noise and coding, and the fourth largest."""
    import numpy as np

    cells = np.abs(np.diff(thumbs.astype(np.float32), axis=0)).reshape(len(thumbs) - 1, -1)
    energy = np.maximum(cells - _CODED_LEVELS, 0).mean(axis=1).astype(np.float64)
    return energy, np.partition(cells, -_LARGEST, axis=1)[:, -_LARGEST]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameEdges:
    """The ends of a camera of an episode, to be compared with those of the episodes beside it.

    Attributes:
        first: (24, 32) grey levels of the first frame.
        last: The same of the last frame.
        is_first_apart: Whether the picture changes from the first frame to the second far more than after it.
        jump: Fourth largest change of a cell from the first frame to the second, in grey levels.
    """

    first: NDArray[np.float16]
    last: NDArray[np.float16]
    is_first_apart: bool
    jump: float


def frame_edges(features: CameraFeatures) -> FrameEdges | None:
    """The ends of a camera; None where it has too few frames to be told."""
    if features.num_frames < _FEWEST_FRAMES:
        return None
    energy, largest = _cell_changes(features.thumbs[: _BESIDE_FIRST + 2])
    beside = max(float(energy[1:].max()), _LEAST_ENERGY, _LEAST_JUMP)
    return FrameEdges(
        first=features.thumbs[0],
        last=features.thumbs[-1],
        is_first_apart=bool(energy[0] >= _APART * beside),
        jump=float(largest[0]),
    )


def begins_as_other_ends(before: FrameEdges, edges: FrameEdges) -> bool:
    """Whether the first frame is the last one of another episode, and no frame of this one."""
    import numpy as np

    if not edges.is_first_apart:
        return False
    _, largest = _cell_changes(np.stack([before.last, edges.first]))
    return bool(largest[0] <= max(2 * _SAME_LEVELS, _SAME_EDGE_SHARE * edges.jump))


def check_frame_timing(
    features: CameraFeatures, speed: NDArray[np.float64] | None
) -> Iterator[QualityFinding]:
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
        yield from _check_rate(features, changes)
        yield from _check_repeats(features, changes, _native_run(changes), speed)


def _short_runs(changes: FrameChanges) -> list[tuple[int, int]]:
    """Runs of one or two repeats between two clear changes, as a slow camera gives them."""
    clear = changes.energy >= _CLEAR_SHARE * changes.usual
    return [
        (start, stop)
        for start, stop in find_runs(changes.is_same).tolist()
        if stop - start <= _LONGEST_NATIVE
        and start > 0
        and stop < len(clear)
        and clear[start - 1]
        and clear[stop]
    ]


def _native_run(changes: FrameChanges) -> float:
    """Repeats in a row that are usual during motion: 1 where a camera of 15 Hz is stored at 30 Hz."""
    import numpy as np

    lengths = [stop - start for start, stop in _short_runs(changes)]
    return float(np.median(lengths)) if len(lengths) >= _NATIVE_SHARE * len(changes.energy) else 0.0


def _check_rate(features: CameraFeatures, changes: FrameChanges) -> Iterator[QualityFinding]:
    """In most seconds with motion every second or third change is far larger than the others."""
    share = max(_alternating_share(changes, period) for period in (2, 3))
    if share >= _RATE_SHARE:
        confidence = finding_confidence(share, _RATE_SHARE)
        yield video_finding(CAMERA_RATE, features.camera, features.seconds[0], share, confidence)


def _alternating_share(changes: FrameChanges, period: int) -> float:
    """Share of the windows with motion in which the changes alternate with a period of frames."""
    import numpy as np

    length = _WINDOW_FRAMES // period * period
    count = len(changes.energy) // length
    windows = changes.energy[: count * length].reshape(count, length // period, period)
    phases = np.sort(np.median(windows, axis=1), axis=1)
    moving = phases[:, -1] >= _CLEAR_SHARE * changes.usual
    # One picture and then repeats of it: only the largest phase changes.
    alternates = phases[:, -1] >= _ALTERNATING * np.maximum(phases[:, -2], _LEAST_ENERGY)
    return float(alternates[moving].mean()) if moving.sum() >= _FEWEST_WINDOWS else 0.0


def _check_repeats(
    features: CameraFeatures, changes: FrameChanges, native: float, speed: NDArray[np.float64] | None
) -> Iterator[QualityFinding]:
    """Runs of equal frames while the scene moves: it jumps where they end, or the robot moves during them."""
    fewest = max(_FEWEST_REPEATED, _REPEATED_SECONDS * features.rate_hz, _RUN_FACTOR * native)
    worst: dict[str, tuple[float, QualityFinding]] = {}
    black = black_frames(features)
    for start, stop in find_runs(changes.is_same).tolist():
        length = stop - start
        if length + 0.5 < fewest or black[start] or not _is_moving(changes, start, stop, speed):
            continue
        seconds = length / features.rate_hz
        check = FROZEN if seconds >= _FROZEN_SECONDS else REPEATED_FRAMES
        bar = _FROZEN_SECONDS if check is FROZEN else _REPEATED_SECONDS
        finding = video_finding(
            check, features.camera, features.seconds[start], seconds, finding_confidence(seconds, bar)
        )
        worst[check.code] = max(worst.get(check.code, (0.0, finding)), (seconds, finding), key=lambda w: w[0])
    yield from (finding for _, finding in worst.values())


def _is_moving(changes: FrameChanges, start: int, stop: int, speed: NDArray[np.float64] | None) -> bool:
    """Whether something moved while the frames [start, stop] were equal: the picture jumps where they end."""
    if start < 1 or stop >= len(changes.energy):
        return False
    jump, goes_on = float(changes.energy[stop]), ~changes.is_same[stop + 1 : stop + 3]
    if not goes_on.any() or jump < max(_LEAST_JUMP_SHARE * changes.usual, _LEAST_JUMP):
        return False
    before = float(changes.energy[max(0, start - 2) : start].mean())
    after = float(changes.energy[stop + 1 : stop + 3].mean())
    return jump >= _jump_factor(start, stop, speed) * max(before, after)


def _jump_factor(start: int, stop: int, speed: NDArray[np.float64] | None) -> float:
    if speed is None:
        return _JUMP_FACTOR
    is_driven = (speed[start:stop] >= _DRIVEN_SPEED).mean() >= _DRIVEN_SHARE
    return _JUMP_DRIVEN if is_driven else _JUMP_RESTING


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
        confidence = finding_confidence(periods[worst] / usual, _GAP_PERIODS)
        lost = periods[worst] - usual
        yield video_finding(DROPPED_FRAMES, features.camera, features.seconds[worst], lost, confidence)


def _check_length(features: CameraFeatures) -> Iterator[QualityFinding]:
    """Frames that the episode should have and the file has not, or those that follow it in a separate file."""
    missing = features.expected_frames - features.num_frames - len(features.damaged)
    frames = features.surplus_frames if missing <= 0 else -missing
    bar = max(_LENGTH_FRAMES, _LENGTH_SECONDS * features.rate_hz)
    if abs(frames) >= bar and not features.failure:
        seconds = frames / features.rate_hz
        confidence = finding_confidence(abs(frames), bar)
        end = features.seconds[-1] if features.num_frames else 0.0
        yield video_finding(VIDEO_LENGTH, features.camera, end, seconds, confidence)
