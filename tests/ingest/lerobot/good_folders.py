"""Small good LeRobot folders of both layouts: every frame shows its camera, episode and number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CAMERAS = ("observation.images.front", "observation.images.front_left")
RATE_HZ = 10


def write_good_folder(
    folder: Path,
    *,
    version: str,
    lengths: Sequence[int],
    cameras: Sequence[str] = CAMERAS,
    per_file: int = 2,
) -> Path:
    """Write a dataset of v2.1 or v3.0; v3.0 has `per_file` episodes in each data file and video."""
    (folder / "meta").mkdir(parents=True)
    groups = [[number] for number in range(len(lengths))]
    if version == "v3.0":
        starts = range(0, len(lengths), per_file)
        groups = [list(range(start, min(start + per_file, len(lengths)))) for start in starts]
    listed: list[dict[str, Any]] = []
    for file, episodes in enumerate(groups):
        listed += _write_files(folder, file, episodes, lengths, cameras, version == "v3.0")
    _write_list(folder, version, listed)
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
        "action": {"dtype": "float32", "shape": [1], "names": ["x"]},
        **{key: {"dtype": "video", "shape": [48, 64, 3], "names": None} for key in cameras},
    }
    own = "chunk-{episode_chunk:03d}", "episode_{episode_index:06d}"
    shared = "chunk-{chunk_index:03d}", "file-{file_index:03d}"
    chunk, stem = shared if version == "v3.0" else own
    document = {
        "codebase_version": version,
        "fps": RATE_HZ,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": 1,
        "features": features,
        "data_path": f"data/{chunk}/{stem}.parquet",
        "video_path": f"videos/{{video_key}}/{chunk}/{stem}.mp4"
        if version == "v3.0"
        else f"videos/{chunk}/{{video_key}}/{stem}.mp4",
    }
    (folder / "meta" / "info.json").write_text(json.dumps(document))
    return folder


def _write_files(
    folder: Path,
    file: int,
    episodes: Sequence[int],
    lengths: Sequence[int],
    cameras: Sequence[str],
    shared: bool,
) -> list[dict[str, Any]]:
    stem = f"file-{file:03d}" if shared else f"episode_{file:06d}"
    data = folder / "data" / "chunk-000" / f"{stem}.parquet"
    data.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.concat_tables([_rows(number, lengths) for number in episodes]), data)
    listed: list[dict[str, Any]] = []
    for number in episodes:
        start = sum(lengths[:number])
        row: dict[str, Any] = {"episode_index": number, "tasks": ["do it"], "length": lengths[number]}
        if shared:
            row |= {"data/chunk_index": 0, "data/file_index": file}
            row |= {"dataset_from_index": start, "dataset_to_index": start + lengths[number]}
        listed.append(row)
    for camera, key in enumerate(cameras):
        parts = (key, "chunk-000") if shared else ("chunk-000", key)
        _write_video(folder.joinpath("videos", *parts, f"{stem}.mp4"), camera, episodes, lengths)
        for row in listed if shared else ():
            number = row["episode_index"]
            first = sum(lengths[episodes[0] : number])
            row |= {f"videos/{key}/chunk_index": 0, f"videos/{key}/file_index": file}
            row |= {
                f"videos/{key}/from_timestamp": first / RATE_HZ,
                f"videos/{key}/to_timestamp": (first + row["length"]) / RATE_HZ,
            }
    return listed


def _rows(number: int, lengths: Sequence[int]) -> pa.Table:
    steps = np.arange(lengths[number])
    return pa.table(
        {
            "observation.state": pa.array(
                [[float(k), number + 0.5] for k in steps], pa.list_(pa.float32(), 2)
            ),
            "action": pa.array([[100.0 * number + k] for k in steps], pa.list_(pa.float32(), 1)),
            "timestamp": (steps / RATE_HZ).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(len(steps), number),
            "index": steps + sum(lengths[:number]),
            "task_index": np.zeros(len(steps), np.int64),
        }
    )


def _write_video(path: Path, camera: int, episodes: Sequence[int], lengths: Sequence[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE_HZ)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        # One thread: with several, packets are as large as the number of processors makes them.
        stream.options = {"g": "2", "crf": "10", "bf": "0", "threads": "1"}
        for number in episodes:
            for step in range(lengths[number]):
                picture = np.full((48, 64, 3), 30, np.uint8)
                for place, value in enumerate((camera, number, step)):
                    picture[:, place * 20 : place * 20 + 18] = 20 + 17 * (value % 13)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def _write_list(folder: Path, version: str, listed: list[dict[str, Any]]) -> None:
    meta = folder / "meta"
    if version == "v3.0":
        (meta / "episodes" / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(listed), meta / "episodes" / "chunk-000" / "file-000.parquet")
        pq.write_table(pa.table({"task_index": [0], "task": ["do it"]}), meta / "tasks.parquet")
    else:
        (meta / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
        (meta / "tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "do it"}) + "\n")
    (meta / "stats.json").write_text("{}")
