"""Where a dimension is commanded to be, and the checks of the state that ask for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ares.checks import check_signals, commanded_position
from ares.signals import DatasetStatistics, EpisodeSignals, TypicalEpisode

NAMES = tuple(f"joint_{number}" for number in range(5))
STEPS, RATE_HZ, LAG = 200, 20.0, 3


def _typical(episodes: list[EpisodeSignals]) -> TypicalEpisode:
    statistics = DatasetStatistics(state_names=episodes[0].state_names, action_names=episodes[0].action_names)
    for episode in episodes:
        statistics.add(episode)
    typical = statistics.typical()
    assert typical is not None
    return typical


def _delta_episode(seed: int) -> EpisodeSignals:
    """Joints that follow their commanded changes three steps late; the first command moves them, too."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(STEPS) / RATE_HZ
    deltas = 0.05 * np.cos(seconds[:, None] * rng.uniform(0.5, 1.5, 5) + rng.uniform(-0.3, 0.3, 5))
    late = np.concatenate([np.zeros((LAG, 5)), deltas[:-LAG]])
    return EpisodeSignals(
        episode_id=str(seed),
        seconds=seconds,
        state=np.cumsum(late, axis=0),
        action=deltas,
        state_names=NAMES,
        action_names=NAMES,
        rate_hz=RATE_HZ,
    )


def test_the_first_change_is_commanded_once_however_late_the_state_follows() -> None:
    episodes = [_delta_episode(seed) for seed in range(4)]
    typical = replace(_typical(episodes), lag_steps=float(LAG))
    assert typical.meaning == "relative"
    commanded = commanded_position(episodes[0], typical, 0)
    assert commanded is not None
    np.testing.assert_allclose(commanded, episodes[0].state[:, 0] * typical.gains[0], atol=1e-9)


def test_after_the_last_command_nothing_more_is_commanded() -> None:
    episodes = [_delta_episode(seed) for seed in range(4)]
    typical = replace(_typical(episodes), lag_steps=-2.0)
    commanded = commanded_position(episodes[0], typical, 0)
    assert commanded is not None
    sums = np.cumsum(episodes[0].action[:, 0])
    np.testing.assert_allclose(commanded[-4:], sums[[-2, -1, -1, -1]] * typical.gains[0])


@pytest.mark.parametrize("action", ["moves", "is constant"])
def test_a_frozen_joint_is_found_whatever_an_action_of_other_names_does(action: str) -> None:
    episodes = [
        replace(_delta_episode(seed), action_names=tuple(f"command_{name}" for name in "abcde"))
        for seed in range(12)
    ]
    frozen = episodes[-1].state.copy()
    frozen[:, 3] = frozen[0, 3]
    episodes[-1] = replace(episodes[-1], state=frozen)
    if action == "is constant":
        episodes[-1] = replace(episodes[-1], action=np.zeros((STEPS, 5)))
    found = check_signals(episodes[-1], _typical(episodes)).findings
    assert ("A002", "joint_3") in {(finding.code, finding.dimension) for finding in found}


def _gripper_episode(number: int, task: str, sign: float = 1.0) -> EpisodeSignals:
    """A gripper that 1 closes and -1 opens: it grips a thing, stays open, or pushes with closed fingers."""
    rng = np.random.default_rng(number)
    closes_at = {"grip": int(rng.integers(60, 100)), "pull": STEPS, "push": 0}[task]
    command = np.where(np.arange(STEPS) < closes_at, -1.0, 1.0)
    closed = 0.4 if task == "grip" else 0.1
    opening = np.clip(1 - 0.1 * (np.arange(STEPS) - closes_at), closed, 1) + rng.normal(0, 1e-3, STEPS)
    episode = _delta_episode(number)
    return replace(
        episode,
        state=np.column_stack([episode.state, opening]),
        action=np.column_stack([episode.action, sign * command]),
        state_names=(*NAMES, "gripper"),
        action_names=(*NAMES, "gripper"),
        task=task,
    )


def test_a_gripper_command_that_is_turned_against_its_task_is_found_although_it_is_constant() -> None:
    tasks = ["grip", "pull", "push"] * 9
    episodes = [_gripper_episode(number, task) for number, task in enumerate(tasks)]
    episodes[0] = _gripper_episode(0, "pull")  # of another task by mistake, which is no turned command
    episodes[0] = replace(episodes[0], task="push")
    turned = {24, 25, 26}
    for number in turned:
        episodes[number] = _gripper_episode(number, tasks[number], sign=-1.0)
    typical = _typical(episodes)
    named = {
        number
        for number, episode in enumerate(episodes)
        for finding in check_signals(episode, typical).findings
        if (finding.code, finding.signal, finding.dimension) == ("A013", "action", "gripper")
    }
    assert named == turned
