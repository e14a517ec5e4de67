"""Tables of which each row is a step: Parquet, Arrow of `save_to_disk`, JSON lines and CSV of several episodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import ares
from ares.episode import Record
from ares.errors import RequestError
from ares.media import frames_at
from tests.ares.media.written_videos import write_video
from tests.ingesting import open_sources

LENGTHS = (6, 4, 5)
EPISODE = np.repeat(np.arange(3), LENGTHS)
FRAME = np.concatenate([np.arange(length) for length in LENGTHS])
SEEDS = [*range(2), *(pytest.param(number, marks=pytest.mark.nightly) for number in range(2, 100))]
STATE = np.arange(30, dtype=np.float32).reshape(15, 2)


def shade(row: int) -> Any:
    return np.full((20, 24, 3), (10 * row, 255 - 10 * row, 40), np.uint8)


def png(row: int) -> dict[str, Any]:
    return {"bytes": cv2.imencode(".png", shade(row)[:, :, ::-1])[1].tobytes(), "path": None}


def rows(**columns: Any) -> pa.Table:
    base = {
        "episode_index": EPISODE,
        "frame_index": FRAME,
        "timestamp": (FRAME / 10).astype(np.float32),
        "observation.state": pa.array(STATE.tolist(), pa.list_(pa.float32())),
        "action": pa.array((STATE + 1).tolist(), pa.list_(pa.float32())),
        "task": [("lift", "push", "turn")[number] for number in EPISODE],
        "next.done": np.array(LENGTHS)[EPISODE] - 1 == FRAME,
    }
    return pa.table(base | columns)


def save_to_disk(folder: Path, table: pa.Table) -> None:
    folder.mkdir()
    border = len(table) // 2
    for number, part in enumerate((table.slice(0, border), table.slice(border))):
        path = folder / f"data-{number:05d}-of-00002.arrow"
        with path.open("wb") as file, pa.ipc.new_stream(file, part.schema) as writer:
            writer.write_table(part, max_chunksize=4)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")


def two_files(folder: Path, table: pa.Table) -> None:
    folder.mkdir()
    border = len(table) // 2
    pq.write_table(table.slice(0, border), folder / "train-00000-of-00002.parquet")
    pq.write_table(table.slice(border), folder / "train-00001-of-00002.parquet")


def json_lines(folder: Path, table: pa.Table) -> None:
    folder.mkdir()
    lines = [json.dumps(row) + "\n" for row in table.to_pylist()]
    (folder / "steps.jsonl").write_text("".join(lines))


def csv(folder: Path, table: pa.Table) -> None:
    folder.mkdir()
    for name in ("observation.state", "action"):
        values = np.array(table.column(name).to_pylist())
        for number in range(values.shape[1]):
            table = table.append_column(f"{name}_{number}", pa.array(values[:, number]))
        table = table.drop_columns([name])
    write_csv(table, folder / "steps.csv")


def load_all(folder: Path) -> list[Record]:
    (source,) = open_sources([str(folder)])
    return [item.load() for item in source.items]


@pytest.mark.parametrize("write", [save_to_disk, two_files, json_lines, csv])
def test_each_episode_has_its_rows(write: Callable[[Path, pa.Table], None], tmp_path: Path) -> None:
    write(tmp_path / "lab", rows())
    records = load_all(tmp_path / "lab")
    assert [record.episode.num_steps for record in records] == list(LENGTHS)
    assert [record.episode.instruction for record in records] == ["lift", "push", "turn"]
    for number, record in enumerate(records):
        trajectory = record.trajectory
        assert trajectory.state is not None and trajectory.action is not None
        np.testing.assert_array_equal(trajectory.state.values, STATE[number == EPISODE])
        np.testing.assert_array_equal(trajectory.action.values, STATE[number == EPISODE] + 1)
        assert trajectory.extra["next.done"].values[-1, 0] == 1 and record.episode.rate_hz == pytest.approx(
            10
        )
    assert len({record.episode.content_hash for record in records}) == 3
    assert not [array.key for record in records for array in record.arrays if array.use == "unused"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("write", [save_to_disk, two_files, json_lines, csv])
def test_rows_in_any_order_go_to_their_episodes(
    write: Callable[[Path, pa.Table], None], seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, rng.integers(2, 6))
    order = rng.permutation(lengths.sum()) if seed % 2 else np.arange(lengths.sum())
    episode = np.repeat(np.arange(len(lengths)), lengths)[order]
    frame = np.concatenate([np.arange(length) for length in lengths])[order]
    state, action = (rng.normal(size=(len(order), rng.integers(2, 9))).astype(np.float32) for _ in range(2))
    name = str(rng.choice(["episode_index", "episode_id", "traj_idx", "demo_id", "ep"]))
    signals = {"observation.state": state.tolist(), "action": action.tolist()}
    write(tmp_path / "lab", pa.table({name: episode, "frame_index": frame, **signals}))
    records = load_all(tmp_path / "lab")
    assert len(records) == len(lengths)
    for record in records:
        numbers = np.flatnonzero(episode == int(record.episode.key.rpartition("/")[2]))
        numbers = numbers[np.argsort(frame[numbers])]
        assert record.trajectory.state is not None and record.trajectory.action is not None
        np.testing.assert_array_equal(record.trajectory.state.values, state[numbers])
        np.testing.assert_array_equal(record.trajectory.action.values, action[numbers])


NESTED = pa.array([shade(row).tolist() for row in range(15)], pa.list_(pa.list_(pa.list_(pa.uint8()))))


@pytest.mark.parametrize("write", [save_to_disk, two_files])
@pytest.mark.parametrize("pictures", [[png(row) for row in range(15)], NESTED], ids=["png", "nested"])
def test_pictures_are_those_of_their_rows(
    write: Callable[[Path, pa.Table], None], pictures: Any, tmp_path: Path
) -> None:
    write(tmp_path / "lab", rows(**{"observation.images.top": pictures}))
    (camera,) = load_all(tmp_path / "lab")[2].episode.cameras
    assert (camera.name, camera.media.num_frames) == ("top", 5)
    np.testing.assert_array_equal(frames_at(camera.media, [0.2])[0], shade(12))


def test_pictures_in_two_files_are_missing_and_said(tmp_path: Path) -> None:
    two_files(tmp_path / "lab", rows(image=[png(row) for row in range(15)]).slice(2))
    (dataset,) = ares.check(tmp_path / "lab").datasets
    assert list(dataset.warnings) == ["camera image is left out: its rows do not lie together in one file"]
    assert [count.code for count in dataset.counts if count.severity == "fault"] == ["A056"]


def test_lerobot_before_version_2_has_its_videos(tmp_path: Path) -> None:
    for name in ("data", "meta_data", "videos"):
        (tmp_path / "old" / name).mkdir(parents=True)
    keys = ("observation.images.top", "observation.images.wrist")
    cells = {
        key: [
            {"path": f"videos/{key}_episode_{number:06d}.mp4", "timestamp": frame / 10}
            for number, frame in zip(EPISODE, FRAME, strict=True)
        ]
        for key in keys
    }
    for key in keys:
        for number, length in enumerate(LENGTHS):
            video = tmp_path / "old" / "videos" / f"{key}_episode_{number:06d}.mp4"
            write_video(video, [shade(row) for row in range(length)], rate=10)
    pq.write_table(rows(**cells), tmp_path / "old" / "data" / "train-00000-of-00001.parquet")
    records = load_all(tmp_path / "old")
    assert [len(record.episode.cameras) for record in records] == [2, 2, 2]
    assert [camera.media.num_frames for camera in records[1].episode.cameras] == [4, 4]


def test_lists_of_several_lengths_are_said_and_the_episodes_incomplete(tmp_path: Path) -> None:
    states = pa.array([[1.0] * (2 + (row == 3)) for row in range(15)])
    two_files(tmp_path / "lab", rows(**{"observation.state": states}))
    (dataset,) = ares.check(tmp_path / "lab").datasets
    assert (*dataset.warnings.values(), dataset.num_incomplete) == (3, 3, 3)
    assert any("not read: observation.state (list" in warning for warning in dataset.warnings)


def test_a_column_that_ends_in_a_letter_of_an_axis_keeps_its_name(tmp_path: Path) -> None:
    ones = np.ones(15, np.float32)
    table = rows(task_index=EPISODE, velocity_max=ones, force_x=ones, force_y=ones)
    two_files(tmp_path / "lab", table)
    assert {*load_all(tmp_path / "lab")[0].trajectory.extra} == {"force", "next.done", "velocity_max"}


def test_texts_that_change_are_segments(tmp_path: Path) -> None:
    json_lines(tmp_path / "lab", rows(task=["reach" if frame < 2 else "lift" for frame in FRAME]))
    spans = [
        (part.text, part.start_seconds, part.stop_seconds) for part in load_all(tmp_path / "lab")[1].segments
    ]
    assert spans == [("reach", 0.0, pytest.approx(0.2)), ("lift", pytest.approx(0.2), np.inf)]


def test_a_trajectory_a_line_and_tables_of_labels_are_no_steps(tmp_path: Path) -> None:
    row = {"id": 1, "states": STATE.tolist(), "actions": STATE.tolist()}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "labels.csv").write_text("episode,success,action\n0,1,lift\n")
    with pytest.raises(RequestError, match="a row for each step needs numbers of state and action"):
        open_sources([str(tmp_path)])
