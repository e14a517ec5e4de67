"""Folders of tables and images: values, seconds, pixels as written; guesses are said; damage costs one record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ares.errors import SourceError
from ares.media import frames_at
from ares_ingest.image_folders import csv_episodes
from ares_ingest.image_folders.tables import assign_column_roles
from tests.ingest.image_folders.conftest import (
    START,
    STEPS,
    columns,
    image_bytes,
    opened,
    read,
    write_dataset,
    write_episode,
    write_images,
    write_table,
)


def _brightness(record_camera: object, seconds: list[float]) -> list[int]:
    frames = frames_at(record_camera.media, seconds)  # type: ignore[attr-defined]
    return [round(float(frame.mean()) / 20) for frame in frames]


def test_values_seconds_and_pixels_are_those_that_were_written(tmp_path: Path) -> None:
    root = write_dataset(tmp_path / "drawers")
    source = opened(root)
    assert (source.dataset, source.total, source.warnings) == ("drawers", 3, ())
    records = [item.load() for item in source.items]
    episode, trajectory, written = records[2].episode, records[2].trajectory, columns()
    assert trajectory.state is not None and trajectory.action is not None
    assert trajectory.state.names == ("joint_0", "joint_1")
    expected = np.array([written["joint_0"], written["joint_1"]], np.float32).T
    np.testing.assert_array_equal(trajectory.state.values, expected)
    np.testing.assert_array_equal(trajectory.action.values[:, 1], np.arange(STEPS))
    assert trajectory.extra["force"].values[0, 0] == 2.0
    np.testing.assert_allclose(trajectory.timestamps, np.arange(STEPS) / 20, atol=1e-6)
    assert episode.rate_hz == pytest.approx(20.0) and episode.rate_source == "measured"
    assert episode.instruction == "open the drawer" and episode.metadata == {"operator": "Ada"}
    front, wrist = episode.cameras
    assert (front.name, front.role, wrist.name, wrist.role) == ("front", "front", "wrist", "wrist")
    assert (front.width, front.height, front.codec, wrist.codec) == (32, 24, "png", "jpeg")
    assert _brightness(front, [0.0, 0.25, 9.0]) == [0, 5, 9] and _brightness(wrist, [0.1]) == [2]
    assert len({record.episode.content_hash for record in records}) == 3


def test_stamps_in_the_names_of_images_are_their_clock(tmp_path: Path) -> None:
    folder = write_episode(tmp_path / "a" / "run")
    stamps = [START + 0.02, START + 0.1, START + 0.4]
    write_images(folder / "top", [f"{stamp:.6f}.png" for stamp in stamps])
    nanoseconds = [int(1_700_000_000 * 10**9 + offset) for offset in (0, 2 * 10**8)]
    write_images(folder / "side", [f"{stamp}.png" for stamp in nanoseconds])
    cameras = {camera.name: camera for camera in read(tmp_path / "a")[0].episode.cameras}
    assert _brightness(cameras["top"], [0.0, 0.09, 0.1, 0.39, 0.45]) == [0, 0, 1, 1, 2]
    assert _brightness(cameras["side"], [0.19, 0.2]) == [0, 1]


def test_a_column_may_name_the_image_of_each_step(tmp_path: Path) -> None:
    folder = write_episode(tmp_path / "a" / "run")
    names = [f"shots/view {chr(ord('a') + 9 - number)}.png" for number in range(STEPS)]
    write_images(folder / "shots", [Path(name).name for name in names])
    write_table(folder / "data.csv", {**columns(), "image": names})
    (camera,) = read(tmp_path / "a")[0].episode.cameras
    assert camera.name == "image" and _brightness(camera, [0.0, 0.45]) == [0, 9]


def test_a_column_that_names_images_elsewhere_is_refused(tmp_path: Path) -> None:
    write_images(tmp_path, ["secret.png"])
    write_episode(tmp_path / "a" / "run", {"image": ["../../secret.png"] * STEPS})
    with pytest.raises(SourceError, match="path leads out of the dataset"):
        read(tmp_path / "a")


def test_several_tables_are_joined_by_their_stamps(tmp_path: Path) -> None:
    folder = write_episode(tmp_path / "a" / "run")
    slow = {
        "time_ns": [int(START) * 10**9 + number * 10**8 for number in range(5)],
        "torque": [1, 2, 3, 4, 5],
    }
    write_table(folder / "torque.tsv", slow, "\t")
    write_table(folder / "notes.csv", {"temperature": [1.0, 2.0]})
    (record,) = read(tmp_path / "a")
    assert record.trajectory.extra["torque.torque"].values[:, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert "a table with other rows and without stamps is not stored" in record.warnings


def test_what_is_guessed_is_said(tmp_path: Path) -> None:
    stamps = [int(START * 1000) + 50 * number for number in range(STEPS)]
    write_episode(
        tmp_path / "a" / "failed_7",
        {"timestamp": stamps, "joint_0": [""] * STEPS, "big": [2**24 + 1] * STEPS},
    )
    (record,) = read(tmp_path / "a")
    assert record.episode.rate_hz == pytest.approx(20.0)
    assert "timestamp is in milliseconds since 1970, by its size" in record.warnings
    assert "big holds integers that float32 rounds" in record.warnings
    assert record.episode.success is None


def test_the_json_file_states_outcome_rate_and_robot(tmp_path: Path) -> None:
    stated = {"success": "no", "robot": "ur5", "fps": 25, "weather": "dry"}
    folder = write_episode(tmp_path / "a" / "success_1", {"timestamp": [0.0] * STEPS}, **stated)
    (record,) = read(tmp_path / "a")
    assert (record.episode.success, record.episode.robot, record.episode.rate_hz) == (False, "ur5", 25.0)
    assert record.episode.metadata == {"weather": "dry", "operator": "Ada"}
    assert "timestamp does not rise; steps are evenly spaced" in record.warnings
    (folder / "meta.json").unlink()
    assert "rate is not known, 10 Hz assumed (give --rate)" in read(tmp_path / "a")[0].warnings


def test_images_that_no_step_has_are_an_error(tmp_path: Path) -> None:
    folder = write_episode(tmp_path / "a" / "run")
    write_images(folder / "images" / "front", [f"{number:06d}.png" for number in range(STEPS + 3)])
    with pytest.raises(SourceError, match=r"no image for each step.*13 images for 10 steps"):
        read(tmp_path / "a")


def test_tables_about_videos_and_lone_tables_are_not_episodes(tmp_path: Path) -> None:
    for name in ("labels", "results"):
        (tmp_path / name).mkdir()
        write_table(tmp_path / name / f"{name}.csv", {"file_name": ["a.mp4"], "score": [1.0], "start": [0]})
    (tmp_path / "labels" / "a.mp4").write_bytes(b"video")
    write_images(tmp_path / "labels" / "previews", ["a_1.jpg"])
    assert not csv_episodes.recognises(str(tmp_path))


def test_roles_of_columns() -> None:
    columns = "Time (s),frame_index,obs.state[0],qpos_1,gripper,cmd_vel_x,target.q0,reward,imu_x,actual"
    roles = assign_column_roles(columns.split(","))
    assert roles.time == "Time (s)" and roles.order == ("frame_index",) and roles.reward == "reward"
    assert roles.state == ("obs.state[0]", "qpos_1", "gripper")
    assert roles.action == ("cmd_vel_x", "target.q0")
    assert roles.extra == {"imu": ("imu_x",), "actual": ("actual",)}
    clocked = assign_column_roles(["t", "clock", "q"], "clock")
    assert (clocked.time, clocked.extra) == ("clock", {"t": ("t",)})


def test_images_without_numbers_are_no_camera_and_that_is_said(tmp_path: Path) -> None:
    folder = write_episode(tmp_path / "data" / "episode_0")
    write_images(folder / "images" / "top", ["left.png", "right.png"])
    (folder / "images" / "front" / "overview.png").write_bytes(image_bytes(9))
    (record,) = read(tmp_path / "data")
    assert "2 images of images/top are left out: their names hold no number" in record.warnings
    assert "1 image of images/front is left out: their names hold no number" in record.warnings
    assert "top" not in {camera.name for camera in record.episode.cameras}
