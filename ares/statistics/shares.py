"""Bounds of a share and of the difference of two shares, for items that are independent of each other."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

from ares.statistics.beta import beta_cdf

# Of the two-sided 95 % interval; each bound alone is one of 97.5 %.
_Z = 1.959963984540054
_BISECTIONS = 50


def upper_bound(hits: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of a share (Clopper and Pearson, Biometrika 26, 1934); 1.0 without trials.

    Args:
        hits: Number of trials that came true; with an effective number of trials it need not be whole.
        total: Number of trials.
        confidence: Share of samples in which the bound lies above the true share, at least.
    """
    return 1.0 if hits >= total else 1.0 - lower_bound(total - hits, total, confidence)


def lower_bound(hits: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided lower bound of a share; 0.0 without hits. For the arguments see `upper_bound`."""
    if hits <= 0:
        return 0.0
    # The chance of at least so many hits is the distribution function of a beta distribution at the share.
    return _bisect(lambda share: beta_cdf(share, hits, total - hits + 1) > 1.0 - confidence)


def _bisect(is_above: Callable[[float], bool]) -> float:
    """The share from which on something holds."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low


def wilson_interval(hits: float, total: float) -> tuple[float, float]:
    """The two-sided 95 % interval of a share after Wilson (JASA 22, 1927); (0, 1) without trials."""
    if not total:
        return 0.0, 1.0
    share, spread = hits / total, _Z * _Z / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def difference_bounds(
    hits: float, total: float, other_hits: float, other_total: float
) -> tuple[float, float]:
    """The 95 % interval of one share minus another, of independent samples.

    The hybrid score interval, method 10 of Newcombe (Statistics in Medicine 17, 1998); (-1, 1) where one of the samples
    is empty.
    """
    if not total or not other_total:
        return -1.0, 1.0
    share, other = hits / total, other_hits / other_total
    low, high = wilson_interval(hits, total)
    other_low, other_high = wilson_interval(other_hits, other_total)
    below = sqrt((share - low) ** 2 + (other_high - other) ** 2)
    above = sqrt((high - share) ** 2 + (other - other_low) ** 2)
    return share - other - below, share - other + above
