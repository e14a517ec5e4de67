"""Progress over time: how well the values of frames follow the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEWEST_VALUES = 3


def value_order_correlation(values: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Rank correlation of values with their order in time, the value-order correlation of GVL (arXiv 2411.04549).

    Args:
        values: (N,) values of frames in order of time.

    Returns:
        From -1 (falling) to 1 (rising); None for fewer than three values, or where all are equal.
    """
    import numpy as np

    ranks = mean_ranks(np.asarray(values, np.float64))
    if len(ranks) < _FEWEST_VALUES or np.ptp(ranks) == 0:
        return None
    return float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N,) ranks from 0 of N values; equal values share the mean of their ranks."""
    import numpy as np

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts + 1) / 2)[inverse]
    return ranks
