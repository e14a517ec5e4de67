"""Boundaries by signals: drawn events are found where they are, of each arm, and nothing is made up or breaks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.episode import Signal, Trajectory
from ares_annotators.motion import infer_meaning_by_names
from ares_annotators.segment import SHORTEST_SECONDS, find_signal_boundaries

NAMES = ("x", "y", "z", "gripper")
Found = dict[str, list[tuple[str, float]]]


def _move(seconds: NDArray[np.float64], start: float, stop: float) -> NDArray[np.float64]:
    """The share of a movement of minimum jerk."""
    phase = np.clip((seconds - start) / (stop - start), 0, 1)
    return np.asarray(phase**3 * (10 - 15 * phase + 6 * phase**2))


def _draw(rate_hz: float, noise: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ten seconds: rest until 1, reach until 3, close at 3.2, carry from 4 to 6, open at 6.2, back from 7 to 9."""
    seconds = np.arange(0, 10, 1 / rate_hz)
    x = 0.3 * _move(seconds, 1, 3)
    y = 0.4 * _move(seconds, 4, 6)
    z = 0.2 * _move(seconds, 7, 9)
    gripper = 1 - np.clip((seconds - 3.2) / 0.2, 0, 1) + np.clip((seconds - 6.2) / 0.2, 0, 1)
    values = np.stack([x, y, z, gripper], axis=1)
    return seconds, values + np.random.default_rng(0).normal(0, noise, values.shape) * [1, 1, 1, 5]


def _find(
    seconds: NDArray[np.float64],
    state: NDArray[np.float64] | None,
    names: tuple[str, ...] = NAMES,
    action: NDArray[np.float64] | None = None,
    duration: float = 10.0,
) -> Found:
    """By arm, the source and second of each boundary."""
    signals = [
        None if values is None else Signal(values.astype(np.float32), names) for values in (state, action)
    ]
    trajectory = Trajectory(timestamps=seconds, state=signals[0], action=signals[1])
    meaning = infer_meaning_by_names(*(signal.names if signal else () for signal in signals))
    arms = find_signal_boundaries(trajectory, meaning, duration)
    return {own.arm: [(b.source, b.seconds) for b in own.boundaries] for own in arms}


def _check_events(found: list[tuple[str, float]], tolerance: float) -> None:
    expected = [("rest", 1), ("rest", 3), ("gripper", 3.3), ("rest", 4), ("rest", 6), ("gripper", 6.3)]
    for source, second in [*expected, ("rest", 7), ("rest", 9)]:
        near = [own for own in found if abs(own[1] - second) <= tolerance]
        assert source in {own[0] for own in near} or "gripper" in {own[0] for own in near}, (
            source,
            second,
            found,
        )
    assert {"gripper", "rest"} == {source for source, _ in found}
    assert len(found) <= 8


@pytest.mark.parametrize("rate_hz", [5.0, 10.0, 12.5, 30.0, 50.0, 200.0])
def test_events_are_found_at_any_rate(rate_hz: float) -> None:
    seconds, state = _draw(rate_hz)
    _check_events(_find(seconds, state)[""], 0.35)


def test_events_are_found_in_the_noise_of_an_arm() -> None:
    seconds, state = _draw(30.0, noise=0.0015)
    _check_events(_find(seconds, state)[""], 0.4)


def test_actions_alone_tell_too_as_positions_and_as_changes() -> None:
    seconds, positions = _draw(20.0)
    _check_events(_find(seconds, None, action=positions)[""], 0.4)
    changes = np.diff(positions, axis=0, append=positions[-1:])
    changes[:, 3] = positions[:, 3]
    _check_events(_find(seconds, None, action=changes)[""], 0.4)


def test_each_arm_has_its_own_boundaries_and_a_parked_one_has_none() -> None:
    seconds, one = _draw(30.0, noise=0.0005)
    other = np.stack(
        [0.3 * _move(seconds, 2, 5), *np.zeros((2, len(seconds))), np.ones(len(seconds))], axis=1
    )
    names = tuple(f"{side}_{name}" for side in ("left", "right") for name in NAMES)
    found = _find(seconds, np.concatenate([one, other], axis=1), names)
    _check_events(found["left"], 0.35)
    assert [source for source, _ in found["right"]] == ["rest", "rest"]
    assert [second for _, second in found["right"]] == pytest.approx([2, 5], abs=0.4)
    parked = np.zeros_like(other) + np.random.default_rng(1).normal(0, 1e-4, other.shape)
    assert set(_find(seconds, np.concatenate([one, parked], axis=1), names)) == {"left"}


def test_a_hand_of_many_joints_closes_once() -> None:
    seconds = np.arange(0, 10, 1 / 30)
    closes = np.clip((seconds - 4) / 0.8, 0, 1)[:, None]
    fingers = closes * np.linspace(-1.2, 1.6, 12) + np.random.default_rng(0).normal(
        0, 0.01, (len(seconds), 12)
    )
    still = np.random.default_rng(1).normal(0, 0.01, (len(seconds), 12))
    names = tuple(f"hand_joint_{number}" for number in range(12))
    found = _find(seconds, fingers, names)
    assert [source for source, _ in found[""]] == ["hand", "hand"]
    assert [second for _, second in found[""]] == pytest.approx([4, 4.8], abs=0.3)
    assert not _find(seconds, still, names)


def test_contact_is_found_in_a_force_and_not_in_its_noise() -> None:
    seconds = np.arange(0, 10, 1 / 50)
    rng = np.random.default_rng(0)
    force = rng.normal(0, 0.2, (len(seconds), 3)) + np.array([0, 0, 9.8])
    names = ("force_x", "force_y", "force_z")
    assert not _find(seconds, force, names).get("", [])
    force[(seconds >= 3) & (seconds < 4.5)] += [2, 0, 6]
    found = _find(seconds, force, names)[""]
    assert [source for source, _ in found] == ["contact", "contact"]
    assert [second for _, second in found] == pytest.approx([3, 4.5], abs=0.15)


def test_a_turn_without_rest_is_a_boundary_and_a_straight_way_has_none() -> None:
    seconds = np.arange(0, 4, 1 / 30)
    way = np.clip(seconds / 4, 0, 1)
    straight = np.stack([way, 0.5 * way, 0 * way], axis=1)
    assert not _find(seconds, straight, NAMES[:3], duration=4.0).get("", [])
    corner = np.stack([_move(seconds, -1, 2.4), _move(seconds, 1.6, 5), 0 * way], axis=1)
    (source, second), *more = _find(seconds, corner, NAMES[:3], duration=4.0)[""]
    assert (source, more) == ("direction", [])
    assert second == pytest.approx(2, abs=0.2)


def _blended_corners(rate_hz: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """An arm lags 0.4 s behind its commands: from 0.5 along x, from 2 by 70 degrees off, and from 4.5 to 7.5 back."""
    seconds = np.arange(0, 8, 1 / rate_hz)
    angle = np.radians(np.where((seconds < 2) | (seconds >= 6), 0.0, 70.0))
    changes = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1) * 0.1
    changes[seconds >= 4] *= -1
    changes[(seconds < 0.5) | ((seconds >= 3.5) & (seconds < 4.5)) | (seconds >= 7.5)] = 0
    state, speed = np.zeros((len(seconds), 3)), np.zeros(3)
    for step in range(1, len(seconds)):
        speed = speed + (changes[step - 1] - speed) / (0.4 * rate_hz)
        state[step] = state[step - 1] + speed / rate_hz
    return seconds, state, changes


def test_a_command_that_jumps_is_a_boundary_where_the_arm_blends_two_movements() -> None:
    seconds, state, changes = _blended_corners(20.0)
    measured = [second for _, second in _find(seconds, state, NAMES[:3], duration=8.0)[""]]
    assert not any(abs(second - corner) < 0.4 for second in measured for corner in (2, 6))
    found = _find(seconds, state, NAMES[:3], changes, duration=8.0)[""]
    # The rest begins with the command, and not where the arm has come to rest.
    assert [second for _, second in found] == pytest.approx([0.5, 2, 3.5, 4.5, 6, 7.5], abs=0.2)


def _full_speed(rate_hz: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A hand that is always told to go on at full speed, half as fast along y, and from 3 on half as fast along x."""
    seconds = np.arange(0, 6, 1 / rate_hz)
    changes = np.where((seconds < 3)[:, None], [1.0, 0.5, 0.8], [0.5, 1.0, 0.8])
    state = np.cumsum(changes * 0.2 / rate_hz, axis=0) - changes * 0.2 / rate_hz
    return seconds, state, changes


@pytest.mark.parametrize("rate_hz", [5.0, 20.0, 60.0])
def test_changes_that_look_like_positions_are_known_by_the_speed_of_the_state(rate_hz: float) -> None:
    seconds, state, changes = _full_speed(rate_hz)
    assert not _find(seconds, state, NAMES[:3], duration=6.0)[""]
    [(source, second)] = _find(seconds, state, NAMES[:3], changes, duration=6.0)[""]
    assert source == "command" and second == pytest.approx(3, abs=1 / rate_hz)


def test_a_gripper_that_is_told_to_close_and_cannot_is_a_boundary() -> None:
    seconds, state, changes = _full_speed(20.0)
    state = np.column_stack([state, 0.08 - 0.04 * np.clip((seconds - 1) / 0.2, 0, 1)])
    told = np.select([seconds < 1, seconds < 4.5], [-1.0, 0.2], 1.0)
    found = _find(seconds, state, action=np.column_stack([changes, told]), duration=6.0)[""]
    assert [source for source, _ in found] == ["gripper", "command", "command"]
    assert [second for _, second in found] == pytest.approx([1.1, 3, 4.5], abs=0.06)


def test_a_thing_that_begins_to_move_is_a_boundary_and_copies_of_the_hand_are_none() -> None:
    seconds, state, _ = _full_speed(20.0)
    copies = np.concatenate([state, np.vstack([state[:1], state[:-1]])], axis=1)
    thing = np.where(seconds < 4, 0.1, 0.1 + 0.2 * (seconds - 4))[:, None]
    trajectory = Trajectory(timestamps=seconds, state=Signal(state.astype(np.float32), NAMES[:3]))

    def find(name: str, values: NDArray[np.float64]) -> list[tuple[str, float]]:
        names = tuple(f"{name}_{number}" for number in range(values.shape[1]))
        extra = {name: Signal(values.astype(np.float32), names)}
        meaning = infer_meaning_by_names(NAMES[:3], ())
        [arm] = find_signal_boundaries(replace(trajectory, extra=extra), meaning, 6.0)
        return [(own.source, own.seconds) for own in arm.boundaries]

    [(source, second)] = find("environment_state", np.concatenate([copies, thing], axis=1))
    assert source == "thing" and second == pytest.approx(4, abs=0.06)
    assert not find("environment_state", copies) and not find("temperature", thing)


def test_an_action_of_positions_is_not_taken_for_changes() -> None:
    seconds, state = _draw(20.0)
    turned = np.concatenate([state[:, :3] - state[::-1, :3], state[:, 3:]], axis=1)
    assert _find(seconds, state, action=turned) == _find(seconds, state)


def test_nothing_is_made_up_where_nothing_happens() -> None:
    seconds = np.arange(0, 10, 0.1)
    assert not _find(seconds, np.ones((100, 4)))
    assert not _find(seconds, np.full((100, 4), np.nan))
    assert not _find(seconds[:1], np.ones((1, 4)), duration=0.1)
    assert not _find(np.zeros(100), _draw(10.0)[1])
    assert find_signal_boundaries(None, None, 3.0) == ()
    assert find_signal_boundaries(Trajectory(timestamps=seconds), infer_meaning_by_names((), ()), 10.0) == ()


def test_gaps_and_repeated_stamps_hide_nothing_else() -> None:
    seconds, state = _draw(30.0)
    state[50:60] = np.nan
    state[200, 1] = np.inf
    _check_events(_find(seconds, state)[""], 0.4)
    seconds = np.concatenate([seconds[:100], seconds[99:100], seconds[100:]])
    state = np.concatenate([state[:100], state[99:100], state[100:]])
    _check_events(_find(seconds, state)[""], 0.4)


@pytest.mark.parametrize("seed", range(24))
def test_no_span_is_too_short_and_every_confidence_is_a_share(seed: int) -> None:
    """However often the arm starts, stops, turns and grasps, and whichever values are missing."""
    rng = np.random.default_rng(seed)
    seconds = np.arange(0, 20, 1 / rng.uniform(5, 50))
    edges = np.cumsum(rng.choice([0.1, 0.25, 0.5, 1.5], 16))
    ways = [_move(seconds, edge, edge + rng.uniform(0.1, 1.0))[:, None] for edge in edges]
    path = sum(way * rng.normal(0, 0.3, 3) for way in ways)
    grips = np.searchsorted(edges[::2], seconds) % 2
    state = np.column_stack([path, grips]) + rng.normal(0, 0.001, (len(seconds), 4))
    state[rng.random(state.shape) < 0.05 * (seed % 3)] = np.nan
    trajectory = Trajectory(timestamps=seconds, state=Signal(state.astype(np.float32), NAMES))
    arms = find_signal_boundaries(trajectory, infer_meaning_by_names(NAMES, ()), 20.0)
    for own in arms:
        ends = [0.0, *(boundary.seconds for boundary in own.boundaries), 20.0]
        assert min(stop - start for start, stop in pairwise(ends)) >= SHORTEST_SECONDS - 1e-6
        assert all(0 < boundary.confidence <= 1 for boundary in own.boundaries)
    assert any(own.boundaries for own in arms)


def test_a_clock_that_jumps_has_no_boundaries_and_takes_no_memory() -> None:
    seconds, state = _draw(10)
    seconds[50:] += 1e13  # 10^14 periods
    assert _find(seconds, state, duration=float(seconds[-1])) == {}
