"""Paths of end effectors by forward kinematics: from an option or a spec, in the unit of the dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from annotators.motion.annotator import measure_motion
from annotators.motion.meaning import MotionMeaning, find_end_effectors
from ares.contract import Kinematics, read_kinematic_chains
from ares.episode import Signal, Trajectory
from ares.errors import RequestError
from tests.annotators.motion.motion_workspace import motion_rows, write_episodes
from tests.ares.contract.robots import planar_arm

# Two links in a plane, of 0.4 and 0.3 m; l3 is the tip.
LENGTHS = [0.4, 0.3]
STEPS, RATE_HZ = 400, 20.0


def _angles(seed: int) -> NDArray[np.float64]:
    """(T, 2) smooth radians."""
    phases, seconds = np.random.default_rng(seed).uniform(0, 6, 2), np.arange(STEPS)[:, None] / RATE_HZ
    return np.asarray(1.8 * np.sin(0.4 * seconds + phases))


def _tip_path(angles: NDArray[np.float64]) -> float:
    headings = np.cumsum(angles, axis=1)
    tip = np.stack([np.cos(headings) @ LENGTHS, np.sin(headings) @ LENGTHS], axis=1)
    return float(np.linalg.norm(np.diff(tip, axis=0), axis=1).sum())


def _urdf(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "arm.urdf"
    path.write_text(planar_arm(LENGTHS))
    return path


def _spec(folder: Path, unit: str, kinematics: str) -> Path:
    path = folder / "spec.yaml"
    path.write_text(
        "reference: me\nstate: [{key: state, names: [joint_a, joint_b]}]\n"
        f"contract: {{state.arm: {{unit: {unit}}}}}\n{kinematics}"
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "factor"), [("rad", 1.0), ("deg", 180 / np.pi)])
def test_a_spec_names_the_urdf_and_the_joints(tmp_path: Path, unit: str, factor: float) -> None:
    _urdf(tmp_path)
    folder = write_episodes(tmp_path / "data", [factor * _angles(seed) for seed in range(3)])
    kinematics = "kinematics: {urdf: arm.urdf, end_effectors: [l3], joints: {joint_a: j0, joint_b: j1}}\n"
    rows = motion_rows(tmp_path, folder, _spec(tmp_path, unit, kinematics))
    for seed, row in enumerate(rows):
        assert row["path_length"] == pytest.approx(_tip_path(_angles(seed)), rel=0.02)
        assert sorted(row["motion_spaces"]) == ["end effector", "joints"]
        assert row["jerk_ldlj"] is not None and row["sparc"] is not None and row["joint_unit"] == "rad"


def test_the_options_of_the_command_take_the_names_of_the_dataset(tmp_path: Path) -> None:
    urdf = _urdf(tmp_path)
    folder = write_episodes(tmp_path / "data", [_angles(seed) for seed in range(3)])
    spec = _spec(tmp_path, "rad", "")
    spec.write_text(spec.read_text().replace("joint_a", "j0").replace("joint_b", "j1"))
    rows = motion_rows(tmp_path, folder, spec, urdf=str(urdf), end_effector="l3")
    assert [row["path_length"] for row in rows] == pytest.approx(
        [_tip_path(_angles(seed)) for seed in range(3)], rel=0.02
    )


def test_names_that_do_not_match_are_said(tmp_path: Path) -> None:
    urdf = _urdf(tmp_path)
    folder = write_episodes(tmp_path / "data", [_angles(0)])
    (row,) = motion_rows(tmp_path, folder, _spec(tmp_path, "rad", ""), urdf=str(urdf), end_effector="l3")
    assert row["path_length"] is None and row["joint_path_length"] is not None
    assert any("named like the joints j0, j1 of the URDF" in gap for gap in row["motion_gaps"])


def test_joints_in_percent_have_no_position(tmp_path: Path) -> None:
    urdf = _urdf(tmp_path)
    kinematics = Kinematics(chains=read_kinematic_chains(str(urdf), ["l3"]))
    ends, gap = find_end_effectors(kinematics, ("j0", "j1"), ("percent", "percent"))
    assert (ends, gap) == ((), "joints of the URDF are in the unit percent in the state (give a spec)")


def test_a_recorded_position_decides_over_the_urdf(tmp_path: Path) -> None:
    kinematics = Kinematics(chains=read_kinematic_chains(str(_urdf(tmp_path)), ["l3"]))
    names, units = ("j0", "j1", "x", "y", "z"), ("rad", "rad", "m", "m", "m")
    ends, _ = find_end_effectors(kinematics, names, units)
    meaning = MotionMeaning(
        state_kinds=("arm", "arm", "position", "position", "position"),
        action_kinds=(),
        path_units=units,
        end_effectors=ends,
    )
    state = np.concatenate([_angles(1), 0.1 * np.arange(STEPS)[:, None] * [[1.0, 0, 0]]], axis=1)
    trajectory = Trajectory(
        timestamps=np.arange(STEPS) / RATE_HZ, state=Signal(state.astype(np.float32), names)
    )
    assert measure_motion(trajectory, meaning)["path_length"] == pytest.approx(0.1 * (STEPS - 1), rel=0.01)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_joint_that_is_not_finite_is_said_and_warns_of_nothing(tmp_path: Path, value: float) -> None:
    kinematics = Kinematics(chains=read_kinematic_chains(str(_urdf(tmp_path)), ["l3"]))
    ends, _ = find_end_effectors(kinematics, ("j0", "j1"), ("rad", "rad"))
    meaning = MotionMeaning(
        state_kinds=("arm", "arm"), action_kinds=(), path_units=("rad", "rad"), end_effectors=ends
    )
    state = _angles(2).astype(np.float32)
    state[7, 1] = value
    measures = measure_motion(
        Trajectory(timestamps=np.arange(STEPS) / RATE_HZ, state=Signal(state, ("j0", "j1"))), meaning
    )
    gaps = measures["motion_gaps"]
    assert (
        isinstance(gaps, list) and "path, speed, smoothness: the state has values that are not finite" in gaps
    )


def test_options_of_one_without_the_other_are_refused(tmp_path: Path) -> None:
    folder = write_episodes(tmp_path / "data", [_angles(0)])
    with pytest.raises(RequestError, match="urdf and end_effector are given together"):
        motion_rows(tmp_path, folder, urdf="arm.urdf")
