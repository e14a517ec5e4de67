"""Numbers that can hardly be meant are said, masks are no cameras, and flags of subtasks are segments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

import ares
from ares.episode import NotRead
from ares_ingest.base import SourceOptions
from ares_ingest.operation import show_specs
from ares_ingest.pipeline import account_for_unread
from ares_ingest.subtask_flags import add_flagged_subtasks
from tests.generators.lerobot_folders import LeRobotFolder
from tests.ingest.test_checks import CAMERA, GOOD
from tests.ingesting import open_sources, request_for

STEPS = 8
LAST = np.arange(2 * STEPS) % STEPS == STEPS - 1
ODD = {
    "timestamp": (np.zeros(2 * STEPS, np.float32), "timestamps do not rise, the rate is used"),
    "next.done": (
        np.zeros(2 * STEPS, bool),
        "next.done is true at no step: the end of the episode is not marked",
    ),
    "next.reward": (np.ones(2 * STEPS, np.float32), "the reward is the same at every step"),
    "progress": (np.ones(2 * STEPS, np.float32), "progress is the same at every step"),
}


@pytest.mark.parametrize("name", ODD)
def test_numbers_that_say_nothing_are_named(name: str, tmp_path: Path) -> None:
    values, said = ODD[name]
    moving = np.sin(np.arange(4 * STEPS)).reshape(-1, 2).astype(np.float32)
    usual = {"next.done": LAST, "next.reward": LAST.astype(np.float32), "progress": moving[:, 0]}
    columns = {"observation.state": moving, "action": moving + 1, **usual}
    for folder, changed in (("good", columns), ("odd", columns | {name: values})):
        LeRobotFolder(columns=changed, lengths=[STEPS, STEPS], tasks=["lift it"]).write(tmp_path / folder)
    good, odd = ares.check(tmp_path).datasets
    assert {**odd.warnings} == {**good.warnings, said: 2}


@pytest.mark.parametrize(("flags", "success"), [([0, 1, 1], True), ([0, 0, 0], False), ([0, 1, 0], None)])
def test_a_flag_of_success_of_each_step_is_the_outcome_where_the_last_agrees(
    flags: list[int], success: bool | None, tmp_path: Path
) -> None:
    arrays = {"qpos": np.eye(3), "action": np.eye(3), "success": np.array(flags, bool)}
    np.savez(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    (source,) = open_sources([str(tmp_path)])
    (item,) = source.items
    assert account_for_unread(item.load()).episode.success is success


def test_a_camera_that_is_named_as_a_mask_has_no_colours() -> None:
    names = ("front", "front_mask", "instance_ids", "cam/seg", "top_depth", "masked", "segway")
    cameras = tuple(replace(CAMERA, name=name) for name in names)
    record = account_for_unread(replace(GOOD, episode=replace(GOOD.episode, cameras=cameras)))
    assert [camera.name for camera in record.episode.cameras] == ["front", "masked", "segway"]
    assert sum(isinstance(warning, NotRead) for warning in record.warnings) == 4


def demonstrations(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        for number in range(2):
            group = file.create_group(f"data/demo_{number}")
            group["actions"], group["obs/joint_pos"] = np.eye(STEPS), np.eye(STEPS)
            for name, step in (("stack_1", 5), ("grasp_1", 2), ("never", STEPS)):
                group[f"obs/datagen_info/subtask_term_signals/{name}"] = np.arange(STEPS) >= step
    return path


def test_flags_of_subtasks_are_segments(tmp_path: Path) -> None:
    (source,) = open_sources([str(demonstrations(tmp_path / "a.hdf5"))])
    record = add_flagged_subtasks(next(source.items).load())
    spans: list[object] = [(part.text, part.start_seconds, part.stop_seconds) for part in record.segments]
    assert spans == [
        ("grasp 1", 0.0, pytest.approx(0.2)),
        ("stack 1", pytest.approx(0.2), pytest.approx(0.5)),
    ]


def test_minari_is_read_and_observations_beyond_the_actions_are_said(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        for number in range(2):
            group = file.create_group(f"episode_{number}")
            group["actions"], group["observations"] = np.ones((STEPS, 2)), np.ones((STEPS + 1, 3))
            group["rewards"], group["terminations"] = np.ones(STEPS), np.zeros(STEPS, bool)
    (source,) = open_sources([str(tmp_path)])
    record = [item.load() for item in source.items][1]
    assert record.trajectory.state is not None and record.trajectory.state.values.shape == (STEPS, 3)
    assert record.warnings == ("the observation after the last action is not stored",)


def test_the_spec_that_is_shown_gives_as_many_episodes_as_it_says(tmp_path: Path) -> None:
    ends = {"terminals": [9], "timeouts": [4, 14]}
    with h5py.File(tmp_path / "flat.hdf5", "w") as file:
        file["observations"], file["actions"] = np.eye(15), np.eye(15)
        for name, steps in ends.items():
            file[name] = np.isin(np.arange(15), steps)
    shown = show_specs(request_for([str(tmp_path)]))
    assert shown.startswith("# it gives 3 episodes")
    (tmp_path / "spec.yaml").write_text(shown)
    (source,) = open_sources([str(tmp_path)], SourceOptions(spec=str(tmp_path / "spec.yaml")))
    assert source.total == 3
