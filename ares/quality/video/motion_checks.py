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
_SAME_SHARE = 0.15
_SAME_LEVELS = 0.02
_SETTLING_SHARE = 0.35
_USUAL_QUANTILE = 0.8
# Keyframes that are rarer than this are made up for.
_MOST_KEYS = 0.25
_REFRESH_QUANTILE = 0.7
# A change is clear from this share of the usual one.
_CLEAR_SHARE = 0.5
_LONGEST_NATIVE = 3
_NATIVE_SHARE = 0.08
# A camera that is too slow: the changes of a window alternate by this factor.
_WINDOW_FRAMES = 12
_ALTERNATING = 1.6
_FEWEST_WINDOWS = 3
# The robot is driven where it has this share of its median speed, in this share of the steps.
_DRIVEN_SPEED = 0.3
_DRIVEN_SHARE = 0.6
# Frames beside a place that tell what change is usual there.
_BESIDE = 5
_FROZEN_SECONDS = 0.5
_REPEATED_SECONDS = 0.1
_FEWEST_REPEATED = 2
_RUN_FACTOR = 3.0
_STOP_SHARE = 0.4
_JUMP_FACTOR = 1.4
# A picture is repeated where it is nearer to the last one before a jump than this share of the jump.
_REPEAT_SHARE = 0.35
_DRIFT_SHARE = 0.6
_LONGEST_REPEAT = 600
_DROP_FACTOR = 2.2
_GAP_PERIODS = 2.5
_RATE_SHARE = 0.43
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
    energy = _without_refresh(energy, features.keys[1:])
    usual = float(np.quantile(energy, _USUAL_QUANTILE))
    is_same = energy <= max(_SAME_LEVELS, _SAME_SHARE * usual)
    settles = energy <= max(_SAME_LEVELS, _SETTLING_SHARE * usual)
    for start, stop in runs_where(settles):  # compression refines a picture that stands still
        is_same[start:stop] |= is_same[start : start + 2].any()
    return FrameChanges(energy=energy, is_same=is_same, usual=usual)


def _without_refresh(energy: NDArray[np.float64], keys: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Changes less what keyframes add: they draw a picture anew, also where it stands still."""
    import numpy as np

    if not keys.any() or keys.mean() > _MOST_KEYS or len(energy) < 3:
        return energy
    padded = np.pad(energy, 1, mode="edge")
    beside = np.maximum(padded[:-2], padded[2:])
    added = float(np.quantile((energy - beside)[keys], _REFRESH_QUANTILE))
    factor = max(float(np.median(energy[keys] / np.maximum(beside[keys], 1e-3))), 1.0)
    refreshed = np.minimum(np.maximum(energy - max(added, 0.0), 0.0), energy / factor)
    return np.where(keys, np.where(beside <= _SAME_LEVELS, beside, refreshed), energy)


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
        yield from _check_rate(features, changes)
        yield from _check_repeats(features, changes, native, speed)
        yield from _check_jumps(features, changes)


def _short_runs(changes: FrameChanges) -> list[tuple[int, int]]:
    """Runs of one or two repeats between two clear changes, as a slow camera gives them."""
    clear = changes.energy >= _CLEAR_SHARE * changes.usual
    return [
        (start, stop)
        for start, stop in runs_where(changes.is_same)
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
    """In most seconds with motion every second or third change is far smaller or larger than the others."""
    share = max(_alternating_share(changes, period) for period in (2, 3))
    if share >= _RATE_SHARE:
        confidence = confidence_of(share, _RATE_SHARE)
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
    alternates = phases[:, -1] >= _ALTERNATING * np.maximum(phases[:, -2], _SAME_LEVELS)
    return float(alternates[moving].mean()) if moving.sum() >= _FEWEST_WINDOWS else 0.0


def _check_repeats(
    features: CameraFeatures, changes: FrameChanges, native: float, speed: NDArray[np.float64] | None
) -> Iterator[QualityFinding]:
    """Runs of equal frames while the scene moves: it jumps where they end, or the robot moves during them."""
    fewest = max(_FEWEST_REPEATED, _REPEATED_SECONDS * features.rate_hz, _RUN_FACTOR * native)
    worst: dict[str, tuple[float, QualityFinding]] = {}
    black = black_frames(features)
    runs: set[tuple[int, int]] = {*runs_where(changes.is_same), *_repeat_runs(features, changes)}
    for start, stop in sorted(runs):
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


def _repeat_runs(features: CameraFeatures, changes: FrameChanges) -> Iterator[tuple[int, int]]:
    """Runs [start, stop) of changes that lead nowhere, and then a jump: a coder refines a picture that is held."""
    import numpy as np

    energy, thumbs = changes.energy, features.thumbs.astype(np.float32)
    jumps = (energy[1:] >= _CLEAR_SHARE * changes.usual) & (energy[:-1] <= _REPEAT_SHARE * energy[1:])
    for stop in (np.flatnonzero(jumps) + 1).tolist():
        first = max(0, stop - _LONGEST_REPEAT)
        distance = np.abs(thumbs[first:stop] - thumbs[stop]).mean(axis=(1, 2))
        far = np.flatnonzero(distance > _DRIFT_SHARE * energy[stop])
        yield (first + int(far[-1]) + 1 if len(far) else first), stop


def _is_moving(changes: FrameChanges, start: int, stop: int, speed: NDArray[np.float64] | None) -> bool:
    """Whether something moved while the frames [start, stop] were equal: motion stops and starts at once."""
    if start < 1 or stop >= len(changes.energy):
        return False
    before = changes.energy[max(0, start - 2) : start].max()
    after = changes.energy[stop : stop + 3]
    if min(before, after[1:].max(initial=0.0)) < _STOP_SHARE * changes.usual:
        return False
    if speed is not None and not (speed[start:stop] >= _DRIVEN_SPEED).mean() >= _DRIVEN_SHARE:
        return False
    factor = _JUMP_FACTOR if speed is None else 1.0
    return bool(after[0] >= factor * max(before, after[1:].max(initial=0.0)))


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
