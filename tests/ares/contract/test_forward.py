"""Positions of links against products of matrices and against pinocchio."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ares.contract import Kinematics, end_effector_positions, read_kinematic_chains
from ares.contract.kinematics import kinematics_from_json
from tests.ares.contract.robots import joint, position_by_matrices, random_robot, robot

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


@pytest.mark.parametrize("seed", range(10))
def test_trees_with_joints_of_every_type(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    urdf = random_robot(rng, int(rng.integers(4, 25)))
    link = re.findall(r'<link name="(l\d+)"', urdf)[-1]
    chain = read_kinematic_chains(_write(tmp_path, urdf), [link])[0]
    values = {name: rng.uniform(-3, 3, 6) for name in re.findall(r'<joint name="(j\d+)"', urdf)}
    positions = np.broadcast_to(
        end_effector_positions(chain, {name: values[name] for name in chain.joint_types}), (6, 3)
    )
    for step in range(6):
        pose = {name: float(value[step]) for name, value in values.items()}
        expected = position_by_matrices(urdf, link, pose)
        np.testing.assert_allclose(positions[step], expected, atol=1e-9, err_msg=f"seed {seed}")


def test_what_is_stored_computes_the_same(tmp_path: Path) -> None:
    urdf = random_robot(np.random.default_rng(3), 12)
    chains = read_kinematic_chains(_write(tmp_path, urdf), ["l11", "l10"])
    kinematics = Kinematics(chains=chains, joints={"a": "j1"})
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
