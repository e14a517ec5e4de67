"""Kinds and units that `motion` goes by: learnt from the values of a dataset, or stated in a spec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ares.contract import DatasetKey, StoredContracts, read_contracts
from ares.episode import Json
from ares.workspace import Workspace
from tests.annotators.motion.motion_workspace import motion_rows, write_episodes

EPISODES, STEPS = 5, 200


def _joints(rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, 6) smooth angles in radians that leave the range of metres."""
    phases, seconds = rng.uniform(0, 6, (3, 6)), np.arange(STEPS)[:, None] / 20
    rates = np.array([0.3, 0.7, 1.1])[:, None, None]
    return np.asarray(np.sin(rates * seconds + phases[:, None]).sum(axis=0) + 0.4)


def _gripper(rng: np.random.Generator) -> NDArray[np.float64]:
    """(T, 1) closed in the middle."""
    start, stop = rng.integers(30, 80), rng.integers(100, 180)
    steps = np.arange(STEPS)
    return np.where((steps >= start) & (steps < stop), 0.04, 0.0)[:, None]


@pytest.mark.parametrize(("factor", "name"), [(1.0, "rad"), (180 / np.pi, "deg")])
def test_kinds_and_units_are_learnt_where_names_say_nothing(tmp_path: Path, factor: float, name: str) -> None:
    rng = np.random.default_rng(11)
    angles = [_joints(rng) for _ in range(EPISODES)]
    states = [np.concatenate([factor * part, _gripper(rng)], axis=1) for part in angles]
    rows = motion_rows(tmp_path, write_episodes(tmp_path / name, states))
    assert [row["motion_spaces"] for row in rows] == [["joints"]] * EPISODES
    assert [row["gripper_events"] for row in rows] == [2] * EPISODES
    assert {row["joint_unit"] for row in rows} == {"rad"}
    lengths = sorted(float(np.linalg.norm(np.diff(part, axis=0), axis=1).sum()) for part in angles)
    assert sorted(row["joint_path_length"] for row in rows) == pytest.approx(lengths, rel=0.05)


def test_few_episodes_without_names_are_measured_as_other_dimensions(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    rows = motion_rows(tmp_path, write_episodes(tmp_path / "few", [_joints(rng), _joints(rng)]))
    assert [row["motion_spaces"] for row in rows] == [["other dimensions"]] * 2
    assert all(row["joint_path_length"] is None and row["joint_unit"] is None for row in rows)


@pytest.mark.slow
def test_a_spec_states_the_unit(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    positions = [np.cumsum(rng.normal(0, 0.01, (STEPS, 3)), axis=0) for _ in range(EPISODES)]
    folder = write_episodes(tmp_path / "positions", positions)
    names = "reference: me\nstate: [{key: state, names: [x, y, z]}]\ncontract: {state.position: {unit: "
    rows = {}
    for unit in ("m", "mm", "normalised"):
        (tmp_path / f"{unit}.yaml").write_text(names + unit + "}}\n")
        rows[unit] = motion_rows(tmp_path / unit, folder, tmp_path / f"{unit}.yaml")[0]
    assert rows["mm"]["path_length"] == pytest.approx(rows["m"]["path_length"] / 1000)
    assert rows["mm"]["jerk_ldlj"] == pytest.approx(rows["m"]["jerk_ldlj"], abs=1e-6)
    assert rows["normalised"]["path_length"] is None and rows["normalised"]["sparc"] is not None
    assert any("the unit of positions" in gap for gap in rows["normalised"]["motion_gaps"])


@pytest.mark.nightly
def test_commanded_positions_are_measured_where_there_is_no_state(tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    angles = [_joints(rng) for _ in range(EPISODES)]
    folder = tmp_path / "commands"
    folder.mkdir()
    for number, values in enumerate(angles):
        np.savez(folder / f"episode_{number}.npz", action=np.degrees(values))
    names = ", ".join(f"joint_{number}" for number in range(6))
    text = f"reference: me\naction: [{{key: action, names: [{names}]}}]\n"
    rows = {}
    for mode in ("absolute", "velocity"):
        spec = tmp_path / f"{mode}.yaml"
        spec.write_text(f"{text}contract: {{action.arm: {{mode: {mode}, unit: deg}}}}\n")
        rows[mode] = motion_rows(tmp_path / mode, folder, spec)
    lengths = [float(np.linalg.norm(np.diff(part, axis=0), axis=1).sum()) for part in angles]
    assert [row["joint_path_length"] for row in rows["absolute"]] == pytest.approx(lengths, rel=0.05)
    assert all(row["joint_path_length"] is None for row in rows["velocity"])
    assert any("there is no state" in gap for gap in rows["velocity"][0]["motion_gaps"])


def test_a_contract_with_the_kinematics_of_an_earlier_version_is_read(ws: Workspace) -> None:
    key = DatasetKey("npz", "arm", "")
    document: Json = {
        "contracts": [],
        "stated": {},
        "kinematics": {"chains": [], "joints": {}},
        "spec_hash": "1f",
    }
    ws.stores.annotations.put_documents("contracts", {key.document_key: document})
    assert read_contracts(ws.stores.annotations, key) == StoredContracts(stated={}, spec_hash="1f")
