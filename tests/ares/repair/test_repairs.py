"""Corrections of signals: what is corrected comes back to the truth, what is not certain is left with a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.checks import check_signals
from ares.repair import repair_signals
from ares.signals import Correction, DatasetStatistics, EpisodeSignals
from ares.signals.signal_changes import apply_signal_changes
from ares.signals.statistics import TypicalEpisode

NAMES = ("shoulder", "elbow", "wrist", "gripper")
STEPS, RATE_HZ, LAG = 240, 30.0, 3


def _episode(seed: int) -> EpisodeSignals:
    """Slow motions of three joints, a gripper that closes once, and a command three steps ahead."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(STEPS + LAG) / RATE_HZ
    phases, rates = rng.uniform(0, 6, (3, 3)), rng.uniform(0.2, 1.5, (3, 3))
    joints = [
        sum(np.sin(r * seconds + p) for r, p in zip(*row, strict=True))
        for row in zip(rates, phases, strict=True)
    ]
    gripper = (seconds > 4).astype(float)
    command = np.column_stack([*joints, gripper]).astype(np.float32).astype(float)
    noise = np.zeros((STEPS, 4))
    noise[:, :3] = rng.normal(0, 0.0005, (STEPS, 3))
    state = (command[:STEPS] + noise).astype(np.float32).astype(float)
    return EpisodeSignals(
        episode_id=f"{seed:016x}",
        seconds=seconds[:STEPS],
        state=state,
        action=command[LAG:],
        state_names=NAMES,
        action_names=NAMES,
        rate_hz=RATE_HZ,
    )


def _typical(*episodes: EpisodeSignals) -> TypicalEpisode:
    statistics = DatasetStatistics(state_names=NAMES, action_names=NAMES)
    for episode in (*episodes, *map(_episode, range(100, 104))):
        statistics.add(episode)
    typical = statistics.typical()
    assert typical is not None
    return typical


def _repaired(signals: EpisodeSignals) -> tuple[EpisodeSignals, tuple[Correction, ...]]:
    corrections = repair_signals(signals, _typical(signals))
    changes = [change for part in corrections for change in part.changes]
    parts = {
        name: apply_signal_changes(values.astype(np.float32), [c for c in changes if c.signal == name])
        for name, values in (("state", signals.state), ("action", signals.action))
    }
    state, action = (parts[name].astype(float) for name in ("state", "action"))
    return replace(signals, state=state, action=action), corrections


def _with_state(signals: EpisodeSignals, state: NDArray[np.float64]) -> EpisodeSignals:
    return replace(signals, state=state.astype(np.float32).astype(float))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("length", [1, 2])
def test_short_gaps_are_interpolated(value: float, length: int) -> None:
    true = _episode(1)
    state = true.state.copy()
    state[70 : 70 + length, 1] = value
    repaired, (correction,) = _repaired(_with_state(true, state))
    assert [change.old for change in correction.changes] == [None] * length
    assert np.abs(repaired.state - true.state).max() < 0.01
    changed = np.argwhere(repaired.state != true.state)
    assert {tuple(place) for place in changed} <= {(70 + n, 1) for n in range(length)}
    assert (repaired.action == true.action).all()


@pytest.mark.parametrize(
    ("span", "dimension", "reason"),
    [
        (slice(70, 73), 1, "3 steps long"),
        (slice(0, 1), 1, "values on one side only"),
        (slice(STEPS - 1, STEPS), 1, "values on one side only"),
        (slice(121, 122), 3, "differ by more than is usual"),
    ],
)
def test_gaps_that_need_a_guess_are_left(span: slice, dimension: int, reason: str) -> None:
    state = _episode(1).state.copy()
    state[span, dimension] = np.nan
    state[30, 0] = np.nan  # would be filled alone, but no export holds such an episode
    repaired, corrections = _repaired(_with_state(_episode(1), state))
    assert not any(correction.changes for correction in corrections)
    assert reason in corrections[1].left
    assert corrections[0].left == "the episode has gaps that are left"
    assert np.isnan(repaired.state[30, 0])


def test_a_resting_gripper_is_filled_with_its_value() -> None:
    state = _episode(1).state.copy()
    state[200, 3] = np.nan
    repaired, _ = _repaired(_with_state(_episode(1), state))
    assert repaired.state[200, 3] == 1


def test_a_spike_becomes_what_its_neighbours_say() -> None:
    true = _episode(2)
    state = true.state.copy()
    state[90, 2] += 0.3
    faulty = _with_state(true, state)
    repaired, (correction,) = _repaired(faulty)
    (change,) = correction.changes
    assert (change.code, change.signal, change.dimension, change.step) == ("A004", "state", "wrist", 90)
    assert change.seconds == pytest.approx(3.0)
    assert change.old == pytest.approx(faulty.state[90, 2])
    assert change.new == pytest.approx(true.state[90, 2], abs=0.003)
    assert not check_signals(repaired, _typical(repaired)).findings


def test_a_spike_that_is_commanded_is_left() -> None:
    true = _episode(2)
    state, action = true.state.copy(), true.action.copy()
    state[90, 2] += 0.3
    action[90 - LAG, 2] += 0.3
    faulty = replace(_with_state(true, state), action=action)
    repaired, (correction,) = _repaired(faulty)
    assert correction.left == "the action commands a jump there"
    assert (repaired.state == faulty.state).all()


def test_spikes_that_are_close_together_are_left() -> None:
    state = _episode(2).state.copy()
    state[[90, 93], 2] += 0.3
    _, (correction,) = _repaired(_with_state(_episode(2), state))
    assert correction.left == "several spikes are close together"


@pytest.mark.parametrize("wraps_action", [True, False])
def test_state_and_command_are_unwrapped_together(wraps_action: bool) -> None:
    true = _episode(3)
    level = float(true.state[0, 0] + true.state[:, 0].max()) / 2  # the first value is a turn too high

    def wrap(values: NDArray[np.float64]) -> NDArray[np.float64]:
        wrapped = values.copy()
        wrapped[:, 0] = (values[:, 0] - level) % (2 * np.pi) + level
        return wrapped.astype(np.float32).astype(float)

    action = wrap(true.action) if wraps_action else true.action
    faulty = replace(true, state=wrap(true.state), action=action)
    assert "A007" in {finding.code for finding in check_signals(faulty, _typical(faulty)).findings}
    repaired, corrections = _repaired(faulty)
    assert {correction.left for correction in corrections} == {""}
    assert np.ptp(repaired.state[:, 0] - true.state[:, 0]) < 1e-5
    assert np.ptp(repaired.action[:, 0] - true.action[:, 0]) < 1e-5
    if wraps_action:  # both count from the same turn
        offset = (repaired.state - true.state)[0, 0] - (repaired.action - true.action)[0, 0]
        assert offset == pytest.approx(0, abs=1e-5)
    else:
        assert (repaired.action == true.action).all()
    assert (repaired.state[:, 1:] == true.state[:, 1:]).all()
    assert "A007" not in {finding.code for finding in check_signals(repaired, _typical(repaired)).findings}


def test_clean_episodes_are_not_changed() -> None:
    for seed in range(20, 26):
        assert repair_signals(_episode(seed), _typical(_episode(seed))) == ()
