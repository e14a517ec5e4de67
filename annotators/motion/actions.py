"""What the actions of an episode say: saturation, jumps, and the lag of the state behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.signals import EpisodeSignals, estimate_action_lag, paired_dimensions
from ares_annotators.motion.periods import EpisodePeriods, compute_sorted_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory
    from ares.signals import ActionMeaning


# An action is saturated within this share of its dimension's range from the range's ends.
SATURATION_MARGIN = 0.01


def measure_actions(action: Signal | None, periods: EpisodePeriods | None) -> dict[str, float]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values.

    Args:
        action: The actions.
        periods: Of the episode; None where its stamps jump or do not rise.
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
    return {"action_saturation": saturation, **(_action_jumps(values, ordered, periods) if periods else {})}


def _action_jumps(
    values: NDArray[np.float64], ordered: NDArray[np.float64], periods: EpisodePeriods
) -> dict[str, float]:
    """Changes from one mean of 0.1 s to the next, as a share of the usual range: neither rate nor length matter.

    Args:
        values: (T, D) actions.
        ordered: The same, each dimension sorted.
        periods: Of the episode.
    """
    import numpy as np

    low, high = compute_sorted_quantile(ordered, 0.05), compute_sorted_quantile(ordered, 0.95)
    wide = high > low
    if periods.count < 2 or not wide.any():
        return {}
    means = periods.means(values[:, wide])
    return {"action_jumps": float((np.abs(np.diff(means, axis=0)) / (high - low)[wide]).mean())}


# A dimension moves where its range is at least this share of the largest one of the state.
_MOVING_SHARE = 0.03


def measure_action_lag(trajectory: Trajectory, meaning: ActionMeaning | None) -> float | None:
    """Seconds by which the state follows the action; None where the signals do not say it.

    Args:
        trajectory: The signals.
        meaning: What the action commands; None where nothing tells it.
    """
    import numpy as np

    state, action, seconds = trajectory.state, trajectory.action, trajectory.timestamps
    if meaning is None or state is None or action is None or not seconds[-1] > seconds[0]:
        return None
    signals = EpisodeSignals(
        episode_id="",
        seconds=seconds,
        state=state.values.astype(np.float64),
        action=action.values.astype(np.float64),
        state_names=state.names,
        action_names=action.names,
        rate_hz=(len(seconds) - 1) / float(seconds[-1] - seconds[0]),
    )
    if not (np.isfinite(signals.state).all() and np.isfinite(signals.action).all()):
        return None
    largest = float(np.ptp(signals.state, axis=0).max(initial=0.0))
    pairs = paired_dimensions(state.names, action.names)
    estimate = estimate_action_lag(signals, meaning, np.full(len(pairs), _MOVING_SHARE * largest))
    if estimate is None or estimate.lag_steps is None:
        return None
    return round(estimate.lag_steps / signals.rate_hz, 6)
