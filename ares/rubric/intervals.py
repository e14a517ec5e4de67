"""Intervals of shares: exact ones of Clopper and Pearson, and of the difference of two shares after Newcombe."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Of the two-sided 95 % interval; each bound alone is one of 97.5 %.
_Z = 1.959963984540054
_BISECTIONS = 50


def upper_bound(hits: int, total: int, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of a share (Clopper and Pearson, Biometrika 26, 1934); 1.0 without trials.

    Args:
        hits: Number of trials that came true.
        total: Number of trials.
        confidence: Share of samples in which the bound lies above the true share, at least.
    """
    return 1.0 if hits >= total else 1.0 - lower_bound(total - hits, total, confidence)


def lower_bound(hits: int, total: int, confidence: float = 0.95) -> float:
    """The exact one-sided lower bound of a share; 0.0 without hits. For the arguments see `upper_bound`."""
    if hits <= 0:
        return 0.0
    terms = _log_choices(total)[hits:]
    return _bisect(lambda share: _tail(terms, hits, total, share) > 1.0 - confidence)


@lru_cache(maxsize=32)
def _log_choices(total: int) -> NDArray[np.float64]:
    """(total + 1,) logarithms of the number of ways to choose 0, 1, ... of `total`."""
    import numpy as np

    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    choices: NDArray[np.float64] = factorials[total] - factorials - factorials[::-1]
    return choices


def _tail(terms: NDArray[np.float64], hits: int, total: int, share: float) -> float:
    """Probability of `hits` or more of `total` trials at a share."""
    import numpy as np

    counts = np.arange(hits, total + 1)
    return float(np.exp(terms + counts * log(share) + (total - counts) * log(1.0 - share)).sum())


def _bisect(is_above: Callable[[float], bool]) -> float:
    """The share from which on something holds."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low


def wilson_bounds(hits: int, total: int) -> tuple[float, float]:
    """The two-sided 95 % interval of a share after Wilson (JASA 22, 1927); (0, 1) without trials."""
    if not total:
        return 0.0, 1.0
    share, spread = hits / total, _Z * _Z / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def difference_bounds(hits: int, total: int, other_hits: int, other_total: int) -> tuple[float, float]:
    """The 95 % interval of one share minus another, of independent samples.

    The hybrid score interval, method 10 of Newcombe (Statistics in Medicine 17, 1998); (-1, 1) where one of the samples
    is empty.
    """
    if not total or not other_total:
        return -1.0, 1.0
    share, other = hits / total, other_hits / other_total
    low, high = wilson_bounds(hits, total)
    other_low, other_high = wilson_bounds(other_hits, other_total)
    below = sqrt((share - low) ** 2 + (other_high - other) ** 2)
    above = sqrt((high - share) ** 2 + (other - other_low) ** 2)
    return share - other - below, share - other + above
