"""Bins: the bars of a histogram: even, few, with round edges, over the range that most of the values lie in."""

from __future__ import annotations

import math

_MOST_BINS = 20
# A range this many times wider than that of the middle 99% is the work of outliers.
_OUTLYING = 4.0
_ROUND_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def bins(least: float, most: float, low: float, high: float, whole: bool) -> tuple[float, ...]:
    """Edges of round bins for the values of a column: length B + 1; a bin holds its lower edge, the last one both.

    Args:
        least: The smallest finite value.
        most: The largest.
        low: The 0.5% quantile.
        high: The 99.5% quantile.
        whole: Whether the values are whole numbers.
    """
    if low < high and most / _OUTLYING - least / _OUTLYING > high - low:
        # Not beyond what is there: a tail on one side only leaves the other side as it is.
        margin = high - low
        least, most = max(least, low - margin / 2), min(most, high + margin / 2)
    step = _step(least, most, whole)
    if step <= 0 or not math.isfinite(step):
        return least, most
    first, last = math.floor(least / step), math.floor(most / step)
    # A whole number that ends the range needs a bin of its own; another number shares the last one.
    stop = last if last * step >= most and last > first and not whole else last + 1
    digits = max(0, 2 - math.floor(math.log10(step)))
    return tuple(round(place * step, digits) for place in range(first, stop + 1))


def _step(least: float, most: float, whole: bool) -> float:
    """The least round width of which `_MOST_BINS` bins cover the range; 0 when the range is a point."""
    wanted = most / _MOST_BINS - least / _MOST_BINS
    if wanted <= 0 or least + wanted == least:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(wanted))
    step = next((unit * part for part in _ROUND_STEPS if unit * part >= wanted), unit * 10.0)
    return max(1.0, float(math.ceil(step))) if whole else step
