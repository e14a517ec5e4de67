"""LeRobot folders of signals, of version 2.1 or 3.0, as parts that are changed before they are written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_DATA_PATHS = {
    "v2.1": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "v3.0": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
}
_TYPES = {"float32": pa.float32(), "float64": pa.float32(), "bool": pa.bool_(), "int64": pa.int64()}


@dataclass(slots=True, kw_only=True)
class LeRobotFolder:
    """What is written.

    Attributes:
        columns: (N, ...) values of all episodes one after the other, by name, or a column of Arrow, which an episode
            lacks that has no value of it; what numbers rows is added.
        lengths: Steps of each episode.
        version: "v2.1" or "v3.0".
        rate_hz: Steps per second.
        tasks: All texts, of which "task_index" names that of each row.
        info: What `info.json` has beside or in place of the usual keys.
        listed: Rows of the list of episodes.
    """

    columns: dict[str, Any]
    lengths: list[int]
    version: str = "v2.1"
    rate_hz: float = 10
    tasks: list[str]
    info: dict[str, Any] = field(default_factory=dict)
    listed: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        steps = np.concatenate([np.arange(length) for length in self.lengths])
        total = len(steps)
        numbers = {
            "timestamp": (steps / self.rate_hz).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.repeat(np.arange(len(self.lengths)), self.lengths),
            "index": np.arange(total),
            "task_index": np.zeros(total, np.int64),
        }
        self.columns = numbers | self.columns
        features: dict[str, Any] = {
            key: {"dtype": str(values.dtype), "shape": list(values.shape[1:]) or [1], "names": None}
            for key, values in self.columns.items()
            if isinstance(values, np.ndarray)
        }
        usual: dict[str, Any] = {
            "codebase_version": self.version,
            "robot_type": "arm",
            "fps": self.rate_hz,
            "total_episodes": len(self.lengths),
            "total_frames": total,
            "total_tasks": len(self.tasks),
            "chunks_size": 1000,
            "data_path": _DATA_PATHS[self.version],
            "video_path": None,
        }
        self.info = {**usual, **self.info, "features": features | self.info.get("features", {})}
        ends = np.cumsum(self.lengths).tolist()
        for number, (end, length) in enumerate(zip(ends, self.lengths, strict=True)):
            text = self.tasks[int(self.columns["task_index"][end - length])]
            row: dict[str, Any] = {"episode_index": number, "tasks": [text], "length": length}
            if self.version == "v3.0":
                row |= {"data/chunk_index": 0, "data/file_index": 0}
                row |= {"dataset_from_index": end - length, "dataset_to_index": end}
            self.listed.append(row)

    def write(self, folder: Path) -> Path:
        """Write the folder, and return it."""
        meta, data = folder / "meta", folder / "data" / "chunk-000"
        meta.mkdir(parents=True)
        data.mkdir(parents=True)
        table = pa.table({key: _arrow(values) for key, values in self.columns.items()})
        if self.version == "v3.0":
            (meta / "episodes" / "chunk-000").mkdir(parents=True)
            rows = pa.Table.from_pylist(self.listed)
            pq.write_table(rows, meta / "episodes" / "chunk-000" / "file-000.parquet")
            pq.write_table(table, data / "file-000.parquet")
            tasks = {"task_index": list(range(len(self.tasks))), "task": self.tasks}
            pq.write_table(pa.table(tasks), meta / "tasks.parquet")
        else:
            write_lines(meta / "episodes.jsonl", self.listed)
            numbered = [{"task_index": number, "task": text} for number, text in enumerate(self.tasks)]
            write_lines(meta / "tasks.jsonl", numbered)
            for number, (end, length) in enumerate(zip(np.cumsum(self.lengths), self.lengths, strict=True)):
                part = table.slice(int(end) - length, length)
                lacking = [key for key in part.column_names if part[key].null_count == length]
                pq.write_table(part.drop_columns(lacking), data / f"episode_{number:06d}.parquet")
        (meta / "info.json").write_text(json.dumps(self.info))
        return folder


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a file of one JSON document a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _arrow(values: Any) -> pa.Array:
    return (
        values
        if isinstance(values, pa.Array)
        else column_of(values.tolist(), str(values.dtype), values.ndim - 1)
    )


def column_of(rows: list[Any], dtype: str, depth: int) -> pa.Array:
    """Rows of a feature, lists in lists for a table."""
    kind = _TYPES[dtype]
    for _ in range(depth):
        kind = pa.list_(kind)
    return pa.array(rows, kind)
