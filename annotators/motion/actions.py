"""Measures of the actions alone: how often they are at their limits, and how far they jump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotators.motion.resampling import resample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal

# An action is saturated within this share of its dimension's range from the range's ends.
SATURATION_MARGIN = 0.01


def measure_actions(action: Signal | None, seconds: NDArray[np.float64]) -> dict[str, float]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values.

    Args:
        action: The actions.
        seconds: (T,) stamps.
    """
    import numpy as np

    if action is None or not np.isfinite(action.values).all():
        return {}
    values = action.values.astype(np.float64)
    ordered = np.sort(values, axis=0)
    continuous = (np.diff(ordered, axis=0) > 0).sum(axis=0) >= 3
    if not continuous.any():
        return {}
    values = values[:, continuous]
    low, high = values.min(axis=0), values.max(axis=0)
    margin = SATURATION_MARGIN * (high - low)
    # The extreme itself is always at the end of its range, so one value per end does not count as saturation.
    ends = ((values <= low + margin).sum(axis=0) - 1) + ((values >= high - margin).sum(axis=0) - 1)
    return {
        "action_saturation": float(ends.sum() / values.size),
        **_jumps(values, seconds),
    }


def _jumps(values: NDArray[np.float64], seconds: NDArray[np.float64]) -> dict[str, float]:
    """Changes from one mean of 0.1 s to the next, as a share of the usual range: neither rate nor length matter."""
    import numpy as np

    if np.any(np.diff(seconds) <= 0):
        return {}
    means, _ = resample(values, seconds)
    low, high = np.quantile(values, (0.05, 0.95), axis=0)
    wide = high > low
    if len(means) < 2 or not wide.any():
        return {}
    return {"action_jumps": float(np.mean(np.abs(np.diff(means[:, wide], axis=0)) / (high - low)[wide]))}
