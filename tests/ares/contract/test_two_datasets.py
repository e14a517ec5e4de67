"""Two datasets of one robot: whatever convention differs between them is refused or asked about, two halves never."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.contract import (
    Clash,
    DatasetKey,
    LayoutContract,
    collect_contract_evidence,
    find_clashes,
    infer_contract,
)
from ares.signals import EpisodeSignals
from tests.generators.merged_sources import recorded_halves
from tests.thinning import some_by_day

Array = NDArray[np.float64]
RATE_HZ, EPISODES = 20.0, 6


@dataclass(frozen=True, slots=True)
class Arm:
    """A robot drawn at random: joints, or the pose of its end effector, then a gripper.

    Attributes:
        names: Name of each dimension; the last is the gripper.
        places: (K, D) where its task goes, in radians or metres, the gripper from 0 to `opening`, which is open.
        spread: (D,) by how much episodes differ.
        lag: Steps by which the state is late.
    """

    names: tuple[str, ...]
    places: Array
    spread: Array
    lag: int

    @property
    def arm(self) -> list[int]:
        """Numbers of the dimensions that are no gripper."""
        return list(range(len(self.names) - 1))


def draw_arm(rng: np.random.Generator) -> Arm:
    """The places of the task are well apart in every dimension, and not the same on both sides of where it starts."""
    joints = int(rng.integers(5, 8))
    is_pose = rng.random() < 0.25
    if is_pose:
        names = ["x", "y", "z"]
    elif rng.random() < 0.5:
        names = [f"joint_{number}" for number in range(joints)]
    else:
        names = ["base", "shoulder", "elbow", "forearm", "wrist_pitch", "wrist_roll", "hand_roll"][:joints]
    count = len(names)
    sizes = rng.uniform(0.1, 0.3, count) if is_pose else rng.uniform(0.4, 1.2, count)
    side = rng.choice([-1, 1], count)
    home = side * rng.permutation(np.linspace(0.2, 0.6 if is_pose else 1.4, count))
    shares = np.array([0.0, rng.uniform(0.4, 0.6), 1.0, rng.uniform(0.2, 0.8), rng.uniform(0.0, 0.3)])
    turns = np.stack([shares + np.r_[0, rng.normal(0, 0.08, 4)] for _ in range(count)], axis=1)
    opening = float(rng.choice([1.0, 0.08]))
    gripper = np.array([1.0, 1.0, 0.0, 0.0, 1.0])[:, None] * opening
    return Arm(
        names=(*names, "gripper"),
        places=np.hstack([home + side * sizes * turns, gripper]),
        spread=np.r_[sizes * 0.08, 0.0],
        lag=int(rng.integers(1, 4)),
    )


def record(robot: Arm, rng: np.random.Generator) -> tuple[Array, Array]:
    """State and action of one episode, (T, D) each: from place to place, each time with its own speed."""
    places = robot.places + rng.normal(0, 1, robot.places.shape) * robot.spread
    places[0] = robot.places[0] + rng.normal(0, 0.1, len(robot.names)) * robot.spread
    rows = [np.repeat(places[:1], 4, axis=0)]
    for start, stop in pairwise(places):
        share = np.linspace(0, 1, int(rng.integers(12, 22)))[1:, None]
        rows.append(start + (stop - start) * (3 * share**2 - 2 * share**3))
    action = np.concatenate([*rows, np.repeat(places[-1:], 4, axis=0)])
    state = np.concatenate([np.repeat(action[:1], robot.lag, axis=0), action])[: len(action)]
    return state + rng.normal(0, 1, state.shape) * np.r_[robot.spread[:-1] * 0.01, 1e-4], action


Change = Callable[[Array], Array]


def in_other_unit(robot: Arm, rng: np.random.Generator) -> Change:
    """Degrees in place of radians, millimetres in place of metres."""
    factor = 1000.0 if robot.names[0] == "x" else 180 / np.pi
    return lambda rows: np.hstack([rows[:, :-1] * factor, rows[:, -1:]])


def with_other_sign(robot: Arm, rng: np.random.Generator) -> Change:
    """One dimension of the arm counts the other way."""
    signs = np.ones(len(robot.names))
    signs[rng.choice(robot.arm)] = -1
    return lambda rows: rows * signs


def with_inverted_gripper(robot: Arm, rng: np.random.Generator) -> Change:
    """0 is open."""
    opening = robot.places[:, -1].max()
    return lambda rows: np.hstack([rows[:, :-1], opening - rows[:, -1:]])


def with_gripper_in_percent(robot: Arm, rng: np.random.Generator) -> Change:
    """0 to 100 is closed to open."""
    opening = robot.places[:, -1].max()
    return lambda rows: np.hstack([rows[:, :-1], rows[:, -1:] / opening * 100])


def with_exchanged_dimensions(robot: Arm, rng: np.random.Generator) -> Change:
    """Two dimensions of the arm stand in each other's place, under the same names."""
    order = list(range(len(robot.names)))
    one, other = rng.choice(robot.arm, 2, replace=False)
    order[one], order[other] = order[other], order[one]
    return lambda rows: rows[:, order]


CHANGES = (
    in_other_unit,
    with_other_sign,
    with_inverted_gripper,
    with_gripper_in_percent,
    with_exchanged_dimensions,
)


def contract_of(
    name: str, names: tuple[str, ...], episodes: Sequence[tuple[Array, Array]], rate_hz: float = RATE_HZ
) -> LayoutContract:
    evidence = [
        collect_contract_evidence(
            EpisodeSignals(
                episode_id=f"{name}{number}",
                seconds=np.arange(len(state)) / rate_hz,
                state=state,
                action=action,
                state_names=names,
                action_names=names,
                rate_hz=rate_hz,
            )
        )
        for number, (state, action) in enumerate(episodes)
    ]
    known = [part for part in evidence if part is not None]
    return LayoutContract(
        key=DatasetKey("made", name, ""),
        state_names=names,
        action_names=names,
        num_episodes=len(episodes),
        contract=infer_contract(name, names, names, known),
    )


def clashes(seed: int, change: Callable[[Arm, np.random.Generator], Change] | None) -> list[Clash]:
    """What is refused of two datasets of one robot and task, the second of them changed."""
    rng = np.random.default_rng(seed)
    robot = draw_arm(rng)
    episodes = [record(robot, rng) for _ in range(2 * EPISODES)]
    first, second = episodes[:EPISODES], episodes[EPISODES:]
    if change is not None:
        apply = change(robot, rng)
        second = [(apply(state), apply(action)) for state, action in second]
    return find_clashes([contract_of("one", robot.names, first), contract_of("two", robot.names, second)])


def missed_of(change: int, seeds: range) -> list[int]:
    """Those of some seeds at which nothing is refused though the second dataset is changed."""
    own = (seed for seed in seeds if seed % len(CHANGES) == change)
    return [seed for seed in own if not clashes(seed, CHANGES[change])]


def told_of_halves(seeds: range) -> dict[int, list[str]]:
    """What is refused of two halves of one dataset, by seed."""
    found = ((seed, clashes(seed, None)) for seed in seeds)
    return {seed: list(map(str, told)) for seed, told in found if told}


@pytest.mark.parametrize(
    "change", some_by_day(range(len(CHANGES))), ids=lambda number: CHANGES[number].__name__
)
def test_a_planted_difference_is_refused(change: int) -> None:
    assert not missed_of(change, range(10))


def test_two_halves_of_one_dataset_do_not_clash() -> None:
    assert not told_of_halves(range(4))


def test_a_joint_that_is_called_base_is_exchanged_with_another() -> None:
    """Its name makes it a separate kind."""
    assert {clash.name for clash in clashes(14, with_exchanged_dimensions)} == {"exchanged"}


@pytest.mark.parametrize("seed", [8002, 8050, 8104])
def test_joints_that_move_alike_in_halves_of_one_dataset_are_not_exchanged(seed: int) -> None:
    """By chance another order fits the states of these better, and not their actions."""
    halves = recorded_halves(np.random.default_rng([seed, 77]))
    layouts = [
        contract_of(name, half.names, list(zip(half.states, half.actions, strict=True)), 30.0)
        for name, half in zip(("one", "two"), halves, strict=True)
    ]
    assert not list(map(str, find_clashes(layouts)))


@pytest.mark.nightly
@pytest.mark.parametrize("change", range(len(CHANGES)), ids=lambda number: CHANGES[number].__name__)
def test_each_planted_difference_of_300_pairs_is_refused(change: int) -> None:
    assert not missed_of(change, range(300))


@pytest.mark.nightly
def test_none_of_300_halves_clash() -> None:
    assert not told_of_halves(range(300))
