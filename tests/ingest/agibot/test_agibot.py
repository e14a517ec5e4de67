"""AgiBot World: values, seconds, videos and subtasks as written; gaps in actions are told; damage costs one record."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.agibot import agibot
from ares_ingest.base import SourceOptions
from tests.ingest.agibot.conftest import STEPS, arrays, opened, read, write_agibot, write_episode, write_task
from tests.ingesting import open_sources


def test_values_seconds_videos_and_subtasks_are_those_that_were_written(tmp_path: Path) -> None:
    write_agibot(tmp_path / "AgiBotWorld-Alpha")
    (source,) = open_sources([str(tmp_path)])
    assert (source.format, source.dataset, source.total) == ("agibot", "AgiBotWorld-Alpha", 3)
    records = [item.load() for item in source.items]
    assert [record.episode.key for record in records] == ["327/648642", "327/648649", "1352/7"]
    episode, trajectory, written = records[0].episode, records[0].trajectory, arrays(seed=648642)
    assert trajectory.state is not None and trajectory.action is not None
    state = np.concatenate(
        [written[f"state/{part}/position"] for part in ("joint", "effector", "head", "waist")], 1
    )
    np.testing.assert_array_equal(trajectory.state.values, state.astype(np.float32))
    np.testing.assert_array_equal(
        trajectory.action.values[:, -2:], written["action/robot/velocity"].astype(np.float32)
    )
    assert trajectory.state.names[13:16] == ("right_arm_6", "left_gripper", "right_gripper")
    assert trajectory.extra["state.end.position"].values.shape == (STEPS, 6)
    np.testing.assert_allclose(trajectory.timestamps, np.arange(STEPS) * 0.033333333, rtol=1e-12)
    assert episode.rate_hz == pytest.approx(30.0, rel=1e-6) and episode.rate_source == "measured"
    assert episode.instruction == "Pack fruit" and episode.success is None
    assert episode.metadata["intrinsics"] == {"head": {"fx": 600.5, "fy": 601}}
    (segment,) = records[0].segments
    assert (segment.style, segment.text, segment.author) == ("subtask", "Pick up the lemon.", "")
    assert segment.fields == {"skill": "Pick"} and "subtasks" not in episode.metadata
    assert (segment.start_seconds, segment.stop_seconds) == tuple(trajectory.timestamps[[2, 7]])
    assert [camera.name for camera in episode.cameras] == ["hand_left", "head"]
    frames = frames_at(episode.cameras[1].media, [0.0, 5 / 30])
    assert [round(float(frame.mean()) / 20) for frame in frames] == [0, 5]
    assert records[0].warnings == ()


def test_every_file_is_listed_with_its_use(tmp_path: Path) -> None:
    root = write_agibot(tmp_path / "alpha")
    depth = root / "observations" / "327" / "648642" / "depth"
    depth.mkdir()
    (depth / "head_depth_000000.png").write_bytes(b"png")
    (root / "observations" / "400").mkdir()
    (root / "observations" / "400" / "1-2.tar").write_bytes(b"tar")
    source = opened(root)
    uses = {file.path: file.use for file in source.files()}
    assert set(uses) == {str(path) for path in root.rglob("*") if path.is_file()}
    assert uses[str(depth / "head_depth_000000.png")] == "data"
    assert uses[str(root / "observations/400/1-2.tar")] == "unused"
    warnings = next(iter(source.items)).load().warnings
    assert "camera head_depth left out: image cannot be decoded" in warnings


def test_commands_at_some_steps_are_held_until_the_next(tmp_path: Path) -> None:
    steps, commands = np.array([2, 3, 7]), np.arange(6.0).reshape(3, 2)
    changed = {"action/effector/position": commands, "action/effector/index": steps}
    write_episode(tmp_path / "beta", changed=changed)
    (record,) = read(tmp_path / "beta")
    action = record.trajectory.action
    assert action is not None
    held = action.values[:, action.names.index("left_gripper")].tolist()
    assert held == [0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 4]
    sent = record.trajectory.extra["action.effector.is_sent"].values[:, 0]
    assert np.flatnonzero(sent).tolist() == steps.tolist()
    assert any("the last one is repeated" in warning for warning in record.warnings)


def test_only_an_index_of_commands_says_when_they_were_sent(tmp_path: Path) -> None:
    frames = np.arange(2.0 * STEPS).reshape(STEPS, 2)
    write_episode(tmp_path / "beta", changed={"camera/index": frames})
    (record,) = read(tmp_path / "beta")
    signal = record.trajectory.extra["camera.index"]
    assert signal.names == ("camera_index_0", "camera_index_1")
    assert np.array_equal(signal.values, frames.astype(np.float32))
    (array,) = (array for array in record.arrays if array.key == "camera/index")
    assert array.shape == (STEPS, 2)


@pytest.mark.parametrize(
    "commands", [np.ones((STEPS + 1, 14)), np.ones((STEPS - 2, 14))], ids=["longer", "no index"]
)
def test_an_action_that_cannot_be_aligned_is_no_action(tmp_path: Path, commands: np.ndarray) -> None:
    changed = {"action/joint/position": commands, "action/joint/index": None}
    write_episode(tmp_path / "beta", changed=changed)
    (record,) = read(tmp_path / "beta")
    assert record.trajectory.action is None and record.trajectory.state is not None
    assert any(warning.startswith("action/joint/position is not stored") for warning in record.warnings)
    assert "action.head.position" in record.trajectory.extra


def test_parts_that_were_not_downloaded_are_told(tmp_path: Path) -> None:
    root = tmp_path / "alpha"
    shutil.rmtree(write_episode(root, 320, 1).parents[1])
    write_episode(root, 327, 2)
    for video in (root / "observations" / "327" / "2" / "videos").iterdir():
        video.unlink()
    write_task(root, 999, [5])
    source = opened(root)
    assert any(
        warning.startswith("1 task of task_info is without an episode here") for warning in source.warnings
    )
    without_signals, without_videos = (item.load() for item in source.items)
    assert without_signals.trajectory.state is None and without_signals.episode.num_steps == STEPS
    assert any("videos and no signals" in warning for warning in without_signals.warnings)
    assert (
        without_videos.episode.cameras == ()
        and "no videos of the episode are here" in without_videos.warnings
    )


def test_links_and_external_storage_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\x01" * 4096)
    path = write_episode(tmp_path / "a", changed={"state/head/position": None})
    with h5py.File(path, "a") as file:
        file["state/waist/other"] = h5py.SoftLink("/state/joint/position")
        file["state/waist/far"] = h5py.ExternalLink(str(secret), "/x")
        file.create_dataset("state/head/position", (STEPS, 2), "f8", external=[(str(secret), 0, 4096)])
    (record,) = read(tmp_path / "a")
    assert record.trajectory.state is not None and "head_yaw" not in record.trajectory.state.names
    assert not any("waist.other" in name or "waist.far" in name for name in record.trajectory.extra)


def test_a_folder_without_agibot_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="folder holds no AgiBot World data"):
        agibot.open(str(tmp_path), SourceOptions())
