"""Settles the clock of a record: the rate that its stamps show, and whether frames are paired by index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Camera, Episode, Record


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
