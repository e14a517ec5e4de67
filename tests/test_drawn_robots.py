"""Robots that a look shall not have seen are drawn by the hash of a commit, and unstable simulations are refused."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.drawn_robots import ROBOTS, draw_dataset
from benchmarks.simulated_robots import (
    DATASETS,
    SimulatedDataset,
    UnstableWorldError,
    record_signals,
    refuse_unstable,
    via_points,
)

UNSEEN = [robot for robot in ROBOTS if robot.part == "unseen"]


class PlanarArm:
    """Two joints; the pose is their sum."""

    def __init__(self) -> None:
        self.names = ["shoulder", "elbow"]

    def pose(self, values: np.ndarray) -> np.ndarray:
        """(6,) with the sum first."""
        return np.array([values.sum(), 0, 0, 0, 0, values[0]])


def test_no_robot_of_the_unseen_part_was_recorded_before() -> None:
    before = {dataset.robot.lower() for dataset in DATASETS}
    assert len(UNSEEN) == 13 and not any(robot.name in name for robot in UNSEEN for name in before)


def test_a_commit_draws_the_settings_of_its_datasets() -> None:
    first, again, other = (draw_dataset(UNSEEN[0], 0, draw) for draw in ("c6f98509", "c6f98509", "1ce17d39"))
    assert first == again and asdict(first[0]) != asdict(other[0]) and asdict(first[1]) != asdict(other[1])
    drawn = [draw_dataset(robot, number, "any") for robot in UNSEEN for number in range(20)]
    assert {dataset.rate_hz for dataset, _ in drawn} == {5, 6, 8, 10, 12.5, 15, 20, 25, 30, 40, 50}
    assert all(6 <= dataset.episodes <= 12 and settings.delay <= 0.1 for dataset, settings in drawn)
    hands = {robot.name for robot in UNSEEN if not robot.has_gripper}
    assert not any(dataset.state == "pose" for dataset, _ in drawn if dataset.robot in hands)
    assert not any(dataset.degrees for dataset, _ in drawn if dataset.robot == "stretch")


@pytest.mark.parametrize("speed", [13.0, -13.0, float("nan"), float("inf")])
def test_a_world_in_which_a_joint_is_faster_than_any_arm_is_refused(speed: float) -> None:
    refuse_unstable("icub", [12.0, -12.0])
    with pytest.raises(UnstableWorldError, match="icub: a joint moves at"):
        refuse_unstable("icub", [0.1, speed])


@pytest.mark.parametrize("style", ["planner", "trapezoid", "person"])
def test_motions_begin_and_end_at_home_and_never_jump(style: str) -> None:
    dataset = SimulatedDataset(package="mujoco", robot="arm", task="pick", style=style)  # type: ignore[arg-type]
    home, goal = np.zeros(2), np.array([0.8, -0.5])
    command = via_points(dataset, np.random.default_rng(1), home, [(goal, 0.0)], 1.0)
    assert np.abs(command[-1, :-1] - home).max() < 0.01 and command[-1, -1] == 1.0
    assert np.abs(command[:, :-1] - goal).sum(axis=1).min() < 0.1
    assert np.abs(np.diff(command[:, :-1], axis=0)).max() * dataset.rate_hz < 2.5


def test_what_is_recorded_is_what_the_kinds_say() -> None:
    command, measured = np.random.default_rng(2).normal(0, 1, (2, 40, 3))
    for action, expected in (
        ("joints", np.rad2deg(command[:, :2])),
        ("delta", np.vstack([np.rad2deg(np.diff(command[:, :2], axis=0)), np.zeros((1, 2))])),
    ):
        dataset = SimulatedDataset(package="p", robot="r", task="t", action=action, degrees=True)  # type: ignore[arg-type]
        recording = record_signals(dataset, PlanarArm(), command, measured, "pick")
        assert np.allclose(recording.state[:, :2], np.rad2deg(measured[:, :2]))
        assert (
            np.allclose(recording.action[:, :2], expected) and (recording.action[:, 2] == command[:, 2]).all()
        )
    dataset = SimulatedDataset(package="p", robot="r", task="t", state="pose", action="pose")
    recording = record_signals(dataset, PlanarArm(), command, measured, "pick")
    assert np.allclose(recording.state[:, 0], measured[:, :2].sum(axis=1))
    assert recording.action_names[0] == "x"
