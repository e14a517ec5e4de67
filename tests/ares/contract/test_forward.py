"""Positions of links are those of products of matrices and of pinocchio."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ares.contract import Kinematics, end_effector_positions, read_kinematic_chains
from ares.contract.kinematics import kinematics_from_json
from tests.ares.contract.robots import joint, robot

# A chain with the joint frames of a Panda arm and flange: positions by pinocchio 4.1.0.
PANDA_FRAMES = (
    "0 0 0.333|0 0 0", "0 0 0|-1.5707963267948966 0 0", "0 -0.316 0|1.5707963267948966 0 0",
    "0.0825 0 0|1.5707963267948966 0 0", "-0.0825 0.384 0|-1.5707963267948966 0 0",
    "0 0 0|1.5707963267948966 0 0", "0.088 0 0|1.5707963267948966 0 0",
)  # fmt: skip
PANDA_POSES = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0],
        [0, -0.785, 0, -2.356, 0, 1.571, 0.785],
        [0.5, -0.3, 0.8, -1.9, -0.4, 2.1, 1.2],
    ]
)
PANDA_POSITIONS = np.array(
    [[0.088, 0, 0.926], [0.30701957, 0, 0.59026956], [0.10881002, 0.51977268, 0.63444745]]
)


def _write(folder: Path, text: str) -> str:
    path = folder / "robot.urdf"
    path.write_text(text)
    return str(path)


# A tree with joints of every type, axes that are no unit vectors, and a joint that follows another.
TREE = robot(
    joint("turn", "l0", "l1", '<origin xyz="0.3 0 0.2" rpy="0.4 -1.1 2"/><axis xyz="1 2 -1"/>'),
    joint("spin", "l1", "l2", '<origin xyz="0 0.5 0" rpy="0 0 1"/><axis xyz="0 1 1"/>', "continuous"),
    joint("slide", "l2", "l3", '<origin xyz="0.1 0 0"/><axis xyz="0 0 2"/>', "prismatic"),
    joint("side", "l1", "l4", '<axis xyz="1 0 0"/>'),
    joint("stay", "l3", "l5", '<origin xyz="0 0.2 0.1" rpy="1 0 0"/>', "fixed"),
    joint(
        "follow", "l5", "l6", '<origin xyz="0.2 0 0"/><mimic joint="turn" multiplier="-0.5" offset="0.3"/>'
    ),
    joint("tip", "l6", "l7", '<origin xyz="0.1 0.2 0.3"/>', "fixed"),
)
TREE_POSES = np.array([[0, 0, 0], [0.7, -1.2, 0.25], [-2.5, 3.0, -0.4]])
# By products of 4 x 4 matrices with the rotations of OpenCV.
TREE_POSITIONS = [
    [-0.053492843, -0.687691229, 0.719480368],
    [0.728767866, -0.310652071, 0.825008734],
    [0.322518037, -0.157396032, 0.345389272],
]


def test_a_tree_with_joints_of_every_type(tmp_path: Path) -> None:
    (chain,) = read_kinematic_chains(_write(tmp_path, TREE), ["l7"])
    assert list(chain.joint_types.values()) == ["revolute", "revolute", "prismatic"]
    positions = end_effector_positions(chain, dict(zip(("turn", "spin", "slide"), TREE_POSES.T, strict=True)))
    np.testing.assert_allclose(positions, TREE_POSITIONS, atol=1e-8)


def test_what_is_stored_computes_the_same(tmp_path: Path) -> None:
    chains = read_kinematic_chains(_write(tmp_path, TREE), ["l7", "l4"])
    kinematics = Kinematics(chains=chains, joints={"a": "turn"})
    assert kinematics_from_json(kinematics.to_json()) == kinematics


def test_the_frames_of_a_panda_as_pinocchio_has_them(tmp_path: Path) -> None:
    joints = []
    for number, frame in enumerate(PANDA_FRAMES):
        xyz, rpy = frame.split("|")
        inside = f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="0 0 1"/>'
        joints.append(joint(f"j{number}", f"l{number}", f"l{number + 1}", inside))
    joints.append(joint("flange", "l7", "l8", '<origin xyz="0 0 0.107"/>', "fixed"))
    (chain,) = read_kinematic_chains(_write(tmp_path, robot(*joints)), ["l8"])
    positions = end_effector_positions(chain, {f"j{n}": PANDA_POSES[:, n] for n in range(7)})
    np.testing.assert_allclose(positions, PANDA_POSITIONS, atol=1e-6)
