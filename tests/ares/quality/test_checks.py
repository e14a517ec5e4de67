"""The checks: each finds the fault that is planted for it, names its dimension and second, and clean episodes pass."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ares.checks import CODES, EpisodeCheck, check_signals
from ares.signals import DatasetStatistics, EpisodeSignals
from benchmarks.fault_scoring import AuditScore, audit_foreign
from tests.generators.planting import ANGLES, PLANTERS, FaultSite
from tests.generators.robots import RandomRobot, random_dataset, random_robot
from tests.generators.strengths import STRENGTHS

# A small sample of the audit in benchmarks/RESULTS.md; the seeds are those of its development part.
_SEEDS = range(300, 310)


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
        dim=dim, action_dim=dim, strength=STRENGTHS[code].size * unit, unit_scale=robot.unit_scale
    )


@cache
def _drawn(seed: int) -> tuple[RandomRobot, list[EpisodeSignals], DatasetStatistics, np.random.Generator]:
    """A robot, four clean episodes, statistics of all but the last, and what draws the next numbers."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng)
    episodes = random_dataset(robot, rng, episodes=4)
    return robot, episodes, _statistics(episodes[:-1]), rng


@pytest.mark.parametrize("code", PLANTERS)
def test_a_planted_fault_is_found_in_its_dimension(code: str) -> None:
    planted = hits = 0
    for seed in _SEEDS:
        robot, episodes, clean, rng = _drawn(seed)
        if not robot.moving_joints:
            continue
        dim = robot.moving_joints[0]
        faulty = PLANTERS[code](episodes[-1], _site(code, robot, dim), deepcopy(rng))
        if faulty is not None:
            planted += 1
            statistics = deepcopy(clean)
            statistics.add(faulty)
            findings = check_signals(faulty, statistics.typical()).findings
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


@pytest.mark.nightly
def test_foreign_robots_have_few_findings_and_no_wrong_lag() -> None:
    score = AuditScore()
    audit_foreign(range(300, 315), score)
    faults = {code: count for code, count in score.false_alarms.items() if CODES[code].severity == "fault"}
    assert score.num_clean == 75
    assert sum(faults.values()) <= 2, faults
    assert score.lags.num_claimed >= 30
    assert score.lags.num_right >= 0.9 * score.lags.num_claimed


def _signals(
    state: np.ndarray, action: np.ndarray, rate_hz: float = 30.0, names: tuple[str, ...] = (), number: int = 0
) -> EpisodeSignals:
    """An episode with a step at each of its seconds; its dimensions are joints unless they have other names."""
    names = names or tuple(f"joint_{dim}" for dim in range(state.shape[1]))
    return EpisodeSignals(
        episode_id=str(number),
        seconds=np.arange(len(state)) / rate_hz,
        state=state,
        action=action,
        state_names=names,
        action_names=names,
        rate_hz=rate_hz,
    )


def _turning(rate_hz: float = 30.0, steps: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """A quaternion that passes half a turn about x and sways about y, and the same 0.1 s later."""
    seconds = np.arange(steps) / rate_hz
    poses = []
    for late in (0.1, 0.0):
        half = (np.pi + 0.6 * np.sin(1.3 * (seconds - late))) / 2
        sway = 0.3 * np.sin(0.9 * (seconds - late))
        turns = np.column_stack([np.cos(half), np.sin(half), sway + 0.3, 0.5 * sway - 0.4])
        poses.append(turns / np.linalg.norm(turns, axis=1, keepdims=True))
    return poses[0], poses[1]


def test_a_quaternion_that_changes_its_sign_does_not_move() -> None:
    state, action = _turning()
    state, action = (pose * np.where(pose[:, :1] < 0, -1, 1) for pose in (state, -action))
    names = ("qw", "qx", "qy", "qz")
    assert np.abs(np.diff(state, axis=0)).max() > 1.5  # it jumps as it is stored
    check = _check_last([_signals(state, action, names=names, number=number) for number in range(3)])
    assert check.findings == ()
    assert check.lag.steps == pytest.approx(3, abs=0.5)


def test_an_episode_that_is_cut_out_of_a_motion_has_the_lag_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    seconds = np.arange(0, 12, 0.02)
    # Its first second is the fastest, as where a recording is cut: what came before it is not there.
    path = (np.sin(2 * seconds + rng.uniform(0, 6, (6, 1))) * np.exp(-seconds / 3)).T
    lag = _check_last([_signals(path[:-10], path[10:], 50.0)]).lag
    assert lag.steps == pytest.approx(10, abs=0.5)
    assert lag.low_steps <= 10 <= lag.high_steps


def test_a_step_of_six_degrees_is_no_whole_turn() -> None:
    seconds = np.arange(300) / 30
    state = np.column_stack([40 * np.sin(seconds + shift) for shift in range(6)])
    state[:, 2] = 20 * np.sin(0.2 * seconds)
    state[100:, 2] += 6.28
    assert "A007" not in {finding.code for finding in _check_last([_signals(state, state)]).findings}


def test_a_joint_without_a_command_to_move_is_not_dead() -> None:
    rng = np.random.default_rng(7)
    episodes = []
    for number in range(5):
        path = np.sin(np.arange(200)[:, None] * 0.05 + rng.uniform(0, 6, 6))
        if number == 4:
            path[:, 1] = path[0, 1]
        episodes.append(_signals(path, np.roll(path, -2, axis=0), 20.0, number=number))
    assert "A002" not in {finding.code for finding in _check_last(episodes).findings}
    commanded = replace(episodes[4], action=episodes[0].action)
    assert ("A002", "joint_1") in {
        (f.code, f.dimension) for f in _check_last([*episodes[:4], commanded]).findings
    }


def test_a_common_encoder_is_not_coarse_however_little_the_robot_moves() -> None:
    seconds = np.arange(300) / 30
    path = 0.1 * np.column_stack([np.sin(seconds + shift) for shift in range(6)])
    for step, codes in ((2 * np.pi / 4096, set()), (0.02, {"A005"})):
        episode = _signals(np.round(path / step) * step, path)
        assert {f.code for f in _check_last([episode]).findings} & {"A005"} == codes


def test_a_parked_arm_and_a_resting_gripper_are_no_fault() -> None:
    rng = np.random.default_rng(1)
    steps = 300
    moving = np.sin(np.linspace(0, 9, steps))
    state = np.column_stack([moving, np.zeros(steps), np.ones(steps)])
    names = ("left_joint_0", "right_joint_0", "gripper")
    episodes = [
        _signals(
            state + rng.normal(0, 0.001, state.shape) * [1, 0, 0],
            np.roll(state, -2, axis=0),
            names=names,
            number=number,
        )
        for number in range(4)
    ]
    assert {finding.dimension for finding in _check_last(episodes).findings} <= {"", "left_joint_0"}
    assert not [f for f in _check_last(episodes).findings if f.code in ("A002", "A003", "A006")]


def test_ten_steps_say_nothing_of_the_lag() -> None:
    rng = np.random.default_rng(0)
    robot = random_robot(rng)
    whole = random_dataset(robot, rng, episodes=1)[0]
    cut = replace(whole, seconds=whole.seconds[:10], state=whole.state[:10], action=whole.action[:10])
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
