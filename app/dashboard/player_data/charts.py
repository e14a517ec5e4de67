"""Signals of an episode as lines for the player's plots, thinned so that a browser draws them quickly."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from app.dashboard.player_data.joint_names import group_dimensions, match_key, short_name
from ares.episode import Json, Signal, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS = 2000


def signal_plots(trajectory: Trajectory) -> list[Json]:
    """Return state, action and reward as the player draws them.

    The action is drawn over the state where it commands the same dimensions in the same numbers: their names are
    equal, and the action stays nearer to the state than the state or the action ranges.

    Returns:
        One object per plot: title, times (P,) in seconds, groups of lines. A line has a name, a label,
        values (P,), and action (P,) or None; P is at most 2000, and a value that is not finite is None.
    """
    state, action = trajectory.state, trajectory.action
    pairs = paired_dimensions(state, action) if state and action else {}
    plots = []
    if state and state.names:
        title = "State and action" if pairs else "State"
        plots.append(_plot(title, trajectory.timestamps, state, action, pairs))
    if action and action.names and len(pairs) < len(action.names):
        rest = [number for number in range(len(action.names)) if number not in pairs.values()]
        unpaired = Signal(values=action.values[:, rest], names=tuple(action.names[number] for number in rest))
        plots.append(_plot("Action", trajectory.timestamps, unpaired))
    if trajectory.reward is not None and len(set(trajectory.reward.tolist())) > 1:
        reward = Signal(values=trajectory.reward[:, None], names=("reward",))
        plots.append(_plot("Reward", trajectory.timestamps, reward))
    return list[Json](plots)


def paired_dimensions(state: Signal, action: Signal) -> dict[int, int]:
    """Numbers of the dimensions of a state by those of the action that commands the same in the same numbers.

    Returns:
        Empty where less than half of the dimensions with equal names agree: the action is then a difference, a speed
        or in another unit.
    """
    keys = [match_key(name) for name in state.names]
    action_keys = [match_key(name) for name in action.names]
    named = {
        number: action_keys.index(key)
        for number, key in enumerate(keys)
        if keys.count(key) == action_keys.count(key) == 1
    }
    near = [
        number
        for number, other in named.items()
        if _are_near(state.values[:, number], action.values[:, other])
    ]
    return named if 2 * len(near) >= len(named) else {}


def _are_near(state: NDArray[np.float32], action: NDArray[np.float32]) -> bool:
    import numpy as np

    finite = np.isfinite(state) & np.isfinite(action)
    if not finite.any():
        return False
    distance = float(np.median(np.abs(state[finite] - action[finite])))
    return distance <= max(float(np.ptp(state[finite])), float(np.ptp(action[finite])), 1e-6)


def thin_steps(values: NDArray[np.float32], most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Return the steps to draw of a long signal, chosen so that no spike is lost.

    Args:
        values: (T, D) float32.
        most: Most steps to return.

    Returns:
        (P,) int64, sorted, with both ends, P <= most. Of every block of steps these are the two at which the
        dimension of the largest range has its minimum and its maximum.
    """
    import numpy as np

    steps = len(values)
    if steps <= most:
        return np.arange(steps)
    scale = np.ptp(values, axis=0)
    widest = values[:, int(np.argmax(np.where(np.isfinite(scale), scale, -1.0)))]
    blocks = np.array_split(np.arange(steps), (most - 2) // 2)
    ends = [block[int(extreme(widest[block]))] for block in blocks for extreme in (np.argmin, np.argmax)]
    return np.unique(np.array([0, *ends, steps - 1]))


def _plot(
    title: str,
    times: NDArray[np.float64],
    signal: Signal,
    action: Signal | None = None,
    pairs: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, Json]:
    steps = thin_steps(signal.values)
    grouped = group_dimensions(signal.names)
    group_of = {position: group for group, positions in grouped for position in positions}
    lines: list[Json] = [
        {
            "name": name,
            "label": short_name(name, group_of[number]),
            "values": _json_values(signal.values[steps, number]),
            "action": _json_values(action.values[steps, pairs[number]])
            if action and number in pairs
            else None,
        }
        for number, name in enumerate(signal.names)
    ]
    groups: list[Json] = [
        {"name": name, "lines": [lines[position] for position in positions]} for name, positions in grouped
    ]
    return {"title": title, "times": [round(float(time), 6) for time in times[steps]], "groups": groups}


def _json_values(values: NDArray[np.float32]) -> list[Json]:
    import numpy as np

    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
