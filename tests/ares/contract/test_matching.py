"""Joints of a URDF and dimensions of a dataset, by their names."""

from __future__ import annotations

import pytest

from annotators.motion.meaning import match_joints


@pytest.mark.parametrize(
    ("joints", "names", "expected"),
    [
        # SO-101 and LeRobot
        (["shoulder_pan", "elbow_flex"], ("shoulder_pan.pos", "elbow_flex.pos", "gripper.pos"), [0, 1]),
        # Unitree G1
        (["left_elbow_joint", "right_elbow_joint"], ("kRightElbow", "kLeftElbow"), [1, 0]),
        (["panda_joint1", "panda_joint2"], ("panda_joint1", "panda_joint2"), [0, 1]),
        # The position and not the speed.
        (["joint1"], ("joint1_vel", "joint1_effort", "joint1_pos"), [2]),
    ],
)
def test_names_that_match(joints: list[str], names: tuple[str, ...], expected: list[int]) -> None:
    match = match_joints(joints, names)
    assert [match.dimensions[joint] for joint in joints] == expected
    assert match.unmatched == ()


@pytest.mark.parametrize(
    ("joints", "names", "unmatched"),
    [
        # Numbers of another robot, or of another count, say nothing.
        (["panda_joint1"], ("joint_1",), ("panda_joint1",)),
        (["left_waist"], ("waist",), ("left_waist",)),
        # Two dimensions of the same words.
        (["elbow_joint"], ("elbow", "elbow_position"), ("elbow_joint",)),
        # Two joints of the same words.
        (["elbow", "elbow_joint"], ("kElbow",), ("elbow", "elbow_joint")),
        (["joint"], ("joint_pos",), ("joint",)),
    ],
)
def test_names_that_do_not(joints: list[str], names: tuple[str, ...], unmatched: tuple[str, ...]) -> None:
    assert match_joints(joints, names).unmatched == unmatched


def test_a_stated_dimension_decides() -> None:
    match = match_joints(["1", "2"], ("2", "states_1", "1"), {"states_1": "2", "gone": "1"})
    assert match.dimensions == {"1": 2, "2": 1}
