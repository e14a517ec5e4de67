"""Which frame or step belongs to a second of an episode, and how far containers round their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Episode


# Containers and recorders round times to a thousandth of a second.
_ROUNDING_SECONDS = 1e-3
# Of fast cameras that is more than a frame: no more than these shares of a period.
_ROUNDING_SHARE, _MAX_SHARE = 0.1, 0.5


def time_tolerance(rate_hz: float, tick_seconds: float = 0.0) -> float:
    """How far the time of a frame or step may be from a second that means it: a thousandth, or a tenth of a period.

    Args:
        rate_hz: Frames or steps per second.
        tick_seconds: Time base of the container, to which it rounds times; 0 where nothing is rounded.
    """
    share = max(_ROUNDING_SHARE / rate_hz, (0.5 + _ROUNDING_SHARE) * tick_seconds)
    return min(_ROUNDING_SECONDS, share, _MAX_SHARE / rate_hz)


def needs_timestamps(episode: Episode) -> bool:
    """Whether only the stamps of its steps tell which frame belongs to a second of an episode."""
    return episode.frame_pairing == "index" and episode.clock_shift_seconds > time_tolerance(episode.rate_hz)


def compute_camera_rate_hz(episode: Episode, camera: Camera) -> float:
    """Frames of a camera per second of its episode; the mean where the frames follow an uneven clock."""
    media = camera.media
    return media.num_frames / episode.duration_seconds if needs_timestamps(episode) else media.rate_hz


def camera_seconds(
    episode: Episode,
    camera: Camera,
    seconds: Sequence[float],
    read_stamps: Callable[[], NDArray[np.float64]],
) -> list[float]:
    """The seconds at which `ares.media.frames_at` has the frames that belong to seconds of an episode.

    Where steps and frames are paired by stamp, or the clock is even, these are the same seconds. Where they are
    paired by index and the clock is not even, the frame of a second is that of the step at or before it.

    Args:
        episode: The episode.
        camera: One of its cameras.
        seconds: Seconds from the start of the episode, on the clock of its steps.
        read_stamps: Reads the (T,) stamps of the steps; called only where they are needed.
    """
    import numpy as np

    if not needs_timestamps(episode):
        return [float(second) for second in seconds]
    stamps = read_stamps()
    late = np.asarray(seconds, np.float64) + time_tolerance(episode.rate_hz)
    steps = np.searchsorted(stamps, late, side="right") - 1
    # The middle of the time for which a frame is shown, so that rounding cannot select its neighbour.
    middles: list[float] = ((np.clip(steps, 0, len(stamps) - 1) + 0.5) / camera.media.rate_hz).tolist()
    return middles


def nearest_steps(
    stamps: NDArray[np.float64], seconds: NDArray[np.float64], *, hold: bool
) -> NDArray[np.int64]:
    """The number of the step for each of some seconds: (N,) int64.

    Args:
        stamps: (T,) rising seconds of the steps.
        seconds: (N,) seconds to find a step for.
        hold: Whether that is the last step at or before a second, in place of the nearest.
    """
    import numpy as np

    last = len(stamps) - 1
    rounding = time_tolerance(1 / float(np.median(np.diff(stamps)))) if last > 0 else 0.0
    before = np.clip(np.searchsorted(stamps, seconds + rounding, side="right") - 1, 0, last)
    if hold:
        return before.astype(np.int64)
    after = np.minimum(before + 1, last)
    is_after = np.abs(stamps[after] - seconds) < np.abs(stamps[before] - seconds)
    return np.where(is_after, after, before).astype(np.int64)
