"""Measures of the actions alone: how often they are at their limits, and how far they jump."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ares.episode import Signal

# An action is saturated within this share of its dimension's range from the range's ends.
SATURATION_MARGIN = 0.01


def measure_actions(action: Signal | None) -> dict[str, float]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values."""
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
        "action_jumps": float(np.mean(np.abs(np.diff(values, axis=0)) / (high - low))),
    }
