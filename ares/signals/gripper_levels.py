"""Where a gripper stays while a command holds, and whether an episode has the command turned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.signals.dimension_kinds import classify_by_name
from ares.signals.plain_arrays import EpisodeSignals, paired_dimensions
from ares.signals.step_runs import find_runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A gripper has obeyed a command that has held for so long, and the place where it stays is taken from then on.
_OBEYED_SECONDS = 0.5
# Two commands are one within this share of their range, and two openings within that of theirs.
_SAME_SHARE = 0.2
# Of so many episodes of a task this share has the turned command with the opening of an episode, and so many times as
# many as have its command.
_FEWEST_OF_TASK, _MOST_AGREE, _TURNED_ODDS = 8, 0.6, 4.0


def gripper_levels(signals: EpisodeSignals) -> NDArray[np.float64]:
    """(P, 2, 2): for each pair that is a gripper its lowest and highest command that holds, each with the opening.

    NaN for other pairs, and where no command holds.
    """
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    levels, wait = np.full((len(pairs), 2, 2), np.nan), round(_OBEYED_SECONDS * signals.rate_hz)
    for row, (opening, command) in enumerate(pairs):
        if classify_by_name(signals.state_names)[opening] != "gripper":
            continue
        commands, openings = signals.action[:, command], signals.state[:, opening]
        holds = np.abs(np.diff(commands)) <= 0.02 * np.ptp(commands)
        obeyed = np.zeros(len(commands), dtype=bool)
        for start, stop in find_runs(holds).tolist():
            obeyed[start + wait : stop + 1] = True
        if obeyed.any():
            steady = commands[obeyed]
            for end, value in enumerate((steady.min(), steady.max())):
                near = np.abs(steady - value) <= _SAME_SHARE * np.ptp(steady)
                levels[row, end] = value, np.median(openings[obeyed][near])
    return levels


def turned_commands(
    levels: NDArray[np.float64], others: NDArray[np.float64], bounds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(P,) by how large a share of the episodes of its task a gripper's command is contradicted; 0 where it is not.

    Args:
        levels: (P, 2, 2) of an episode, see `gripper_levels`.
        others: (N, P, 2, 2) of the episodes of its task, itself among them.
        bounds: (P, 2, 2) smallest and largest value of command and opening in the dataset.
    """
    import numpy as np

    turned = np.zeros(len(levels))
    if len(others) < _FEWEST_OF_TASK:
        return turned
    width = _SAME_SHARE * (bounds[:, 1] - bounds[:, 0])
    mirrored = levels.copy()
    mirrored[:, :, 0] = bounds[:, None, :, 0].sum(axis=2) - levels[:, :, 0]

    def support(expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """(P, 2) share of the episodes that have a level as expected."""
        near = np.abs(others[:, :, None] - expected[None, :, :, None]) <= width[None, :, None, None]
        return np.asarray(np.any(np.all(near, axis=4), axis=3).mean(axis=0))

    says = np.abs(mirrored - levels)[:, :, 0] > width[:, None, 0]
    says &= np.all(width > 0, axis=1)[:, None]
    own, other = support(levels), support(mirrored)
    against = says & (other >= _MOST_AGREE) & (other >= _TURNED_ODDS * own)
    is_turned = against.any(axis=1) & ~(says & (own > other)).any(axis=1)
    return np.where(is_turned, np.where(against, other - own, 0.0).max(axis=1), 0.0)
