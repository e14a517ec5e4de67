"""Settles the clock of a record: the rate that its stamps show, and which frame belongs to each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Episode, Record


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


# A pause longer than this many periods is a gap, whose length says nothing of the rate.
_MAX_DROPPED_PERIODS = 10
_QUARTILES_PER_SIGMA = 1.349
# More digits are rounding errors of the stamps.
_SPREAD_DIGITS = 9


@dataclass(frozen=True, slots=True)
class MeasuredClock:
    """What the stamps of an episode say of its rate.

    Attributes:
        rate_hz: Steps per second while the recording ran.
        spread: Interquartile range of the periods, divided by the median period; 0 for an even clock.
        standard_error: Standard error of the rate, divided by the rate.
    """

    rate_hz: float
    spread: float
    standard_error: float


def measure_clock(seconds: NDArray[np.float64]) -> MeasuredClock | None:
    """Measure the rate of (T,) stamps in seconds; None where fewer than two of them are finite and rise.

    The median period tells how many periods lie between two stamps, so that dropped steps are counted. The rate is
    the slope of a least-squares line through stamps and periods, one line for each part between gaps. Fewer than
    half of the steps may be dropped, and two neighbours may be off by less than half a period.
    """
    import numpy as np

    seconds = np.asarray(seconds, np.float64)
    seconds = seconds[np.isfinite(seconds)]
    periods = np.diff(seconds)
    rising = periods[periods > 0]
    if not len(rising):
        return None
    median = float(np.median(rising))
    counts = np.maximum(np.rint(periods / median), 1)
    is_gap = (periods <= 0) | (counts > _MAX_DROPPED_PERIODS)
    parts = np.concatenate(([0], np.cumsum(is_gap)))
    numbers = _subtract_part_means(np.concatenate(([0.0], np.cumsum(np.where(is_gap, 0, counts)))), parts)
    period = float(numbers @ _subtract_part_means(seconds, parts)) / float(numbers @ numbers)
    quartiles = np.percentile(rising, (25, 75))
    spread = float(quartiles[1] - quartiles[0]) / median
    # Two stamps make a period, so that a stamp is off by less than a period is, by the root of two.
    sigma = spread * median / _QUARTILES_PER_SIGMA / np.sqrt(2)
    error = float(sigma / np.sqrt(numbers @ numbers)) / period
    return MeasuredClock(1 / period, round(spread, _SPREAD_DIGITS), error)


def _subtract_part_means(values: NDArray[np.float64], parts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values minus the mean of their part."""
    import numpy as np

    means = np.bincount(parts, values) / np.bincount(parts)
    centred: NDArray[np.float64] = values - means[parts]
    return centred


# The stamps win where they and the claimed rate disagree by more than this share.
_RATE_TOLERANCE = 0.01
# Stamps of few uneven steps may miss the rate by chance.
_STANDARD_ERRORS = 3
_EVEN_SECONDS = 1e-6
# Measured rates that differ by this share are one: even clocks of one recorder are never the same.
LEAST_RATE_SPREAD = 0.015
RATES_DISAGREE = "the stamps have another rate than the source claims; the stamps are used"


def settle_measured_clock(record: Record) -> Record:
    """The record with its measured clock, its duration by its stamps, and the pairing that holds.

    A rate that the stamps contradict by more than one percent is replaced, unless the user set it; `rate_source` is
    then "measured". A promised frame per step counts only where every camera has as many frames as there are steps.
    """
    fields, warnings = compute_measured_clock_fields(record)
    if not fields:
        return record
    return replace(record, episode=replace(record.episode, **fields), warnings=(*record.warnings, *warnings))


def compute_measured_clock_fields(record: Record) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What `settle_measured_clock` changes of the episode, and its warnings; who changes more copies it once."""
    import numpy as np

    episode, stamps = record.episode, record.trajectory.timestamps
    if len(stamps) != episode.num_steps or not len(stamps):
        return {}, ()
    # Most clocks are exactly even, and measuring takes as long as reading an episode.
    if np.array_equal(stamps, np.arange(len(stamps)) / episode.rate_hz):
        return _settle_rate_and_pairing(
            episode, _even_clock(len(stamps), episode.rate_hz) if record.has_stamps else None
        )
    if not np.isfinite(stamps).all():
        return {}, ()
    fields, warnings = _settle_rate_and_pairing(episode, measure_clock(stamps) if record.has_stamps else None)
    return fields | _uneven_clock_fields(fields.get("rate_hz", episode.rate_hz), stamps), warnings


@lru_cache(maxsize=16_384)
def _even_clock(num_steps: int, rate_hz: float) -> MeasuredClock | None:
    """What `measure_clock` finds in even stamps; episodes of one dataset share lengths."""
    import numpy as np

    return measure_clock(np.arange(num_steps) / rate_hz)


def _settle_rate_and_pairing(
    episode: Episode, measured: MeasuredClock | None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The rate that the claim and the measured clock give, and a warning where they disagree."""
    fields: dict[str, Any] = {"frame_pairing": _settle_pairing(episode)}
    warnings: tuple[str, ...] = ()
    if measured:
        fields |= {"measured_rate_hz": measured.rate_hz, "rate_spread": measured.spread}
    if episode.rate_source not in ("assumed", "measured"):
        fields["claimed_rate_hz"] = episode.rate_hz
    if (
        measured
        and episode.rate_source not in ("user", "measured")
        and _rates_disagree(episode.rate_hz, measured)
    ):
        factor = measured.rate_hz / episode.rate_hz
        fields |= {"rate_hz": measured.rate_hz, "rate_source": "measured"}
        if fields["frame_pairing"] == "index":
            fields["cameras"] = tuple(_at_other_rate(camera, factor) for camera in episode.cameras)
        if episode.rate_source != "assumed":
            warnings = (RATES_DISAGREE,)
    return fields, warnings


def _rates_disagree(rate_hz: float, measured: MeasuredClock) -> bool:
    difference = abs(measured.rate_hz / rate_hz - 1)
    return difference > max(_RATE_TOLERANCE, _STANDARD_ERRORS * measured.standard_error)


def _settle_pairing(episode: Episode) -> str:
    has_all = all(camera.media.num_frames == episode.num_steps for camera in episode.cameras)
    return episode.frame_pairing if has_all else "stamp"


def _at_other_rate(camera: Camera, factor: float) -> Camera:
    """The camera with its frames at a rate that is larger by a factor; the same frames of the same file."""
    ref = camera.media
    if ref.kind == "mp4":  # its span is in seconds of the file, which stay
        return replace(camera, media=replace(ref, rate_hz=ref.rate_hz * factor))
    start, stop = ref.start_seconds / factor, ref.stop_seconds / factor
    media = replace(ref, rate_hz=ref.rate_hz * factor, start_seconds=start, stop_seconds=stop)
    return replace(camera, media=media)


def _uneven_clock_fields(rate_hz: float, stamps: NDArray[np.float64]) -> dict[str, Any]:
    """How far stamps are from even ones, and the duration by them, where they are not even."""
    import numpy as np

    shift = float(np.abs(stamps - np.arange(len(stamps)) / rate_hz).max())
    if shift <= _EVEN_SECONDS:
        return {}
    return {"clock_shift_seconds": shift, "stamped_duration_seconds": float(stamps.max()) + 1 / rate_hz}
