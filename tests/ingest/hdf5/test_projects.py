"""HDF5 episodes of ManiSkill, RoboMIND, RoboTwin, XPolicyLab and EgoDex are read as their writers meant them."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.media import all_frames
from tests.ingest.hdf5.projects import ROBOMIND_ROBOTS, WRITERS, Written, egodex, maniskill, robomind

# After JPEG or H.264 of smooth pictures; red and blue differ by 190.
_LARGEST_CODING_ERROR = 12


def write(project: str, folder: Path) -> Written:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    return WRITERS[project](folder, rng, int(rng.integers(3, 12)))


@pytest.mark.parametrize("project", WRITERS)
def test_an_episode_has_the_values_and_colours_that_were_written(
    h5: Any, tmp_path: Path, project: str
) -> None:
    written = write(project, tmp_path)
    source = h5.opened(written.path)
    uses = {file.path: file.use for file in source.files()}
    assert set(uses) == {str(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert uses[str(written.file)] == "data" and set(uses.values()) <= {"data", "metadata"}
    (item,) = source.items
    episode, trajectory = (record := item.load()).episode, record.trajectory
    assert episode.num_steps == written.steps
    for signal, values in ((trajectory.action, written.action), (trajectory.state, written.state)):
        assert (signal is None) == (values is None)
        assert values is None or np.array_equal(h5.values(signal), values.astype(np.float32))
    assert set(trajectory.extra) == written.extra
    assert {name: getattr(episode, name) for name in written.facts} == written.facts
    np.testing.assert_array_equal(trajectory.timestamps, np.arange(written.steps) / episode.rate_hz)
    cameras = {camera.name: camera for camera in episode.cameras}
    assert set(cameras) == set(written.cameras)
    for name, images in written.cameras.items():
        frames = np.stack(list(all_frames(cameras[name].media)))
        assert frames.shape == images.shape
        assert np.abs(frames.astype(int) - images).max() <= _LARGEST_CODING_ERROR


@pytest.mark.parametrize("robot", ROBOMIND_ROBOTS)
def test_colours_of_robomind_by_robot(h5: Any, tmp_path: Path, robot: str) -> None:
    written = robomind(tmp_path, np.random.default_rng(1), 3, robot)
    episode = h5.only(tmp_path).episode
    frames = np.stack(list(all_frames(episode.cameras[0].media))).astype(int)
    assert np.abs(frames - written.cameras["camera_top"]).max() <= _LARGEST_CODING_ERROR
    assert episode.robot == robot


def test_what_is_left_out_is_said(h5: Any, tmp_path: Path) -> None:
    assert set(h5.only(write("ManiSkill", tmp_path).path).warnings) == {
        "camera sensor_data.base_camera.depth left out: it holds depth, not colour",
        "segmentation is not stored",
        "the observation after the last action is not stored",
    }


def test_the_json_of_maniskill_wins_over_the_array(h5: Any, tmp_path: Path) -> None:
    written = maniskill(tmp_path, np.random.default_rng(1), 5)
    path = written.file.with_suffix(".json")
    document = json.loads(path.read_text())
    success = not document["episodes"][0]["success"]
    document["episodes"][0].update(success=success, elapsed_steps=99)
    path.write_text(json.dumps(document))
    record = h5.only(tmp_path)
    assert record.episode.success is success
    assert {
        "*.json and success disagree on success; *.json is used",
        "elapsed_steps is not the number of actions",
    } <= set(record.warnings)


@pytest.mark.parametrize(
    "text", ["", "[", "[1]", '{"episodes": 3}', '{"episodes": [{"episode_id": 9}], "env_info": 1}']
)
def test_maniskill_without_a_usable_json(h5: Any, tmp_path: Path, text: str) -> None:
    written = maniskill(tmp_path, np.random.default_rng(1), 5)
    path = written.file.with_suffix(".json")
    if text:
        path.write_text(text)
    else:
        path.unlink()
    record = h5.only(tmp_path)
    assert record.episode.rate_hz == 20.0 and record.episode.rate_source == "format"
    assert isinstance(record.episode.success, bool)  # by the array
    assert any("*.json beside the file" in warning for warning in record.warnings)


def test_missing_videos_of_a_folder_are_one_warning(h5: Any, tmp_path: Path) -> None:
    """Each episode named the files of the others in a separate warning."""
    first = egodex(tmp_path, np.random.default_rng(0), 5).file
    first.with_suffix(".mp4").unlink()
    for number in range(1, 12):
        shutil.copy(first, first.with_name(f"{number}.hdf5"))
    records = [item.load() for item in h5.opened(tmp_path).items]
    assert {warning for record in records for warning in record.warnings if "video" in warning} == {
        "camera ego has no video"
    }


def test_trajectories_are_in_the_order_of_their_numbers(h5: Any, tmp_path: Path) -> None:
    written = maniskill(tmp_path, np.random.default_rng(1), 4)
    with h5py.File(written.file, "a") as file:
        for number in (10, 2):
            file.copy("traj_0", f"traj_{number}")
    source = h5.opened(tmp_path)
    keys = [item.load().episode.key.rpartition("/")[2] for item in source.items]
    assert keys == ["traj_0", "traj_2", "traj_10"] and source.total == 3
