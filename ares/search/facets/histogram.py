"""Bin edges of a histogram: few even bins with round edges, over the range that holds most of the values."""

from __future__ import annotations

import math

_MAX_BINS = 20
# A range this many times wider than the central 99% of the values contains outliers.
_OUTLIER_FACTOR = 4.0
_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def bin_edges(lowest: float, highest: float, low: float, high: float, integers: bool) -> tuple[float, ...]:
    """Round edges, length B + 1, of the bins of a column; a bin includes its lower edge, and the last bin both.

    Args:
        lowest: The smallest finite value.
        highest: The largest finite value.
        low: The 0.5% quantile.
        high: The 99.5% quantile.
        integers: Whether the values are whole numbers.
    """
    if low < high and highest / _OUTLIER_FACTOR - lowest / _OUTLIER_FACTOR > high - low:
        # A side without outliers keeps its end.
        margin = high - low
        lowest, highest = max(lowest, low - margin / 2), min(highest, high + margin / 2)
    step = _bin_width(lowest, highest, integers)
    if step <= 0 or not math.isfinite(step):
        return lowest, highest
    first, last = math.floor(lowest / step), math.floor(highest / step)
    # An integer at the end of the range needs a bin of its own; any other number shares the last bin.
    stop = last if last * step >= highest and last > first and not integers else last + 1
    digits = max(0, 2 - math.floor(math.log10(step)))
    return tuple(round(number * step, digits) for number in range(first, stop + 1))


def _bin_width(lowest: float, highest: float, integers: bool) -> float:
    """The smallest round width with which `_MAX_BINS` bins cover the range; 0 when the range is a point."""
    target = highest / _MAX_BINS - lowest / _MAX_BINS
    if target <= 0 or lowest + target == lowest:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(target))
    width = next((unit * factor for factor in _ROUND_STEPS if unit * factor >= target), unit * 10.0)
    return max(1.0, float(math.ceil(width))) if integers else width
