"""The checks: each finds the fault that is planted for it, names its dimension and second, and clean episodes pass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ares.quality import CODES, DatasetStatistics, EpisodeCheck, EpisodeSignals, check_signals
from ares.quality.audit import (
    ANGLES,
    PLANTERS,
    FaultSite,
    RandomRobot,
    plant_fault,
    random_dataset,
    random_robot,
)

# A small sample of the audit in benchmarks/RESULTS.md; the seeds are those of its development part.
_SEEDS = range(300, 310)
# Only for actions that are positions.
_NEEDS_POSITIONS = {"A008"}


def _statistics(episodes: list[EpisodeSignals]) -> DatasetStatistics:
    statistics = DatasetStatistics(state_names=episodes[0].state_names, action_names=episodes[0].action_names)
    for episode in episodes:
        statistics.add(episode)
    return statistics


def _check_last(episodes: list[EpisodeSignals]) -> EpisodeCheck:
    return check_signals(episodes[-1], _statistics(episodes).typical())


def _site(code: str, robot: RandomRobot, dim: int) -> FaultSite:
    unit = robot.unit_scale if code in ANGLES else 1.0
    return FaultSite(
        dim=dim, action_dim=dim, strength=CODES[code].strength * unit, unit_scale=robot.unit_scale
    )


@pytest.mark.parametrize("code", PLANTERS)
def test_a_planted_fault_is_found_in_its_dimension(code: str) -> None:
    planted = hits = 0
    for seed in _SEEDS:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        episodes = random_dataset(robot, rng, episodes=4)
        if not robot.moving_joints or (robot.is_delta and code in _NEEDS_POSITIONS):
            continue
        dim = robot.moving_joints[0]
        faulty = plant_fault(code, episodes[-1], _site(code, robot, dim), rng)
        if faulty is not None:
            planted += 1
            findings = _check_last([*episodes[:-1], faulty]).findings
            hits += any(f.code == code and f.dimension in ("", robot.names[dim]) for f in findings)
    assert planted >= 4
    assert hits >= 0.8 * planted


def test_clean_episodes_have_few_findings() -> None:
    counts: Counter[str] = Counter()
    checked = 0
    for seed in _SEEDS:
        rng = np.random.default_rng(seed)
        episodes = random_dataset(random_robot(rng), rng, episodes=4)
        typical = _statistics(episodes).typical()
        for episode in episodes:
            checked += 1
            counts.update({finding.code for finding in check_signals(episode, typical).findings})
    assert checked == 40
    assert all(count <= 2 for count in counts.values()), counts


def test_the_lag_of_a_robot_is_measured_within_a_step() -> None:
    for seed in _SEEDS:
        rng = np.random.default_rng(seed)
        robot = random_robot(rng)
        lag = _check_last(random_dataset(robot, rng, episodes=3)).lag
        if lag.steps is not None:
            assert abs(lag.steps - robot.lag_seconds * robot.rate_hz) <= 1
            assert lag.low_steps <= lag.high_steps


def test_a_parked_arm_and_a_resting_gripper_are_no_fault() -> None:
    rng = np.random.default_rng(1)
    steps = 300
    moving = np.sin(np.linspace(0, 9, steps))
    state = np.column_stack([moving, np.zeros(steps), np.ones(steps)])
    names = ("left_joint_0", "right_joint_0", "gripper")
    episodes = [
        EpisodeSignals(
            episode_id=str(number),
            seconds=np.arange(steps) / 30,
            state=state + rng.normal(0, 0.001, state.shape) * [1, 0, 0],
            action=np.roll(state, -2, axis=0),
            state_names=names,
            action_names=names,
            rate_hz=30.0,
        )
        for number in range(4)
    ]
    assert {finding.dimension for finding in _check_last(episodes).findings} <= {"", "left_joint_0"}
    assert not [f for f in _check_last(episodes).findings if f.code in ("A002", "A003", "A006")]


def test_ten_steps_say_nothing_of_the_lag() -> None:
    rng = np.random.default_rng(0)
    robot = random_robot(rng)
    short = random_dataset(robot, rng, episodes=1)[0]
    cut = EpisodeSignals(
        episode_id="short",
        seconds=short.seconds[:10],
        state=short.state[:10],
        action=short.action[:10],
        state_names=short.state_names,
        action_names=short.action_names,
        rate_hz=short.rate_hz,
    )
    assert check_signals(cut, _statistics([cut]).typical()).lag.steps is None


def test_statistics_merge_to_what_one_pass_gives() -> None:
    rng = np.random.default_rng(5)
    episodes = random_dataset(random_robot(rng), rng, episodes=6)
    whole, part = _statistics(episodes), _statistics(episodes[:2])
    part.merge(_statistics(episodes[2:]))
    assert part.num_episodes == whole.num_episodes == 6
    merged, direct = part.typical(), whole.typical()
    assert merged is not None and direct is not None
    assert np.array_equal(merged.state.range, direct.state.range)
    assert merged.lag_steps == direct.lag_steps
    with pytest.raises(ValueError, match="dimensions differ"):
        whole.merge(DatasetStatistics(state_names=("x",), action_names=()))
