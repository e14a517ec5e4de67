"""The signals of one episode as plain arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ares.signals.quaternions import quaternion_starts, remove_quaternion_sign_flips

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Episode, Signal, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodeSignals:
    """The signals of one episode.

    Attributes:
        episode_id: Id of the episode.
        seconds: (T,) seconds from the start.
        state: (T, S); S is 0 without state.
        action: (T, A); A is 0 without action.
        state_names: Names of the S dimensions.
        action_names: Names of the A dimensions.
        rate_hz: Steps per second.
        claimed_rate_hz: Rate that the dataset claims, or None.
        measured_rate_hz: Rate by the stamps, or None.
        task: The instruction, or "".
    """

    episode_id: str
    seconds: NDArray[np.float64]
    state: NDArray[np.float64]
    action: NDArray[np.float64]
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    rate_hz: float
    claimed_rate_hz: float | None = None
    measured_rate_hz: float | None = None
    task: str = ""


def episode_signals(episode: Episode, trajectory: Trajectory) -> EpisodeSignals:
    """The signals of a record."""
    steps = len(trajectory.timestamps)
    return EpisodeSignals(
        episode_id=episode.episode_id,
        seconds=trajectory.timestamps,
        state=_values_or_empty(trajectory.state, steps),
        action=_values_or_empty(trajectory.action, steps),
        state_names=trajectory.state.names if trajectory.state is not None else (),
        action_names=trajectory.action.names if trajectory.action is not None else (),
        rate_hz=episode.rate_hz,
        claimed_rate_hz=episode.claimed_rate_hz,
        measured_rate_hz=episode.measured_rate_hz,
        task=episode.instruction,
    )


def with_continuous_rotations(signals: EpisodeSignals) -> EpisodeSignals:
    """The episode without changes of sign of its quaternions; itself where there are none."""
    state, action = remove_quaternion_sign_flips(signals.state), remove_quaternion_sign_flips(signals.action)
    action = _turned_like(state, action, paired_dimensions(signals.state_names, signals.action_names))
    if state is signals.state and action is signals.action:
        return signals
    return replace(signals, state=state, action=action)


def _turned_like(
    state: NDArray[np.float64], action: NDArray[np.float64], pairs: tuple[tuple[int, int], ...]
) -> NDArray[np.float64]:
    """The action (T, A) with its quaternions on the side of those of the state with the same names."""
    of_state = dict(pairs)
    for start in quaternion_starts(state):
        dims = [of_state.get(int(start) + part, -1) for part in range(4)]
        if min(dims) >= 0 and float((state[:, start : start + 4] * action[:, dims]).sum()) < 0:
            action = action.copy()
            action[:, dims] *= -1
    return action


def _values_or_empty(signal: Signal | None, steps: int) -> NDArray[np.float64]:
    import numpy as np

    return np.zeros((steps, 0)) if signal is None else signal.values.astype(np.float64)


@functools.lru_cache(maxsize=256)
def paired_dimensions(
    state_names: tuple[str, ...], action_names: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """Dimensions of state and action with one name, as pairs (state, action) of numbers.

    Numbered names without any match are not paired: nothing says that they mean the same.
    """
    positions = {_name_without_role(name): number for number, name in enumerate(state_names)}
    pairs = [
        (positions[_name_without_role(name)], number)
        for number, name in enumerate(action_names)
        if _name_without_role(name) in positions
    ]
    return tuple(pairs)


def _name_without_role(name: str) -> str:
    """A name without what distinguishes state and action; a bare number stays what it was."""
    text = name.lower().removeprefix("observation.")
    for prefix in ("state.", "action.", "states_", "actions_", "state_", "action_"):
        text = text.removeprefix(prefix)
    text = text.removesuffix(".pos").removesuffix("_pos")
    return name if text.isdigit() else text


# What an action means: where the state is to be, or how far or how fast it is to move.
ActionMeaning = Literal["absolute", "relative"]
