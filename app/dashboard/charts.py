"""Charts: the signals of an episode as lines for the player's plots, thinned so that a browser draws them at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.episode import Json, Signal, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS = 2000
_PARTS = re.compile(r"[._/\s:-]+|(?<=[a-z0-9])(?=[A-Z])")


def signals(trajectory: Trajectory) -> list[Json]:
    """State, action and reward as the player draws them.

    Returns:
        One object per signal: title, times (P,) in seconds, groups of lines with a name and values (P,) each,
        P at most 2000; a value that is not finite is None.
    """
    named = [("State", trajectory.state), ("Action", trajectory.action)]
    found = [
        _signal(title, trajectory.timestamps, signal) for title, signal in named if signal and signal.names
    ]
    if trajectory.reward is not None and len(set(trajectory.reward.tolist())) > 1:
        reward = Signal(values=trajectory.reward[:, None], names=("reward",))
        found.append(_signal("Reward", trajectory.timestamps, reward))
    return [each for each in found if each]


def group_names(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Dimensions under the words that they share at their start; "" holds those that share none.

    Returns:
        (group, positions in `names`), in order of first appearance.
    """
    heads = [_head(name) for name in names]
    shared = {head for head in heads if head and heads.count(head) > 1}
    groups: dict[str, list[int]] = {}
    for position, head in enumerate(heads):
        groups.setdefault(head if head in shared else "", []).append(position)
    return [("", groups[""])] if len(groups) == 1 and "" in groups else list(groups.items())


def kept_steps(values: NDArray[np.float32], most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Steps to draw of a long signal, so that no spike is lost to the eye.

    Args:
        values: (T, D) float32.
        most: Most steps to keep.

    Returns:
        (P,) sorted steps with both ends, P <= most: of every stretch of steps those where the largest-moving
        dimension is least and greatest.
    """
    import numpy as np

    steps = len(values)
    if steps <= most:
        return np.arange(steps)
    scale = np.ptp(values, axis=0)
    busiest = values[:, int(np.argmax(np.where(np.isfinite(scale), scale, -1.0)))]
    stretches = np.array_split(np.arange(steps), (most - 2) // 2)
    ends = [part[int(pick(busiest[part]))] for part in stretches for pick in (np.argmin, np.argmax)]
    return np.unique(np.array([0, *ends, steps - 1]))


def _signal(title: str, times: NDArray[np.float64], signal: Signal) -> dict[str, Json]:
    steps = kept_steps(signal.values)
    lines: list[Json] = [
        {"name": name, "values": _column(signal.values[steps, number])}
        for number, name in enumerate(signal.names)
    ]
    groups: list[Json] = [
        {"name": name, "lines": [lines[position] for position in positions]}
        for name, positions in group_names(signal.names)
    ]
    return {"title": title, "times": [round(float(time), 4) for time in times[steps]], "groups": groups}


def _column(values: NDArray[np.float32]) -> list[Json]:
    import numpy as np

    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _head(name: str) -> str:
    parts = [part for part in _PARTS.split(name) if part]
    return parts[0] if len(parts) > 1 else ""
