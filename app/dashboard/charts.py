"""Signals of an episode as lines for the player's plots, thinned so that a browser draws them quickly."""

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


def signal_plots(trajectory: Trajectory) -> list[Json]:
    """Return state, action and reward as the player draws them.

    Returns:
        One object per signal: title, times (P,) in seconds, groups of lines with a name and values (P,) each,
        P at most 2000; a value that is not finite is None.
    """
    named = [("State", trajectory.state), ("Action", trajectory.action)]
    plots = [
        _plot(title, trajectory.timestamps, signal) for title, signal in named if signal and signal.names
    ]
    if trajectory.reward is not None and len(set(trajectory.reward.tolist())) > 1:
        reward = Signal(values=trajectory.reward[:, None], names=("reward",))
        plots.append(_plot("Reward", trajectory.timestamps, reward))
    return [plot for plot in plots if plot]


def group_dimensions(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Group dimensions by the first word of their names; the group "" has those that share none.

    Returns:
        (group, positions in `names`), in order of first appearance.
    """
    first_words = [_first_word(name) for name in names]
    shared = {word for word in first_words if word and first_words.count(word) > 1}
    groups: dict[str, list[int]] = {}
    for position, word in enumerate(first_words):
        groups.setdefault(word if word in shared else "", []).append(position)
    return [("", groups[""])] if len(groups) == 1 and "" in groups else list(groups.items())


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


def _plot(title: str, times: NDArray[np.float64], signal: Signal) -> dict[str, Json]:
    steps = thin_steps(signal.values)
    lines: list[Json] = [
        {"name": name, "values": _json_values(signal.values[steps, number])}
        for number, name in enumerate(signal.names)
    ]
    groups: list[Json] = [
        {"name": name, "lines": [lines[position] for position in positions]}
        for name, positions in group_dimensions(signal.names)
    ]
    return {"title": title, "times": [round(float(time), 6) for time in times[steps]], "groups": groups}


def _json_values(values: NDArray[np.float32]) -> list[Json]:
    import numpy as np

    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _first_word(name: str) -> str:
    parts = [part for part in _PARTS.split(name) if part]
    return parts[0] if len(parts) > 1 else ""
