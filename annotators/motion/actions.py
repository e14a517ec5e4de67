"""Measures of the actions alone: how often they are at their limits, and how far they jump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotators.motion.order_statistics import sorted_quantile
from annotators.motion.resampling import EqualPeriods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal

# An action is saturated within this share of its dimension's range from the range's ends.
SATURATION_MARGIN = 0.01


def measure_actions(action: Signal | None, periods: EqualPeriods | None) -> dict[str, float]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values.

    Args:
        action: The actions.
        periods: Of the episode; None where its stamps do not rise.
    """
    import numpy as np

    if action is None or not np.isfinite(action.values).all():
        return {}
    values = action.values.astype(np.float64)
    ordered = np.sort(values, axis=0)
    continuous = (ordered[1:] > ordered[:-1]).sum(axis=0) >= 3
    if not continuous.any():
        return {}
    values, ordered = values[:, continuous], ordered[:, continuous]
    low, high = ordered[0], ordered[-1]
    margin = SATURATION_MARGIN * (high - low)
    # The extreme itself is always at the end of its range, so one value per end does not count as saturation.
    ends = ((values <= low + margin).sum(axis=0) - 1) + ((values >= high - margin).sum(axis=0) - 1)
    saturation = float(ends.sum() / values.size)
    return {"action_saturation": saturation, **(_jumps(values, ordered, periods) if periods else {})}


def _jumps(
    values: NDArray[np.float64], ordered: NDArray[np.float64], periods: EqualPeriods
) -> dict[str, float]:
    """Changes from one mean of 0.1 s to the next, as a share of the usual range: neither rate nor length matter.

    Args:
        values: (T, D) actions.
        ordered: The same, each dimension sorted.
        periods: Of the episode.
    """
    import numpy as np

    low, high = sorted_quantile(ordered, 0.05), sorted_quantile(ordered, 0.95)
    wide = high > low
    if periods.count < 2 or not wide.any():
        return {}
    means = periods.means(values[:, wide])
    return {"action_jumps": float((np.abs(np.diff(means, axis=0)) / (high - low)[wide]).mean())}
