"""Faults of meaning at random: kind, dimension, place and size are drawn, the size relative to the signal's own scale.

Written before the checks that are to find them, from the words of issue 33 and from no check. A fault concerns one
episode, or half of the episodes of a dataset where a convention is turned in state and action alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ares.signals.plain_arrays import EpisodeSignals

Array = NDArray[np.float64]

SignalName = Literal["state", "action"]
# A dimension can carry a fault where it moves by so much of the one that moves most, and has so many values.
_LEAST_SHARE, _FEWEST_VALUES = 0.1, 12
# Fewest steps of an episode, and fewest episodes of which half are turned.
_FEWEST_STEPS, _FEWEST_TURNED = 20, 4
# Servo ticks per radian, and the tick at the middle of the turn.
_TICKS = (
    (4096 / 6.283185307179586, 2048.0),
    (1024 / 5.235987755982989, 512.0),
    (16384 / 6.283185307179586, 8192.0),
)
_MOST_RADIANS = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedMeaning:
    """A dataset with one fault.

    Attributes:
        kind: Kind of the fault.
        episodes: All episodes of the dataset, the faulty ones changed.
        faulty: Numbers of the episodes that were changed.
        dimensions: Names of the dimensions that were changed; empty where all were, or the stamps.
    """

    kind: str
    episodes: tuple[EpisodeSignals, ...]
    faulty: tuple[int, ...]
    dimensions: tuple[str, ...] = ()


Planting = Callable[["Sequence[EpisodeSignals]", "np.random.Generator"], "PlantedMeaning | None"]


def plant_meaning(
    kind: str, episodes: Sequence[EpisodeSignals], rng: np.random.Generator
) -> PlantedMeaning | None:
    """The dataset with a fault of a kind of `MEANING_FAULTS`; None where it has no room for it."""
    return MEANING_FAULTS[kind](episodes, rng)


def _drawn_episode(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> int | None:
    long = [number for number, episode in enumerate(episodes) if len(episode.state) >= _FEWEST_STEPS]
    return int(rng.choice(long)) if long else None


def _moving_dimensions(values: Array) -> list[int]:
    """Dimensions (T, D) that move, and take more than a few values."""
    if not values.shape[1]:
        return []
    spans = np.ptp(values, axis=0)
    levels = (np.diff(np.sort(values, axis=0), axis=0) > 0).sum(axis=0) + 1
    return np.flatnonzero(
        (spans > _LEAST_SHARE * spans.max(initial=0.0)) & (spans > 0) & (levels >= _FEWEST_VALUES)
    ).tolist()


def _values(episode: EpisodeSignals, signal: SignalName) -> Array:
    return episode.state if signal == "state" else episode.action


def _names(episode: EpisodeSignals, signal: SignalName) -> tuple[str, ...]:
    return episode.state_names if signal == "state" else episode.action_names


def _with_values(episode: EpisodeSignals, signal: SignalName, values: Array) -> EpisodeSignals:
    return replace(episode, state=values) if signal == "state" else replace(episode, action=values)


def _with_episode(
    kind: str,
    episodes: Sequence[EpisodeSignals],
    number: int,
    changed: EpisodeSignals,
    dimensions: tuple[str, ...] = (),
) -> PlantedMeaning:
    every = (*episodes[:number], changed, *episodes[number + 1 :])
    return PlantedMeaning(kind=kind, episodes=every, faulty=(number,), dimensions=dimensions)


def _plant_spike(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """One value of state or action is off by 0.4 to 1.2 of the range of its dimension."""
    number = _drawn_episode(episodes, rng)
    signal: SignalName = "state" if rng.random() < 0.5 else "action"
    dims = _moving_dimensions(_values(episodes[number], signal)) if number is not None else []
    if number is None or not dims:
        return None
    episode, dim = episodes[number], int(rng.choice(dims))
    values = _values(episode, signal).copy()
    size = rng.uniform(0.4, 1.2) * float(np.ptp(values[:, dim]))
    values[int(rng.integers(3, len(values) - 3)), dim] += size * rng.choice([-1, 1])
    changed = _with_values(episode, signal, values)
    return _with_episode("spike", episodes, number, changed, (_names(episode, signal)[dim],))


def _plant_offset(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """A dimension of the state is off by 0.3 to 1 of its range, in the whole episode or from a step on."""
    number = _drawn_episode(episodes, rng)
    dims = _moving_dimensions(episodes[number].state) if number is not None else []
    if number is None or not dims:
        return None
    episode, dim = episodes[number], int(rng.choice(dims))
    state = episode.state.copy()
    start = 0 if rng.random() < 0.5 else int(rng.uniform(0.2, 0.8) * len(state))
    state[start:, dim] += rng.uniform(0.3, 1.0) * float(np.ptp(state[:, dim])) * rng.choice([-1, 1])
    changed = replace(episode, state=state)
    return _with_episode("offset", episodes, number, changed, (episode.state_names[dim],))


def _plant_jitter(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """Every stamp is off by up to 0.2 to 0.45 of the period."""
    number = _drawn_episode(episodes, rng)
    if number is None:
        return None
    episode, size = episodes[number], rng.uniform(0.2, 0.45)
    shift = rng.uniform(-size, size, len(episode.seconds)) / episode.rate_hz
    return _with_episode("jitter", episodes, number, replace(episode, seconds=episode.seconds + shift))


def _plant_held(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """One dimension of the state, or all, have a new value only every 3 to 6 steps."""
    number = _drawn_episode(episodes, rng)
    dims = _moving_dimensions(episodes[number].state) if number is not None else []
    if number is None or not dims:
        return None
    episode = episodes[number]
    is_one = rng.random() < 0.5
    chosen = [int(rng.choice(dims))] if is_one else list(range(episode.state.shape[1]))
    rows, state = np.arange(len(episode.state)), episode.state.copy()
    state[:, chosen] = episode.state[rows - rows % int(rng.integers(3, 7))][:, chosen]
    names = (episode.state_names[chosen[0]],) if is_one else ()
    return _with_episode("held", episodes, number, replace(episode, state=state), names)


def _plant_stale(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """The whole state keeps the reading of one step for 0.4 to 1.2 s while the robot moves, then goes on."""
    number = _drawn_episode(episodes, rng)
    dims = _moving_dimensions(episodes[number].state) if number is not None else []
    if number is None or not dims:
        return None
    episode = episodes[number]
    steps, state = max(4, round(rng.uniform(0.4, 1.2) * episode.rate_hz)), episode.state.copy()
    if len(state) < steps + 8:
        return None
    moved = np.abs(state[steps:, dims] - state[:-steps, dims]) / np.ptp(state[:, dims], axis=0)
    starts = np.flatnonzero(moved.max(axis=1)[3:-3] > 0.15) + 3
    if not len(starts):
        return None
    start = int(rng.choice(starts))
    state[start : start + steps] = state[start]
    return _with_episode("stale", episodes, number, replace(episode, state=state))


def _plant_late(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """The action comes 4 to 10 steps late, in one episode."""
    number = _drawn_episode(episodes, rng)
    if number is None or not _moving_dimensions(episodes[number].action):
        return None
    episode = episodes[number]
    rows = np.clip(np.arange(len(episode.action)) - int(rng.integers(4, 11)), 0, None)
    return _with_episode("late", episodes, number, replace(episode, action=episode.action[rows]))


def _plant_still(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """The robot never moves: the state is its first row, exactly or with the noise of its values."""
    number = _drawn_episode(episodes, rng)
    if number is None or not _moving_dimensions(episodes[number].state):
        return None
    state = episodes[number].state
    noise = 1.48 * np.median(np.abs(np.diff(state, n=3, axis=0)), axis=0) / np.sqrt(20)
    noise = noise * (rng.random() < 0.5)
    still = state[0] + rng.normal(0, 1, state.shape) * np.minimum(noise, 0.002 * np.ptp(state, axis=0))
    return _with_episode("still", episodes, number, replace(episodes[number], state=still))


def _plant_ticks(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """All joints of an episode, in state and action, are servo ticks among radians."""
    number = _drawn_episode(episodes, rng)
    if number is None or not episodes[number].state.shape[1] or len(episodes) < 2:
        return None
    episode, (per_radian, middle) = episodes[number], _TICKS[int(rng.integers(len(_TICKS)))]
    joints = {
        signal: [dim for dim, name in enumerate(_names(episode, signal)) if _is_joint(name)]
        for signal in ("state", "action")
    }
    largest = abs(episode.state[:, joints["state"]]).max(initial=0.0)
    if len(joints["state"]) < 3 or largest > _MOST_RADIANS or not largest:
        return None
    state, action = episode.state.copy(), episode.action.copy()
    for values, dims in ((state, joints["state"]), (action, joints["action"])):
        values[:, dims] = (middle + per_radian * values[:, dims]).round()
    return _with_episode("ticks", episodes, number, replace(episode, state=state, action=action))


def _is_joint(name: str) -> bool:
    words = name.lower()
    parts = ("joint", "shoulder", "elbow", "wrist", "arm", "waist", "forearm", "qpos")
    return any(part in words for part in parts) and not any(
        part in words for part in ("grip", "hand", "finger")
    )


def _turned_half(
    kind: str, episodes: Sequence[EpisodeSignals], rng: np.random.Generator, is_gripper: bool
) -> PlantedMeaning | None:
    """A dimension of state and action turned in half of the episodes: its sign, or which end of its range is which."""
    names = episodes[0].state_names
    every = np.concatenate([episode.state for episode in episodes])
    spans = np.ptp(every, axis=0)
    dims = [
        dim
        for dim, name in enumerate(names)
        if ("grip" in name.lower()) == is_gripper
        and spans[dim] > _LEAST_SHARE * (0 if is_gripper else spans.max())
    ]
    if len(episodes) < _FEWEST_TURNED or not dims or every.shape[0] < _FEWEST_STEPS:
        return None
    dim = int(rng.choice(dims))
    faulty = sorted(rng.choice(len(episodes), len(episodes) // 2, replace=False).tolist())
    changed = list(episodes)
    for number in faulty:
        changed[number] = _turned_episode(episodes, number, names[dim], is_gripper)
    return PlantedMeaning(kind=kind, episodes=tuple(changed), faulty=tuple(faulty), dimensions=(names[dim],))


def _turned_episode(
    episodes: Sequence[EpisodeSignals], number: int, name: str, is_gripper: bool
) -> EpisodeSignals:
    episode = episodes[number]
    signals: tuple[SignalName, ...] = ("state", "action")
    for signal in signals:
        if name in _names(episode, signal):
            dim = _names(episode, signal).index(name)
            every = np.concatenate([_values(other, signal)[:, dim] for other in episodes])
            values = _values(episode, signal).copy()
            total = every.min() + every.max() if is_gripper else 0.0
            values[:, dim] = total - values[:, dim]
            episode = _with_values(episode, signal, values)
    return episode


def _plant_sign(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """A sign is turned in state and action of half of the episodes."""
    return _turned_half("sign", episodes, rng, is_gripper=False)


def _plant_gripper(episodes: Sequence[EpisodeSignals], rng: np.random.Generator) -> PlantedMeaning | None:
    """The open end of a gripper is the other one in state and action of half of the episodes."""
    return _turned_half("gripper", episodes, rng, is_gripper=True)


MEANING_FAULTS: Mapping[str, Planting] = {
    "spike": _plant_spike,
    "offset": _plant_offset,
    "jitter": _plant_jitter,
    "held": _plant_held,
    "stale": _plant_stale,
    "late": _plant_late,
    "still": _plant_still,
    "ticks": _plant_ticks,
    "sign": _plant_sign,
    "gripper": _plant_gripper,
}
