"""Corrections of angles that jump by whole turns: state and command are unwrapped together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.quality.catalogue import WRAP_AROUND
from ares.quality.jump_checks import find_turns
from ares.quality.repair.change import Correction, SignalChange, make_change
from ares.quality.signals import EpisodeSignals, paired_dimensions
from ares.quality.statistics import TypicalEpisode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A command further from its state than this share of a turn does not tell which turn it is in.
_FURTHEST_COMMAND = 0.35


def unwrap_turns(
    signals: EpisodeSignals, typical: TypicalEpisode, dimensions: Sequence[str]
) -> Iterator[Correction]:
    """A007: angles count on beyond a turn, from the first value of the episode; their commands do so too."""
    import numpy as np

    turn = float(2 * np.pi * typical.state.units_per_radian)
    jumps = find_turns(signals, typical.state)
    actions = dict(paired_dimensions(signals.state_names, signals.action_names))
    for number in np.flatnonzero(jumps.any(axis=0)).tolist():
        if signals.state_names[number] not in dimensions:
            continue
        column = signals.state[:, number]
        offsets = _offsets(column, jumps[:, number], turn)
        steps = np.flatnonzero(jumps[:, number])
        correction = Correction(
            code=WRAP_AROUND.code,
            signal="state",
            dimension=signals.state_names[number],
            seconds=round(float(signals.seconds[steps[0]]), 3),
        )
        changes = _span_changes("state", signals.state_names, number, column, offsets, signals.seconds)
        command = actions.get(number)
        if command is not None and typical.meaning == "absolute":
            angles = signals.action[:, command]
            turns = _command_turns(angles, column + offsets, typical, turn)
            if turns is None:
                yield replace(correction, left="its command is too far from it to tell its turn")
                continue
            changes += _span_changes("action", signals.action_names, command, angles, turns, signals.seconds)
        yield replace(correction, changes=changes)


def _offsets(column: NDArray[np.float64], jumps: NDArray[np.bool_], turn: float) -> NDArray[np.float64]:
    """(T,) what is added to each value, so that it continues the one before."""
    import numpy as np

    steps = np.where(jumps, -np.sign(np.diff(column)), 0.0)
    return np.concatenate([[0.0], np.cumsum(steps)]) * turn


def _command_turns(
    angles: NDArray[np.float64], unwrapped: NDArray[np.float64], typical: TypicalEpisode, turn: float
) -> NDArray[np.float64] | None:
    """(T,) whole turns by which each command follows its state; 0 where it counts on itself, None where not clear."""
    import numpy as np

    lag = round(typical.lag_steps or 0)
    following = unwrapped[np.clip(np.arange(len(angles)) + lag, 0, len(angles) - 1)]
    ahead = following - angles
    # A command may have another zero than the state: the mean of the angles between them, on the circle.
    offset = float(np.angle(np.exp(2j * np.pi * ahead / turn).mean())) / (2 * np.pi) * turn
    turns = np.round((ahead - offset) / turn)
    if float(np.abs(ahead - offset - turns * turn).max()) > _FURTHEST_COMMAND * turn:
        return None
    return np.asarray((turns - turns[0]) * turn if (turns == turns[0]).all() else turns * turn)


def _span_changes(
    signal: str,
    names: tuple[str, ...],
    number: int,
    column: NDArray[np.float64],
    offsets: NDArray[np.float64],
    seconds: NDArray[np.float64],
) -> tuple[SignalChange, ...]:
    """A change for each span of steps with one offset that is not zero."""
    import numpy as np

    starts = np.flatnonzero(np.diff(offsets, prepend=offsets[0] + 1) != 0).tolist()
    spans = zip(starts, [*starts[1:], len(offsets)], strict=True)
    return tuple(
        make_change(
            WRAP_AROUND.code,
            signal,
            names,
            number,
            (start, stop),
            seconds,
            column[start],
            column[start] + offsets[start],
        )
        for start, stop in spans
        if offsets[start]
    )
