"""Faults of meaning that choose nothing: each is told by its code and name, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.checks import QualityFinding, check_signals
from ares.checks.record import check_single_episode
from ares.signals import DatasetStatistics, EpisodeSignals
from tests.generators.meaning_faults import plant_meaning

Floats = NDArray[np.float64]
NAMES = (*(f"joint_{number}" for number in range(5)), "gripper")
HOME = np.array([0.4, -0.8, 1.2, -0.6, 0.9])


def clean_episodes(number: int = 8, rate_hz: float = 20.0) -> list[EpisodeSignals]:
    """Joints go from home to a random place and back; the gripper closes and opens; the state is 3 steps late."""
    episodes = []
    for seed in range(number):
        rng = np.random.default_rng(seed)
        seconds = np.arange(160 + 5 * seed) / rate_hz
        share = seconds / seconds[-1]
        wave = 0.5 - 0.5 * np.cos(2 * np.pi * np.clip((share - 0.1) / 0.8, 0, 1))
        wiggle = 0.1 * np.sin(2 * np.pi * share[:, None] * np.array([1, 2, 3, 2, 1]))
        joints = HOME + wave[:, None] * rng.uniform(0.4, 0.8, 5) * np.array([1, -1, 1, -1, 1]) + wiggle
        gripper = 1 - np.clip((share - 0.4) / 0.04, 0, 1) + np.clip((share - 0.7) / 0.04, 0, 1)
        action = np.column_stack([joints, gripper])
        state = np.concatenate([np.repeat(action[:1], 3, axis=0), action[:-3]]) + rng.normal(
            0, 1e-4, action.shape
        )
        episodes.append(
            EpisodeSignals(
                episode_id=str(seed),
                seconds=seconds,
                state=state,
                action=action,
                state_names=NAMES,
                action_names=NAMES,
                rate_hz=rate_hz,
                task="put the cube away",
            )
        )
    return episodes


def findings(episodes: Sequence[EpisodeSignals], number: int) -> tuple[QualityFinding, ...]:
    statistics = DatasetStatistics(state_names=episodes[0].state_names, action_names=episodes[0].action_names)
    for episode in episodes:
        statistics.add(episode)
    return check_signals(episodes[number], statistics.typical()).findings


def codes(episodes: Sequence[EpisodeSignals], number: int) -> set[str]:
    return {finding.code for finding in findings(episodes, number)}


def with_state(
    episodes: list[EpisodeSignals], number: int, change: Callable[[Floats], None]
) -> list[EpisodeSignals]:
    """The episodes with the state of one changed in place."""
    state = episodes[number].state.copy()
    change(state)
    return [*episodes[:number], replace(episodes[number], state=state), *episodes[number + 1 :]]


def test_clean_episodes_have_no_finding() -> None:
    episodes = clean_episodes()
    assert [codes(episodes, number) for number in range(len(episodes))] == [set()] * len(episodes)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("spike", "A004"),
        ("offset", "A019"),
        ("jitter", "A021"),
        ("held", "A020"),
        ("stale", "A020"),
        ("late", "A012"),
        ("still", "A002"),
        ("ticks", "A015"),
    ],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fault_of_one_episode_is_told_by_its_code(kind: str, code: str, seed: int) -> None:
    planted = plant_meaning(kind, clean_episodes(), np.random.default_rng(seed))
    assert planted is not None
    found = findings(planted.episodes, planted.faulty[0])
    named = {finding.dimension for finding in found if finding.code == code}
    assert named and named <= {"", *planted.dimensions}


@pytest.mark.parametrize("kind", ["sign", "gripper"])
def test_a_convention_turned_in_state_and_action_of_half_of_the_episodes_is_told(kind: str) -> None:
    planted = plant_meaning(kind, clean_episodes(), np.random.default_rng(5))
    assert planted is not None
    told = [
        {finding.dimension for finding in findings(planted.episodes, number) if finding.code == "A022"}
        for number in range(len(planted.episodes))
    ]
    named = {number for number, names in enumerate(told) if names}
    assert named in ({*planted.faulty}, {*range(len(told))} - {*planted.faulty})
    assert all(names <= {*planted.dimensions} for names in told)


def test_tasks_that_begin_at_the_other_side_are_not_turned() -> None:
    episodes = clean_episodes()
    for number in (0, 2, 4, 6):
        turned = [
            values * np.array([1, -1, 1, 1, 1, 1])
            for values in (episodes[number].state, episodes[number].action)
        ]
        episodes[number] = replace(
            episodes[number], state=turned[0], action=turned[1], task="put the cube to the other side"
        )
    assert [codes(episodes, number) & {"A022", "A023"} for number in range(8)] == [set()] * 8


def test_stale_readings_are_one_finding() -> None:
    def hold(state: Floats) -> None:
        state[50:64] = state[50]

    found = findings(with_state(clean_episodes(), 3, hold), 3)
    assert [(finding.code, finding.dimension) for finding in found] == [("A020", "")]


@pytest.mark.parametrize("factor", [180 / np.pi, np.pi / 180])
def test_joints_in_another_unit_are_told(factor: float) -> None:
    episodes = clean_episodes()
    other = [
        np.hstack([rows[:, :5] * factor, rows[:, 5:]]) for rows in (episodes[0].state, episodes[0].action)
    ]
    assert "A015" in codes([replace(episodes[0], state=other[0], action=other[1]), *episodes[1:]], 0)


@pytest.mark.parametrize("share", [0.02, np.array([0.03, 0.046, 0.08, 0.02, 0.04])])
def test_a_small_motion_is_no_other_unit(share: float | Floats) -> None:
    """A joint that is where it usually is, and hardly moves, is in the same unit."""
    episodes = clean_episodes()
    small = [
        np.hstack([HOME + share * (rows[:, :5] - HOME), rows[:, 5:]])
        for rows in (episodes[0].state, episodes[0].action)
    ]
    assert "A015" not in codes([replace(episodes[0], state=small[0], action=small[1]), *episodes[1:]], 0)


def late(command: Floats) -> Floats:
    """A command three steps later."""
    return np.concatenate([command[:1].repeat(3), command[:-3]])


def commanded(
    episodes: list[EpisodeSignals], dimension: int, command: Floats, state: Floats
) -> list[EpisodeSignals]:
    """The episodes with another command and state of a dimension of the first."""
    first = replace(episodes[0], action=episodes[0].action.copy(), state=episodes[0].state.copy())
    first.action[:, dimension], first.state[:, dimension] = command, state
    return [first, *episodes[1:]]


def test_a_joint_parked_at_a_bound_is_not_saturated_and_one_cut_off_is() -> None:
    episodes = clean_episodes()
    share = np.linspace(0, 1, len(episodes[0].action))
    slow = np.clip((share - 0.3) / 0.4, 0, 1)
    parked = -0.4 - 0.6 * (10 * slow**3 - 15 * slow**4 + 6 * slow**5)
    cut_off = -np.minimum(1, 1.6 * np.sin(np.pi * share))
    assert "A006" not in codes(commanded(episodes, 1, parked, late(parked)), 0)
    assert "A006" in codes(commanded(episodes, 1, cut_off, late(cut_off)), 0)


def test_a_joint_that_friction_holds_at_its_lowest_value_is_not_saturated() -> None:
    """It stands still elsewhere too while its command moves on; without that it is cut off."""
    episodes = clean_episodes()
    command = np.cos(np.linspace(0, 4 * np.pi, len(episodes[0].action)))
    follows = np.maximum(late(command), -0.98)
    assert "A006" in codes(commanded(episodes, 1, command, follows), 0)
    held = int(len(command) * 0.2)
    follows[held : held + 12] = follows[held]
    assert "A006" not in codes(commanded(episodes, 1, command, follows), 0)


def test_a_joint_whose_command_rests_is_not_stuck() -> None:
    """It starts at full speed in one step, as in a simulation without inertia."""
    episodes = clean_episodes()
    steps = [(20, 0.01), (40, 0.0), (8, 0.06), (len(episodes[0].action) - 68, 0.002)]
    command = 1.0 + np.cumsum(np.repeat([rate for _, rate in steps], [count for count, _ in steps]))
    resting, stuck = late(command), late(command)
    resting[63] += 0.09
    stuck[60:70] = stuck[60]  # one value while its command moves on
    for state, expected in ((resting, set()), (stuck, {"A003"})):
        found = findings(commanded(episodes, 2, command, state), 0)
        assert {finding.code for finding in found if finding.dimension == "joint_2"} & {"A003"} == expected


def test_a_simulation_that_sets_its_robot_elsewhere_drops_no_steps() -> None:
    episodes = clean_episodes()
    signs = np.sign(episodes[1].state[90] - episodes[1].state[89])
    for direction in (-1, 1):

        def set_elsewhere(state: Floats, direction: int = direction) -> None:
            state[90:, :5] += 0.25 * direction * signs[:5]

        assert "A016" not in codes(with_state(episodes, 1, set_elsewhere), 1)
    one, kept = episodes[1], np.r_[0:70, 82 : len(episodes[1].state)]
    dropped = replace(one, seconds=one.seconds[: len(kept)], state=one.state[kept], action=one.action[kept])
    assert "A016" in codes([episodes[0], dropped, *episodes[2:]], 1)


@pytest.mark.parametrize("named", [True, False])
def test_ingestion_and_check_say_the_same_of_one_episode_alone(named: bool) -> None:
    names = NAMES if named else tuple(map(str, range(6)))
    episodes = [replace(episode, state_names=names, action_names=names) for episode in clean_episodes(3)]
    action = np.repeat(episodes[0].action[:1], len(episodes[0].action), axis=0)
    gap = episodes[0].seconds + np.where(np.arange(len(action)) > 80, 0.7, 0.0)
    changed = [replace(episodes[0], action=action, seconds=gap), *episodes[1:]]
    alone = {(finding.code, finding.signal) for finding in check_single_episode(changed[0])}
    assert alone == {("A002", "action"), ("A016", "clock")}
    assert alone <= {(finding.code, finding.signal) for finding in findings(changed, 0)}
    assert alone <= {(finding.code, finding.signal) for finding in check_signals(changed[0], None).findings}


def led_episodes(number: int = 10) -> list[EpisodeSignals]:
    """Commands without names in common with the state: four motions of an end effector that all move all joints."""
    mixture = np.random.default_rng(9).normal(0, 1, (4, 5))
    episodes = []
    for seed in range(number):
        rng = np.random.default_rng([seed, 1])
        steps = 120 + 4 * seed
        noise, window = rng.normal(0, 1, (steps + 16, 4)), np.hanning(17) / 8
        command = np.stack([np.convolve(part, window, "valid") for part in noise.T], axis=1)
        moved = np.cumsum(np.concatenate([np.zeros((2, 5)), command[:-2] @ mixture]), axis=0)
        joints = HOME + rng.normal(0, 0.15, 5) + 0.05 * moved + rng.normal(0, 1e-4, moved.shape)
        seconds = np.arange(steps) / 20.0
        episodes.append(
            EpisodeSignals(
                episode_id=str(seed),
                seconds=seconds,
                state=np.column_stack([joints, seconds]),
                action=command,
                state_names=(*NAMES[:5], "time"),
                action_names=tuple(f"actions_{part}" for part in range(4)),
                rate_hz=20.0,
                task="follow the line",
            )
        )
    return episodes


def test_episodes_led_without_names_have_no_finding() -> None:
    episodes = led_episodes()
    assert [codes(episodes, number) for number in range(len(episodes))] == [set()] * len(episodes)


def test_a_late_action_is_told_where_no_name_pairs_it_with_the_state() -> None:
    episodes = led_episodes()
    late = episodes[4].action[np.maximum(np.arange(len(episodes[4].action)) - 7, 0)]
    episodes[4] = replace(episodes[4], action=late)
    assert "A012" in codes(episodes, 4)
    assert "A012" not in codes(episodes, 5)


def test_a_joint_turned_in_some_episodes_is_told_by_the_commands_that_move_it() -> None:
    def turn(state: Floats) -> None:
        state[:, 2] *= -1

    episodes = led_episodes()
    for number in (1, 5, 8):
        episodes = with_state(episodes, number, turn)
    told = {
        number: {finding.dimension for finding in findings(episodes, number) if finding.code == "A022"}
        for number in range(len(episodes))
    }
    assert {number for number, names in told.items() if names} == {1, 5, 8}
    assert told[1] == {"joint_2"}


def test_one_value_that_is_off_in_a_command_without_a_name_is_told() -> None:
    episodes = led_episodes()
    action = episodes[3].action.copy()
    action[60, 2] += 1.2 * np.ptp(action[:, 2])
    episodes[3] = replace(episodes[3], action=action)
    assert ("A004", "action", "actions_2") in {(f.code, f.signal, f.dimension) for f in findings(episodes, 3)}


@pytest.mark.parametrize(
    ("size", "kept", "code"), [(2.0, 1, "A004"), (2.0, 200, "A016"), (-2.0, 200, "A019")]
)
def test_a_clock_of_the_state_is_even(size: float, kept: int, code: str) -> None:
    def shift(state: Floats) -> None:
        state[50 : 50 + kept, 5] += size

    episodes = with_state(led_episodes(), 6, shift)
    assert [(f.code, f.dimension) for f in findings(episodes, 6)] == [(code, "time")]


def test_a_whole_episode_that_lies_elsewhere_in_one_dimension_is_told() -> None:
    """Starts differ a little from episode to episode, and one by more than any."""

    def shift(state: Floats) -> None:
        state[:, 1] += 1.2

    episodes = [replace(episode, state=episode.state.copy()) for episode in clean_episodes(10)]
    for number, episode in enumerate(episodes):
        episode.state[:, :5] += np.random.default_rng([number, 2]).normal(0, 0.04, 5)
        unnamed = tuple(f"actions_{part}" for part in range(6))
        episodes[number] = replace(episode, action_names=unnamed)
    assert all("A019" not in codes(episodes, number) for number in range(10))
    told = findings(with_state(episodes, 2, shift), 2)
    assert [finding.dimension for finding in told if finding.code == "A019"] == ["joint_1"]


def test_a_finger_is_held_where_it_is_new_at_each_step_in_the_other_episodes() -> None:
    episodes: list[EpisodeSignals] = []
    for episode in clean_episodes(9):
        state = episode.state.copy()
        state[:, 5] = 0.5 + 0.4 * np.sin(np.arange(len(state)) / 9.0 + len(episodes))
        episodes.append(replace(episode, state=state, state_names=(*NAMES[:5], "left_hand_index")))
    rows = np.arange(len(episodes[7].state)) // 4 * 4

    def hold(state: Floats) -> None:
        state[:, 5] = state[rows, 5]

    held = with_state(episodes, 7, hold)
    assert ("A020", "left_hand_index") in {(f.code, f.dimension) for f in findings(held, 7)}
    everywhere = [replace(episode, state=episode.state.copy()) for episode in episodes]
    for episode in everywhere:  # a hand that is read at every fourth step in all episodes is a slow hand
        episode.state[:, 5] = episode.state[np.arange(len(episode.state)) // 4 * 4, 5]
    assert "left_hand_index" not in {f.dimension for f in findings(everywhere, 7) if f.code == "A020"}


@pytest.mark.parametrize(("pitch", "expected"), [(1.5, set()), (0.4, {"A004"})])
def test_euler_angles_near_a_quarter_turn_jump_without_a_motion(pitch: float, expected: set[str]) -> None:
    names = ("x", "y", "z", "roll", "pitch", "yaw")
    episodes = []
    for episode in clean_episodes():
        state = episode.state.copy()
        state[:, 4], state[:, 5] = pitch + 0.02 * state[:, 4], state[:, 0]
        episodes.append(
            replace(episode, state=state, state_names=names, action_names=("a", "b", "c", "d", "e", "f"))
        )

    def jump(state: Floats) -> None:
        state[70, 3] += 1.5

    assert codes(with_state(episodes, 3, jump), 3) & {"A004"} == expected


def test_a_state_without_a_row_twice_is_held_where_it_repeats_however_slowly_it_goes_on() -> None:
    episodes = led_episodes()
    joints = episodes[3].state[:, :5] / np.ptp(episodes[3].state[:, :5], axis=0)
    usual = float(np.median(np.abs(np.diff(joints, axis=0)).sum(axis=1)))
    # The five steps after which the joints are about two usual steps away: no jump says that they were held.
    away = np.abs(joints[25:-15] - joints[20:-20]).sum(axis=1)
    start = 20 + int(np.abs(away - 2 * usual).argmin())

    def hold(state: Floats) -> None:
        state[start : start + 5] = state[start]

    held = with_state(episodes, 3, hold)
    assert ("A020", "") in {(f.code, f.dimension) for f in findings(held, 3)}


def test_a_gripper_is_turned_whatever_the_joints_are_called() -> None:
    names = ("s0", "s1", "e0", "e1", "w0", "gripper")
    planted = plant_meaning("gripper", clean_episodes(), np.random.default_rng(5))
    assert planted is not None
    half = np.array([0.5] * 5 + [1.0])  # no value is so large that it must be an angle
    episodes = [
        replace(
            episode,
            state=half * episode.state,
            action=half * episode.action,
            state_names=names,
            action_names=names,
        )
        for episode in planted.episodes
    ]
    told = {number for number in range(len(episodes)) if "A022" in codes(episodes, number)}
    assert told in ({*planted.faulty}, {*range(len(episodes))} - {*planted.faulty})


def test_a_finger_that_closes_the_other_way_in_half_of_the_episodes_is_turned() -> None:
    episodes = []
    for number, episode in enumerate(clean_episodes(6)):
        sign = -1 if number in (1, 4) else 1
        state, action = episode.state.copy(), episode.action.copy()
        for values in (state, action):
            values[:, 5] = sign * (0.6 + 0.05 * number) * np.abs(1 - values[:, 5])
        names = (*NAMES[:5], "left_hand_index")
        episodes.append(replace(episode, state=state, action=action, state_names=names, action_names=names))
    assert {number for number in range(6) if "A022" in codes(episodes, number)} == {1, 4}
