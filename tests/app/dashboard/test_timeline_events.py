"""Ticks of the timeline are events of the motion and moments that rulings refer to, never a judge's sampling grid."""

from __future__ import annotations

import numpy as np
import pytest

from annotators.motion import find_gripper_events
from annotators.motion.annotator import measure_motion
from app.dashboard.timeline_ticks import is_evenly_sampled, make_gripper_ticks, make_ruling_ticks
from ares.episode import Signal, Trajectory
from ares.signals import classify_by_name

RATE_HZ = 20.0


def _trajectory(gripper: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Trajectory:
    steps = len(gripper)
    joints = np.random.default_rng(0).normal(size=(steps, 2)).cumsum(axis=0).astype(np.float32)
    values = np.concatenate([joints, gripper[:, None]], axis=1).astype(np.float32)
    state = Signal(values=values, names=("shoulder", "elbow", "gripper"))
    return Trajectory(timestamps=np.arange(steps) / RATE_HZ, state=state, action=None, reward=None)


def _opening(changes: list[int], steps: int = 200) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """1 where closed, with noise; it changes at the steps."""
    closed = np.searchsorted(changes, np.arange(steps), side="right") % 2
    noise = np.random.default_rng(1).normal(scale=0.02, size=steps)
    return np.asarray(closed + noise, dtype=np.float32)


@pytest.mark.parametrize("changes", [[40, 120], [30, 51, 90, 150]])
def test_each_change_of_the_gripper_is_a_tick_at_its_second(changes: list[int]) -> None:
    trajectory = _trajectory(_opening(changes))
    ticks = make_gripper_ticks(trajectory, None)
    assert [tick["seconds"] for tick in ticks] == [step / RATE_HZ for step in changes]
    assert {tick["kind"] for tick in ticks} <= {"changes"}
    directions = [str(tick["label"]).split()[-1] for tick in ticks]
    assert directions == ["rises", "falls"][: len(changes)] * (len(changes) // 2)


def test_the_ticks_are_those_that_the_annotator_counts() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        walk = rng.normal(size=300).cumsum().astype(np.float32)
        trajectory = _trajectory(walk)
        assert trajectory.state is not None
        events = find_gripper_events(trajectory.state, classify_by_name(trajectory.state.names), "gripper")
        assert len(events) == measure_motion(trajectory)["gripper_events"]


def _caption(*rulings: tuple[str, str, list[float]]) -> dict[str, object]:
    listed = [
        {"criterion": name, "verdict": verdict, "seconds": seconds} for name, verdict, seconds in rulings
    ]
    older = {"seconds": [], "rulings": [{"criterion": "VERB", "verdict": "MET", "seconds": [9.0]}]}
    return {"grades": [{"groups": []}, {"groups": [{"seconds": [], "rulings": listed}]}, {"groups": [older]}]}


def test_moments_of_rulings_are_ticks_with_their_criteria_and_a_sampling_grid_is_none() -> None:
    grid = [0.25 + 0.5 * number for number in range(8)]
    ticks = make_ruling_ticks(
        [_caption(("VERB", "MET", [1.0, 3.0]), ("OBJECT", "MET", grid), ("END", "UNMET", [3.0]))], 4
    )
    assert [(tick["seconds"], tick["label"]) for tick in ticks] == [
        (1.0, "VERB MET"),
        (3.0, "VERB MET, END UNMET"),
    ]
    assert {tick["kind"] for tick in ticks} == {"evidence"}
    assert make_ruling_ticks([], 4) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([0, 1, 2, 3], True), ([0.0, 1.01, 2.0, 3.0], True), ([0, 1, 2], False), ([0, 0.1, 2, 3], False),
     ([0, 0.3, 0.6, 0.9], False)],
)  # fmt: skip
def test_evenly_spaced_seconds_over_most_of_the_episode_are_a_grid(
    seconds: list[float], expected: bool
) -> None:
    assert is_evenly_sampled(seconds, 4.0) is expected
