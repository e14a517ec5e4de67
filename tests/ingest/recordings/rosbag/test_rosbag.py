"""ROS bags as episodes: values, times and pixels as written, past compression, damage and killed recorders."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ares.errors import RequestError, SourceError
from ares.media import frames_at
from ares_ingest.recordings import rosbag
from tests.ingest.recordings.rosbag.conftest import STEP, opened, read, write_ros1, write_ros2

WRITERS: dict[str, Callable[[Path], Path]] = {
    "ros1": lambda folder: write_ros1(folder / "run.bag"),
    "ros1 lz4": lambda folder: write_ros1(folder / "run.bag", compression="LZ4"),
    "ros1 bz2": lambda folder: write_ros1(folder / "run.bag", compression="BZ2"),
    "ros2": lambda folder: write_ros2(folder / "run"),
    "ros2 packed": lambda folder: write_ros2(folder / "run", packed=True),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_values_times_and_pixels_are_those_that_were_written(kind: str, tmp_path: Path) -> None:
    record = read(WRITERS[kind](tmp_path))
    episode, trajectory = record.episode, record.trajectory
    assert (episode.format, episode.num_steps, episode.rate_hz) == ("rosbag", 10, 10.0)
    assert episode.instruction == "stack the cups"
    np.testing.assert_allclose(trajectory.timestamps, np.arange(10) * STEP / 1e9)
    assert trajectory.state is not None and trajectory.action is not None
    np.testing.assert_array_equal(trajectory.state.values[:, 1], -np.arange(10))
    np.testing.assert_array_equal(trajectory.action.values[:, 0], np.arange(10) + 0.5)
    (camera,) = episode.cameras
    assert (camera.name, camera.role, camera.media.kind) == ("front", "front", "bag")
    frames = frames_at(camera.media, [0.0, 0.45, 0.9])
    assert [round(int(frame.mean()) / 20) for frame in frames] == [0, 4, 9]


def test_a_cut_ros1_bag_keeps_the_messages_before_the_cut(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "run.bag", count=200)
    data = path.read_bytes()
    path.write_bytes(
        data[: data.index(b"op=\x04")]
    )  # as a killed recorder leaves it: no index, the chunk whole
    record = read(path)
    assert record.episode.num_steps == 200
    path.write_bytes(data[:3000])
    with pytest.raises(SourceError) as error:
        read(path)
    assert "truncated" in str(error.value)


def test_a_database_without_definitions_is_read_by_the_types_of_ros(tmp_path: Path) -> None:
    (path,) = write_ros2(tmp_path / "run").glob("*.db3")
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE message_definitions")
    database.close()
    assert read(path).episode.num_steps == 10


def test_sources_stay_as_they_are_and_nothing_is_written_beside_them(tmp_path: Path) -> None:
    folder = write_ros2(tmp_path / "run")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    record = read(folder)
    frames_at(record.episode.cameras[0].media, [0.0])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_damaged_bag_costs_one_record(tmp_path: Path) -> None:
    write_ros1(tmp_path / "good.bag")
    (tmp_path / "empty.bag").touch()
    (tmp_path / "text.bag").write_text("no bag")
    (tmp_path / "text.db3").write_text("no database")
    (tmp_path / "packed.db3.zstd").write_bytes(b"\x28\xb5\x2f\xfd")
    sqlite3.connect(tmp_path / "other.db3").execute("CREATE TABLE messages (id INTEGER)").connection.close()
    reasons = {}
    for item in opened(tmp_path).items:
        try:
            item.load()
        except SourceError as error:
            reasons[Path(item.location).name] = error.reason
    assert reasons == {
        "empty.bag": "file is empty",
        "text.bag": "file is not a ROS 1 bag",
        "text.db3": "file is not an SQLite file",
        "packed.db3.zstd": "file is compressed as a whole",
        "other.db3": "SQLite file is no recording of rosbag2",
    }


def test_a_recording_of_two_files_is_one_episode(tmp_path: Path) -> None:
    folder = write_ros2(tmp_path / "run")
    (first,) = folder.glob("*.db3")
    second = folder / "run_1.db3"
    shutil.copy(first, second)
    with sqlite3.connect(second) as database:
        database.execute("DELETE FROM messages WHERE id <= 21")
    with sqlite3.connect(first) as shorter:
        shorter.execute("DELETE FROM messages WHERE id > 21")
    database.close()
    shorter.close()
    metadata = folder / "metadata.yaml"
    text = metadata.read_text()
    line = next(line for line in text.splitlines() if line.strip() == f"- {first.name}")
    metadata.write_text(text.replace(line, f"{line}\n{line.replace(first.name, second.name)}", 1))
    record = read(folder)
    assert record.episode.num_steps == 10
    assert record.episode.key == "run"
    (frame,) = frames_at(record.episode.cameras[0].media, [0.9])
    assert round(int(frame.mean()) / 20) == 9


def test_without_the_library_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_ros1(tmp_path / "run.bag")
    monkeypatch.setattr("ares_ingest.recordings.source.find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"pip install 'ares-curation\[rosbag\]'"):
        opened(path)


def test_a_damaged_stamp_does_not_claim_all_memory(tmp_path: Path) -> None:
    path = write_ros1(tmp_path / "run.bag")
    stamp = (1_760_000_000).to_bytes(4, "little")
    data = path.read_bytes()
    damaged = path.with_name("damaged.bag")
    last = data.rindex(stamp, 0, data.index(b"op=\x04"))  # the header of the last picture, before the index
    damaged.write_bytes(data[:last] + (10).to_bytes(4, "little") + data[last + 4 :])
    with pytest.raises(SourceError, match="too far apart for the rate"):
        read(damaged, rate_hz=100.0)


def test_a_type_that_is_defined_otherwise_is_not_guessed(tmp_path: Path) -> None:
    from ares.media.recordings.ros_types import make_ros1_decoder

    with pytest.raises(SourceError, match="not defined as in ROS 1 Noetic"):
        make_ros1_decoder("sensor_msgs/JointState", "0" * 32)(b"")
    with pytest.raises(SourceError, match="not one of ROS 1"):
        make_ros1_decoder("my_msgs/Gripper")(b"")


def test_bags_are_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "day_1").mkdir()
    write_ros1(tmp_path / "day_1" / "a.bag")
    write_ros2(tmp_path / "day_1" / "b")
    assert rosbag.recognises(str(tmp_path))
    assert sorted(item.load().episode.key for item in opened(tmp_path).items) == [
        "day_1/a.bag",
        "day_1/b/b.db3",
    ]
