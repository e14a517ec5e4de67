"""Faults of meaning that choose nothing: each is told by its code and name, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ares.checks import QualityFinding, check_signals
from ares.checks.record import check_single_episode
from ares.signals import DatasetStatistics, EpisodeSignals
from tests.generators.meaning_faults import plant_meaning

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
    episodes = clean_episodes()
    state = episodes[3].state.copy()
    state[50:64] = state[50]
    episodes[3] = replace(episodes[3], state=state)
    assert [(finding.code, finding.dimension) for finding in findings(episodes, 3)] == [("A020", "")]


def test_a_joint_parked_at_a_bound_is_not_saturated_and_one_cut_off_is() -> None:
    episodes = clean_episodes()
    share = np.linspace(0, 1, len(episodes[0].action))
    slow = np.clip((share - 0.3) / 0.4, 0, 1)
    ease = 10 * slow**3 - 15 * slow**4 + 6 * slow**5
    parked, wave = -0.4 - 0.6 * ease, -np.minimum(1, 1.6 * np.sin(np.pi * share))
    for column, expected in ((parked, set()), (wave, {"A006"})):
        action, state = episodes[0].action.copy(), episodes[0].state.copy()
        action[:, 1] = column
        state[:, 1] = np.concatenate([column[:1].repeat(3), column[:-3]])
        changed = [replace(episodes[0], action=action, state=state), *episodes[1:]]
        assert codes(changed, 0) & {"A006"} == expected


def test_a_joint_whose_command_rests_is_not_stuck() -> None:
    """It starts at full speed in one step, as in a simulation without inertia."""
    episodes = clean_episodes()
    rate = np.r_[
        np.full(20, 0.01), np.zeros(40), np.full(8, 0.06), np.full(len(episodes[0].action) - 68, 0.002)
    ]
    for lost, expected in ((False, set()), (True, {"A003"})):
        action, state = episodes[0].action.copy(), episodes[0].state.copy()
        action[:, 2] = 1.0 + np.cumsum(rate)
        column = np.concatenate([action[:1, 2].repeat(3), action[:-3, 2]])
        if lost:  # the joint keeps one value while its command moves on
            column[60:70] = column[60]
        else:
            column[63] += 0.09
        state[:, 2] = column
        changed = [replace(episodes[0], action=action, state=state), *episodes[1:]]
        assert {f.code for f in findings(changed, 0) if f.dimension == "joint_2"} & {"A003"} == expected


def test_a_simulation_that_sets_its_robot_elsewhere_drops_no_steps() -> None:
    episodes = clean_episodes()
    state = episodes[1].state.copy()
    signs = np.sign(state[90] - state[89])
    jumped = {}
    for direction in (-1, 1):
        set_elsewhere = state.copy()
        set_elsewhere[90:, :5] += 0.25 * direction * signs[:5]
        jumped[direction] = replace(episodes[1], state=set_elsewhere)
    kept = np.r_[0:70, 82 : len(state)]
    dropped = replace(
        episodes[1],
        seconds=episodes[1].seconds[: len(kept)],
        state=state[kept],
        action=episodes[1].action[kept],
    )
    for changed, expected in ((jumped[-1], set()), (jumped[1], set()), (dropped, {"A016"})):
        assert codes([episodes[0], changed, *episodes[2:]], 1) & {"A016"} == expected


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
