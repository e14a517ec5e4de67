"""The LeRobot v3.0 files that are not video: info, tasks, statistics, and parquet files that roll over by size."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.export.lerobot_plan import Group
from ares.export.lerobot_stats import QUANTILES, Stats, to_lists

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ares.media.packets import Shape

VERSION = "v3.0"
CHUNK_FILES = 1000
DATA_FILE_MB = 100
VIDEO_FILE_MB = 200
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
# Columns that every LeRobot dataset has, in its order.
INDEX_FEATURES = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}

Features = dict[str, dict[str, Any]]


class FileNumber(NamedTuple):
    """Place of a file: chunk folder and number in it."""

    chunk: int = 0
    file: int = 0

    def following(self) -> FileNumber:
        """The next place; a chunk has CHUNK_FILES files."""
        return (
            FileNumber(self.chunk + 1, 0)
            if self.file == CHUNK_FILES - 1
            else FileNumber(self.chunk, self.file + 1)
        )


def camera_key(camera: str) -> str:
    """Feature name of a camera; LeRobot allows no "/" in one."""
    return f"observation.images.{camera.replace('/', '_')}"


def data_features(group: Group) -> Features:
    """Features that are columns of the data files."""
    features: Features = {}
    if group.layout.state_names:
        features["observation.state"] = _feature("float32", group.layout.state_names)
    if group.layout.action_names:
        features["action"] = _feature("float32", group.layout.action_names)
    if group.has_reward:
        features["next.reward"] = _feature("float32", None)
    return {**features, **{name: _feature(dtype, None) for name, dtype in INDEX_FEATURES.items()}}


def _feature(dtype: str, names: Sequence[str] | None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [len(names) if names else 1], "names": list(names) if names else None}


def video_feature(shape: Shape, rate_hz: int) -> dict[str, Any]:
    """Feature of a camera, with what LeRobot wants to know of its video."""
    info = {
        "video.height": shape.height,
        "video.width": shape.width,
        "video.codec": shape.codec,
        "video.pix_fmt": shape.pixel_format,
        "video.is_depth_map": False,
        "video.fps": rate_hz,
        "video.channels": 3,
        "has_audio": False,
    }
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": [shape.height, shape.width, 3], "names": names, "info": info}


def data_schema(features: Features) -> pa.Schema:
    """Schema of the data files, with the types that Hugging Face `datasets` reads from its metadata."""
    import pyarrow as pa

    fields, described = [], {}
    for name, feature in features.items():
        value = pa.float32() if feature["dtype"] == "float32" else pa.int64()
        size = feature["shape"][0]
        described[name] = {"dtype": feature["dtype"], "_type": "Value"}
        if size > 1:
            described[name] = {"feature": described[name], "length": size, "_type": "List"}
        fields.append(pa.field(name, pa.list_(value, size) if size > 1 else value))
    metadata = json.dumps({"info": {"features": described}})
    return pa.schema(fields, metadata={"huggingface": metadata})


def data_table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """One episode as rows; columns are (T, D) or (T, 1) arrays."""
    import pyarrow as pa

    def column(name: str) -> pa.Array:
        kind = schema.field(name).type
        flat = pa.array(columns[name].reshape(-1))
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(flat, type=kind)
        return flat.cast(kind)

    return pa.Table.from_arrays([column(name) for name in schema.names], schema=schema)


def episode_schema(features: Features, cameras: Sequence[str], values: pa.Schema) -> pa.Schema:
    """Schema of the episodes files; `values` are our own columns, which LeRobot passes through."""
    import pyarrow as pa

    whole, real = pa.int64(), pa.float64()
    fields = [("episode_index", whole), ("tasks", pa.list_(pa.string())), ("length", whole)]
    fields += [("data/chunk_index", whole), ("data/file_index", whole)]
    fields += [("dataset_from_index", whole), ("dataset_to_index", whole)]
    for camera in cameras:
        key = f"videos/{camera_key(camera)}"
        fields += [(f"{key}/chunk_index", whole), (f"{key}/file_index", whole)]
        fields += [(f"{key}/from_timestamp", real), (f"{key}/to_timestamp", real)]
    image = pa.list_(pa.list_(pa.list_(real)))
    for name, feature in features.items():
        extreme = pa.list_(whole if feature["dtype"] == "int64" else real)
        fields += _stat_fields(name, extreme, pa.list_(real))
    for camera in cameras:
        fields += _stat_fields(camera_key(camera), image, image)
    fields += [("meta/episodes/chunk_index", whole), ("meta/episodes/file_index", whole)]
    return pa.schema([*fields, *values])


def _stat_fields(name: str, extreme: pa.DataType, other: pa.DataType) -> list[tuple[str, pa.DataType]]:
    import pyarrow as pa

    kinds = {"min": extreme, "max": extreme, "mean": other, "std": other, "count": pa.list_(pa.int64())}
    kinds |= dict.fromkeys(QUANTILES, other)
    return [(f"stats/{name}/{stat}", kind) for stat, kind in kinds.items()]


def stat_columns(stats: Mapping[str, Stats]) -> dict[str, Any]:
    """An episode's statistics as columns of the episodes file."""
    return {
        f"stats/{name}/{stat}": value for name, one in stats.items() for stat, value in to_lists(one).items()
    }


class Rolling:
    """Parquet files of about DATA_FILE_MB each; one row group per table written.

    Args:
        root: Dataset folder.
        template: DATA_PATH or EPISODES_PATH.
        schema: Schema of all files.
    """

    def __init__(self, root: Path, template: str, schema: pa.Schema) -> None:
        self._root, self._template, self._schema = root, template, schema
        self._number = FileNumber()
        self._bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def place(self, num_bytes: int) -> FileNumber:
        """The file that the next table of that size goes to; a full one is closed."""
        if self._writer and self._bytes + num_bytes >= DATA_FILE_MB * 2**20:
            self.close()
            self._number = self._number.following()
        return self._number

    def write(self, table: pa.Table) -> None:
        """Write a table to the file that `place` gave."""
        import pyarrow.parquet as pq

        if self._writer is None:
            path = self._root / self._template.format(
                chunk_index=self._number.chunk, file_index=self._number.file
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(path, self._schema, compression="snappy", use_dictionary=True)
            self._bytes = 0
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._bytes += table.nbytes

    def close(self) -> None:
        """Finish the current file; without this it has no footer."""
        if self._writer:
            self._writer.close()
            self._writer = None


def write_tasks(root: Path, tasks: Sequence[str]) -> None:
    """meta/tasks.parquet: the frame that pandas would write, task texts in an index without a name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    index = "__index_level_0__"
    text = {
        "name": None,
        "field_name": index,
        "pandas_type": "unicode",
        "numpy_type": "object",
        "metadata": None,
    }
    number = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    pandas = {"index_columns": [index], "column_indexes": [], "columns": [{**number, "metadata": None}, text]}
    schema = pa.schema(
        [("task_index", pa.int64()), (index, pa.string())],
        metadata={"pandas": json.dumps({**pandas, "pandas_version": "2.0.0"})},
    )
    table = pa.Table.from_arrays(
        [pa.array(range(len(tasks)), pa.int64()), pa.array(tasks, pa.string())], schema=schema
    )
    (root / "meta").mkdir(parents=True, exist_ok=True)
    pq.write_table(table, root / "meta" / "tasks.parquet")


def write_info(
    root: Path, group: Group, features: Features, *, episodes: int, frames: int, tasks: int
) -> None:
    """meta/info.json, with the numbers of what was written."""
    robots = sorted(group.robots - {""})
    info = {
        "codebase_version": VERSION,
        "robot_type": robots[0] if len(robots) == 1 and len(group.robots) == 1 else None,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": tasks,
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "fps": group.rate_hz,
        "splits": {"train": f"0:{episodes}"},
        "data_path": DATA_PATH,
        "video_path": VIDEO_PATH if group.cameras else None,
        "features": features,
    }
    _write_json(root / "meta" / "info.json", info)


def write_stats(root: Path, stats: Mapping[str, Stats]) -> None:
    """meta/stats.json."""
    _write_json(root / "meta" / "stats.json", {name: to_lists(one) for name, one in stats.items()})


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
