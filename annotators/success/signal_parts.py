"""The parts of success that robot signals give: how an episode ends, and how rough its actions are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory


_FEWEST_STEPS = 8
# Share of the steps that counts as the end of an episode.
_END_SHARE = 0.2
_LEAST_RANGE = 1e-9


def measure_success_signals(trajectory: Trajectory | None) -> dict[str, float]:
    """Parts without unit, so that robots and rates can be compared; none for an episode without signals.

    Their distance from typical values of successes is the part `signal_distance`, see `Combination`.

    - `end_speed`: speed of the state at the end, over its mean.
    - `end_effort`: size of the actions at the end, over its mean.
    - `action_jumps`: mean change of the actions, over their standard deviation.
    """
    if trajectory is None:
        return {}
    state, action = _finite_values(trajectory.state), _finite_values(trajectory.action)
    return {
        **({} if state is None else _state_parts(state)),
        **({} if action is None else _action_parts(action)),
    }


def _finite_values(signal: Signal | None) -> NDArray[np.float64] | None:
    """(T, D) values of the dimensions that vary; None where they are not finite, too short, or all constant."""
    import numpy as np

    if signal is None or len(signal.values) < _FEWEST_STEPS or not np.isfinite(signal.values).all():
        return None
    values = signal.values.astype(np.float64)
    values = values[:, np.ptp(values, axis=0) > _LEAST_RANGE]
    return values if values.shape[1] else None


def _state_parts(state: NDArray[np.float64]) -> dict[str, float]:
    import numpy as np

    scaled = (state - state.min(axis=0)) / np.ptp(state, axis=0)
    speed = np.linalg.norm(np.diff(scaled, axis=0), axis=1)
    end = max(1, round(_END_SHARE * len(speed)))
    return {"end_speed": float(speed[-end:].mean() / speed.mean())}


def _action_parts(action: NDArray[np.float64]) -> dict[str, float]:
    import numpy as np

    size = np.abs(action).mean(axis=1)
    end = max(1, round(_END_SHARE * len(size)))
    jumps = np.abs(np.diff(action, axis=0)).mean(axis=0) / action.std(axis=0)
    return {
        "end_effort": float(size[-end:].mean() / max(size.mean(), _LEAST_RANGE)),
        "action_jumps": float(jumps.mean()),
    }
