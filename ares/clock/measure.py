"""The rate of a clock, measured from its stamps so that jitter, dropped steps and gaps do not change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
    numbers = _centred(np.concatenate(([0.0], np.cumsum(np.where(is_gap, 0, counts)))), parts)
    period = float(numbers @ _centred(seconds, parts)) / float(numbers @ numbers)
    quartiles = np.percentile(rising, (25, 75))
    spread = float(quartiles[1] - quartiles[0]) / median
    # Two stamps make a period, so that a stamp is off by less than a period is, by the root of two.
    sigma = spread * median / _QUARTILES_PER_SIGMA / np.sqrt(2)
    error = float(sigma / np.sqrt(numbers @ numbers)) / period
    return MeasuredClock(1 / period, round(spread, _SPREAD_DIGITS), error)


def _centred(values: NDArray[np.float64], parts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values minus the mean of their part."""
    import numpy as np

    means = np.bincount(parts, values) / np.bincount(parts)
    centred: NDArray[np.float64] = values - means[parts]
    return centred
