"""HDF5 ingestion of the samples, compared with h5py, and of folders and single files."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import cv2
import h5py  # type: ignore[import-untyped]
import numpy as np

from ares.media import FileCache, browser_video, frames_at, probe_video, thumbnail
from ares_ingest.hdf5 import hdf5

STEPS = 9


def test_robosuite_sample(h5: Any, shared_data: Path) -> None:
    folder = shared_data / "robosuite_hdf5"
    source = h5.opened(folder)
    items = list(source.items)
    assert hdf5.recognises(str(folder)) and (source.total, len(items)) == (6, 6)
    assert source.warnings == ("float64 numbers are stored as float32",)
    for item in items:
        record = item.load()
        episode, path = record.episode, Path(record.episode.source)
        with h5py.File(path) as file:
            stored = {name: dataset[()].astype(np.float32) for name, dataset in file["data/demo_1"].items()}
        assert np.array_equal(h5.values(record.trajectory.action), stored["actions"])
        assert np.array_equal(h5.values(record.trajectory.state), stored["states"])
        assert np.array_equal(h5.values(record.trajectory.extra["joint_torques"]), stored["joint_torques"])
        assert (episode.robot, episode.rate_source, episode.success) == ("Panda", "source", None)
        assert episode.rate_hz == 20.0  # the state has the simulator's time, 0.05 s a step
        assert episode.metadata["env_name"] and episode.metadata["repository_version"] == "1.0.0"
        assert record.warnings == ("episode has no obs, only what the simulator kept",)
    assert items[0].load().episode.key == "door/panda/demo.hdf5/demo_1"


def test_aloha_sample(h5: Any, shared_data: Path, tmp_path: Path) -> None:
    source = h5.opened(shared_data / "aloha_hdf5")
    packed, raw = (item.load() for item in source.items)
    assert source.warnings == ("float64 numbers are stored as float32",)
    for record in (packed, raw):
        episode, (camera,) = record.episode, record.episode.cameras
        with h5py.File(episode.source) as file:
            action, qpos, qvel = (
                file[name][()] for name in ("action", "observations/qpos", "observations/qvel")
            )
            images = file["observations/images/top"][()]
        assert np.array_equal(h5.values(record.trajectory.action), action.astype(np.float32))
        assert np.array_equal(h5.values(record.trajectory.state), qpos.astype(np.float32))
        assert np.array_equal(h5.values(record.trajectory.extra["qvel"]), qvel.astype(np.float32))
        assert set(record.trajectory.extra) == {"qvel"} and record.warnings == ()
        assert (episode.rate_hz, episode.rate_source, episode.robot) == (50.0, "format", "ALOHA")
        assert episode.state_names[6::7] == ("left_gripper", "right_gripper") == episode.action_names[6::7]
        assert (camera.role, camera.width, camera.height) == ("top", 640, 480)
        expected: Any = images[[0, 20, 39]]
        if camera.codec == "jpeg":
            decoded: Any = [cv2.imdecode(row, cv2.IMREAD_COLOR_RGB) for row in expected]
            expected = np.stack(decoded)
        assert np.array_equal(frames_at(camera.media, [0.0, 0.4, 0.78]), expected)
    assert [record.episode.cameras[0].codec for record in (packed, raw)] == ["jpeg", "raw"]
    assert [record.episode.num_steps for record in (packed, raw)] == [500, 40]
    assert packed.episode.metadata == {"compress": True, "sim": True}
    cache = FileCache(tmp_path, 10**9)
    info = probe_video(browser_video(raw.episode.cameras[0].media, "h264", cache))
    assert (info.num_frames, info.rate_hz, info.duration_seconds) == (40, 50.0, 0.8)
    assert thumbnail(packed.episode.cameras[0].media, 3.0, 64, cache).read_bytes()[:2] == b"\xff\xd8"


def test_demonstrations_and_files_are_sorted_by_number(h5: Any, tmp_path: Path) -> None:
    for number in (10, 2):
        h5.write(
            tmp_path / f"part_{number}.hdf5",
            **{f"data__demo_{n}__actions": h5.numbers(3, 2) for n in (10, 9, 0)},
        )
    source = h5.opened(tmp_path)
    assert [item.load().episode.key for item in source.items] == [
        f"part_{number}.hdf5/demo_{n}" for number in (2, 10) for n in (0, 9, 10)
    ]
    assert source.total == 6


def test_splits_are_the_masks(h5: Any, tmp_path: Path) -> None:
    names = {f"data__demo_{n}__actions": h5.numbers(3, 2) for n in range(3)}
    masks = {
        "mask__train": [b"demo_0", b"demo_7"],
        "mask__valid": [b"demo_1", b"demo_0"],
        "mask__better": [b"demo_2"],
    }
    source = h5.opened(h5.write(tmp_path / "a.hdf5", **names, **masks))
    episodes = [item.load().episode for item in source.items]
    assert [(episode.split, episode.metadata["masks"]) for episode in episodes] == [
        ("train", ["train", "valid"]),
        ("valid", ["valid"]),
        ("", ["better"]),
    ]
    assert "a mask names demonstrations that are not in the file" in source.warnings
    assert "a demonstration is in several splits; the first is used" in source.warnings


def test_the_users_rate_wins(h5: Any, tmp_path: Path) -> None:
    attrs = {"data": {"env_args": json.dumps({"env_kwargs": {"control_freq": 20}})}}
    source = h5.opened(h5.demo(tmp_path / "a.hdf5", attrs, obs__front=h5.pictures()), rate_hz=5.0)
    record = next(source.items).load()
    assert (record.episode.rate_hz, record.episode.rate_source, source.warnings) == (5.0, "user", ())
    assert record.trajectory.timestamps.tolist() == (np.arange(STEPS) / 5.0).tolist()
    assert record.episode.cameras[0].media.rate_hz == 5.0


def test_a_file_alone_is_the_same_episode_as_in_its_folder(h5: Any, tmp_path: Path) -> None:
    path = h5.demo(tmp_path / "set" / "a.hdf5")
    (by_file,), (by_folder,) = h5.opened(path).items, h5.opened(path.parent).items
    assert by_file.episode_id == by_folder.episode_id
    assert pickle.loads(pickle.dumps(by_file)).load().episode == by_folder.load().episode


def test_the_hash_tells_the_same_content(h5: Any, tmp_path: Path) -> None:
    arrays = {"actions": h5.numbers(STEPS, 7), "obs__front": h5.pictures()}
    first, same = (
        h5.only(h5.demo(tmp_path / "a.hdf5", **arrays)),
        h5.only(h5.demo(tmp_path / "b.hdf5", **arrays)),
    )
    changed = {**arrays, "obs__front": arrays["obs__front"].copy()}
    changed["obs__front"][STEPS // 2, 0, 0, 0] ^= 1
    other = h5.only(h5.demo(tmp_path / "c.hdf5", **changed))
    assert first.episode.content_hash == same.episode.content_hash != other.episode.content_hash
