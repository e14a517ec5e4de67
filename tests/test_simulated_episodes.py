"""Episodes of simulators for benchmarks: worlds and parts that would prove nothing are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.drawn_robots import ROBOTS, draw_dataset
from benchmarks.grading import check_rows, read_rows, read_seeds
from benchmarks.simulated_robots import SimulatedDataset, UnstableWorldError, record_signals, refuse_unstable


class PlanarArm:
    """Two joints; the pose is their sum."""

    def __init__(self) -> None:
        self.names = ["shoulder", "elbow"]

    def pose(self, values: np.ndarray) -> np.ndarray:
        """(6,) with the sum first."""
        return np.array([values.sum(), 0, 0, 0, 0, values[0]])


def test_a_commit_draws_the_settings_of_a_dataset() -> None:
    first, again, other = (draw_dataset(ROBOTS[0], 0, draw) for draw in ("c6f98509", "c6f98509", "1ce17d39"))
    assert first == again != other


@pytest.mark.parametrize("speed", [13.0, -13.0, float("nan"), float("inf")])
def test_a_world_in_which_a_joint_is_faster_than_any_arm_is_refused(speed: float) -> None:
    refuse_unstable("icub", [12.0, -12.0])
    with pytest.raises(UnstableWorldError, match="icub: a joint moves at"):
        refuse_unstable("icub", [0.1, speed])


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


def _episode(seed: int, length: int, success: bool) -> dict[str, Any]:
    mode = "expert" if success else "stop"
    return {"id": f"push_{seed}", "task": "push", "success": success, "mode": mode, "length": length}


def test_a_folder_of_another_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta_0.jsonl").write_text(json.dumps(_episode(125, 80, True)))
    assert len(read_rows(tmp_path, "development")) == 1
    with pytest.raises(ValueError, match=r"no folder of the test part: seeds \[125\]"):
        read_rows(tmp_path, "test")
    assert read_seeds()[124] == "test"


def test_too_few_failures_and_lengths_that_tell_the_outcome_are_refused() -> None:
    success, failure = _episode(124, 80, True), _episode(192, 80, False)
    assert "AUROC of 0.500" in check_rows([success, failure, failure])
    with pytest.raises(ValueError, match="too few failures"):
        check_rows([success, success, success, failure])
    with pytest.raises(ValueError, match="which tells the outcome"):
        check_rows([success, {**failure, "length": 110}])
