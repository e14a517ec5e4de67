"""Videos and shared files of LeRobot folders that do not fit their metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.episode import Record
from ares.errors import SourceError
from ares.media.frames import frames_at
from ingest.base import Options, Source
from ingest.lerobot import lerobot

STEPS = 6
CAMERA = "observation.images.front"
DATA = "data/chunk-000/episode_{:06d}.parquet"
VIDEO = "videos/chunk-000/{}/episode_{:06d}.mp4"


def write_video(path: Path, frames: int = STEPS, rate: int = 10, codec: str = "libx264") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        if codec == "libx265":
            stream.options = {"x265-params": "log-level=none"}
        for number in range(frames):
            picture = np.full((48, 64, 3), 20 + 8 * (number % 25), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())
    return path


def columns(number: int, steps: int = STEPS) -> dict[str, Any]:
    rows = np.arange(steps)
    return {
        "observation.state": pa.array([[float(k), number + 0.5] for k in rows], pa.list_(pa.float32())),
        "action": pa.array([[float(k)] for k in rows], pa.list_(pa.float32())),
        "timestamp": (rows / 10).astype(np.float32),
        "frame_index": rows,
        "episode_index": np.full(steps, number),
        "index": rows,
        "task_index": np.zeros(steps, np.int64),
    }


def feature(dtype: str = "float32", width: int = 1, names: object = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [width], "names": names}


def camera_feature(codec: str = "h264", size: Sequence[int] = (48, 64, 3)) -> dict[str, Any]:
    return {"dtype": "video", "shape": list(size), "names": None, "info": {"video.codec": codec}}


def make(folder: Path, episodes: int = 2, video: bool = True, **changes: Any) -> Path:
    """A v2.1 dataset of short episodes with one camera; `changes` go into info.json."""
    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    for number in range(episodes):
        pq.write_table(pa.table(columns(number)), folder / DATA.format(number))
        if video:
            write_video(folder / VIDEO.format(CAMERA, number))
    features = {"observation.state": feature(width=2), "action": feature()}
    if video:
        features[CAMERA] = camera_feature()
    info = {
        "codebase_version": "v2.1",
        "fps": 10,
        "total_episodes": episodes,
        "total_frames": episodes * STEPS,
        "total_tasks": 1,
        "features": features,
        **changes,
    }
    write(folder, "info.json", info)
    write(
        folder,
        "episodes.jsonl",
        *({"episode_index": number, "tasks": ["do it"], "length": STEPS} for number in range(episodes)),
    )
    write(folder, "tasks.jsonl", {"task_index": 0, "task": "do it"})
    return folder


def write(folder: Path, name: str, *lines: Any) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "meta" / name).write_text("\n".join(texts) + "\n")


def rewrite(folder: Path, number: int = 0, without: Sequence[str] = (), **changed: Any) -> None:
    """The data file of an episode with other columns; a name's "." is written "__"."""
    kept = {name: values for name, values in columns(number).items() if name not in without}
    made = {name.replace("__", "."): values for name, values in changed.items()}
    pq.write_table(pa.table({**kept, **made}), folder / DATA.format(number))


def opened(folder: Path) -> Source:
    (source,) = lerobot.open(str(folder), Options())
    return source


def first(folder: Path) -> Record:
    return next(opened(folder).items).load()


def outcomes(folder: Path) -> list[str]:
    made = []
    for item in opened(folder).items:
        try:
            made.append("; ".join(item.load().warnings) or "good")
        except SourceError as error:
            made.append(error.reason)
    return made


@pytest.mark.parametrize(
    ("encoder", "codec"), [("libx264", "h264"), ("libx265", "hevc"), ("libsvtav1", "av1"), ("mpeg4", "mpeg4")]
)
def test_every_codec_and_a_wrong_one_in_info(tmp_path: Path, encoder: str, codec: str) -> None:
    features = {CAMERA: camera_feature("vp9")}
    folder = make(tmp_path / "made", features=features)
    write_video(folder / VIDEO.format(CAMERA, 0), codec=encoder)
    record = first(folder)
    (camera,) = record.episode.cameras
    assert camera.codec == codec
    assert record.warnings == (f"camera front is {codec}, not vp9 as info.json says",)
    assert frames_at(camera.media, [0.0, 0.5]).shape == (2, 48, 64, 3)


def test_other_size_rate_and_length_of_a_video(tmp_path: Path) -> None:
    folder = make(tmp_path / "made", episodes=3, features={CAMERA: camera_feature(size=(3, 480, 640))})
    write_video(folder / VIDEO.format(CAMERA, 0), rate=30)
    write_video(folder / VIDEO.format(CAMERA, 1), frames=4)
    size = "camera front is not of the size that info.json says"
    assert outcomes(folder) == [
        f"{size}; camera front has not the fps of info.json",
        f"{size}; camera front has not one frame for each step",
        size,
    ]


def test_missing_video_costs_its_camera_only(tmp_path: Path) -> None:
    wrist = "observation.images.wrist"
    folder = make(tmp_path / "made", features={CAMERA: camera_feature(), wrist: camera_feature()})
    write_video(folder / VIDEO.format(wrist, 1))
    (folder / VIDEO.format(CAMERA, 1)).write_bytes(b"")
    assert outcomes(folder) == [
        "camera wrist left out: video file is missing",
        "camera front left out: video file is empty",
    ]
    assert [camera.name for camera in first(folder).episode.cameras] == ["front"]


def test_video_that_is_cut(tmp_path: Path) -> None:
    folder = make(tmp_path / "made")
    path = folder / VIDEO.format(CAMERA, 0)
    path.write_bytes(path.read_bytes()[:200])
    assert outcomes(folder) == ["camera front left out: video file is cut or no video", "good"]


def test_totals_that_disagree(tmp_path: Path) -> None:
    told: dict[str, Any] = {"total_episodes": 7, "total_frames": 99, "total_tasks": 3, "total_videos": 1}
    folder = make(tmp_path / "made", splits={"train": "0:9", "odd": [1]}, **told)
    (folder / DATA.format(1)).unlink()
    assert opened(folder).warnings == (
        "total_episodes of info.json is not the number of episodes",
        "total_frames of info.json is not the number of frames that the episodes have",
        "splits in info.json name more episodes than there are",
        "total_tasks of info.json is not the number of tasks",
        "there is not one data file for each episode",
        "total_videos of info.json is not the number of videos",
    )


def test_camera_that_leads_out_of_the_dataset(tmp_path: Path) -> None:
    key = "../../../outside"
    folder = make(tmp_path / "made", features={key: camera_feature()})
    assert f"camera {key!r} leads out of the dataset, left out" in opened(folder).warnings
    assert first(folder).episode.cameras == ()


def shared(folder: Path, *rows: dict[str, Any]) -> Path:
    """A v3.0 dataset of two data files with an episode each and one shared video of 12 frames."""
    make(folder, video=False, features={"observation.state": feature(width=2), CAMERA: camera_feature()})
    (folder / "meta" / "episodes.jsonl").unlink()
    (folder / "meta" / "tasks.jsonl").unlink()
    (folder / "meta" / "episodes").mkdir()
    for number in range(2):
        (folder / DATA.format(number)).rename(folder / "data" / "chunk-000" / f"file-{number:03d}.parquet")
    write_video(folder / "videos" / CAMERA / "chunk-000" / "file-000.mp4", frames=12)
    usual = {"length": STEPS, "data/chunk_index": 0, f"videos/{CAMERA}/chunk_index": 0}
    made = [
        {
            **usual,
            "episode_index": number,
            "data/file_index": number,
            f"videos/{CAMERA}/file_index": 0,
            f"videos/{CAMERA}/from_timestamp": 0.6 * number,
            f"videos/{CAMERA}/to_timestamp": 0.6 * (number + 1),
            **row,
        }
        for number, row in enumerate(rows or ({}, {}))
    ]
    pq.write_table(pa.Table.from_pylist(made), folder / "meta" / "episodes" / "file-000.parquet")
    tasks = {"task_index": [0], "__index_level_0__": ["do it"]}
    pq.write_table(pa.table(tasks), folder / "meta" / "tasks.parquet")
    return folder


def test_task_text_in_a_column_without_a_name(tmp_path: Path) -> None:
    folder = shared(tmp_path / "made")
    assert opened(folder).warnings == () and outcomes(folder) == ["good", "good"]
    assert first(folder).episode.instruction == "do it"


def test_stale_file_index(tmp_path: Path) -> None:
    folder = shared(tmp_path / "made", {"data/file_index": 1}, {"data/file_index": 9})
    told = "the metadata names another data file than the one that holds the episode"
    assert outcomes(folder) == [told, told]
    states = [item.load().trajectory.state for item in opened(folder).items]
    assert [state.values[0, 1] for state in states if state] == [0.5, 1.5]


def test_spans_that_do_not_fit_their_video(tmp_path: Path) -> None:
    start, stop = f"videos/{CAMERA}/from_timestamp", f"videos/{CAMERA}/to_timestamp"
    folder = shared(tmp_path / "late", {start: 0.9, stop: 1.5}, {start: 5.0, stop: 5.6})
    assert outcomes(folder) == [
        "the span of camera front goes past the end of its video",
        "camera front left out: its span is not in the video",
    ]
    folder = shared(tmp_path / "none", {stop: 0.3}, {f"videos/{CAMERA}/file_index": None})
    assert outcomes(folder) == [
        "camera front has not one frame for each step",
        "camera front left out: the metadata names no video",
    ]


def test_rows_that_do_not_stand_together(tmp_path: Path) -> None:
    folder = shared(tmp_path / "made")
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    parts = [pa.table(columns(number)) for number in (0, 5, 0)]
    pq.write_table(pa.concat_tables(parts), path)
    assert outcomes(folder) == ["rows of the episode do not stand together", "good"]
