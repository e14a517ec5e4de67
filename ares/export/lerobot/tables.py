"""The files of a LeRobot dataset that are no videos: what they contain and how they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.export.base import annotator_columns
from ares.export.layout_groups import DatasetCounts, DatasetGroup
from ares.export.lerobot.language import LANGUAGE_DTYPE, describe_language, language_type
from ares.export.signal_columns import SignalColumn, dotted_columns
from ares.formats import (
    ACTION_KEY,
    ARES_PREFIX,
    CHUNK_FILES,
    DATA_FILE_COLUMNS,
    EPISODES_FILE_COLUMNS,
    INDEX_DTYPES,
    INFO_PATH,
    LANGUAGE_EVENTS,
    LANGUAGE_PERSISTENT,
    REWARD_KEY,
    ROW_RANGE_COLUMNS,
    ROWS_HASH_COLUMN,
    STATE_KEY,
    SUBTASK_INDEX,
    SUBTASK_TEXT_COLUMN,
    SUBTASKS_PATH,
    V3_DATA_PATH,
    V3_VIDEO_PATH,
    VERSION,
    camera_key,
    video_columns,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from ares.media import StreamFormat
    from ares.store import Stores


# min, max, mean, std, count and the quantiles of a feature; each an array.
FeatureStats = Mapping[str, "NDArray[Any]"]

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
# Frames per episode for image statistics; for copied videos, decoding them is the main cost.
MAX_SAMPLED_FRAMES = 16
# Image statistics need no more pixels than this on the longer side (LeRobot: 150 to 300).
_STATS_PIXELS = 150
DATA_FILE_MB = 100
VIDEO_FILE_MB = 200
_EPISODE_FIELDS = (
    "episode_id",
    "dataset",
    "version",
    "split",
    "key",
    "content_hash",
    "instruction",
    "success_source",
    "rate_source",
)


def column_stats(columns: Mapping[str, NDArray[Any]]) -> dict[str, FeatureStats]:
    """Statistics over the steps of an episode, computed for all columns at once because numpy's cost is per call.

    Args:
        columns: (T, D) each, T >= 1 the same for all, of any number type; min and max keep the type.

    Returns:
        By column, arrays (D,) and `count` (1,); the standard deviation is of the population (divided by T). Numbers
        that are not finite do not count, and a dimension without others is 0.
    """
    import numpy as np

    all_values = np.concatenate([values.astype(np.float64) for values in columns.values()], axis=1)
    low, high, mean, deviation, quantile = np.min, np.max, np.mean, np.std, np.quantile
    is_finite = np.isfinite(all_values)
    if not is_finite.all():
        low, high, mean, deviation, quantile = np.nanmin, np.nanmax, np.nanmean, np.nanstd, np.nanquantile
        all_values = np.where(is_finite, all_values, np.where(is_finite.any(axis=0), np.nan, 0.0))
    all_stats = {
        "min": low(all_values, axis=0),
        "max": high(all_values, axis=0),
        "mean": mean(all_values, axis=0),
        "std": deviation(all_values, axis=0),
        **dict(zip(QUANTILES, quantile(all_values, list(QUANTILES.values()), axis=0), strict=True)),
    }
    stats_by_column: dict[str, FeatureStats] = {}
    start = 0
    for name, values in columns.items():
        stats = {stat: array[start : start + values.shape[1]] for stat, array in all_stats.items()}
        extremes = {stat: stats[stat].astype(values.dtype) for stat in ("min", "max")}
        stats_by_column[name] = {**stats, **extremes, "count": np.array([len(values)])}
        start += values.shape[1]
    return stats_by_column


def image_stats(images: NDArray[np.uint8]) -> FeatureStats:
    """Statistics per channel, scaled to [0, 1], of at most some pixels on the longer side.

    Args:
        images: (K, H, W, 3) RGB, K >= 1.

    Returns:
        Arrays (3, 1, 1), `count` (1,) = K.
    """
    import numpy as np

    step = max(1, max(images.shape[1:3]) // _STATS_PIXELS)
    images = images[:, ::step, ::step]
    bins = np.stack([np.bincount(images[..., c].ravel(), minlength=256) for c in range(3)])  # (3, 256)
    levels, total = np.arange(256) / 255.0, bins.sum(axis=1)
    mean = bins @ levels / total
    std = np.sqrt(np.maximum(bins @ levels**2 / total - mean**2, 0.0))
    cumulative = np.cumsum(bins, axis=1) / total[:, None]
    quantiles = {name: levels[(cumulative >= q).argmax(axis=1)] for name, q in QUANTILES.items()}
    low, high = levels[(bins > 0).argmax(axis=1)], levels[255 - (bins[:, ::-1] > 0).argmax(axis=1)]
    per_channel = {"min": low, "max": high, "mean": mean, "std": std, **quantiles}
    shaped = {name: value.reshape(3, 1, 1) for name, value in per_channel.items()}
    return {**shaped, "count": np.array([len(images)])}


class RunningStats:
    """Statistics of a feature over episodes: exact but for quantiles, which are averages weighted by count.

    LeRobot does the same; an exact quantile over a dataset would need all of its values at once.
    """

    def __init__(self) -> None:
        self._stats: dict[str, NDArray[Any]] = {}

    def add(self, stats: FeatureStats) -> None:
        """Add an episode."""
        import numpy as np

        if not self._stats:
            self._stats = dict(stats)
            return
        total = self._stats
        count, new_count = int(total["count"][0]), int(stats["count"][0])
        share = new_count / (count + new_count)
        step = stats["mean"] - total["mean"]
        variance = total["std"] ** 2 * (1 - share) + stats["std"] ** 2 * share + step**2 * share * (1 - share)
        self._stats = {
            "min": np.minimum(total["min"], stats["min"]),
            "max": np.maximum(total["max"], stats["max"]),
            "mean": total["mean"] + step * share,
            "std": np.sqrt(variance),
            "count": np.array([count + new_count]),
            **{name: total[name] + (stats[name] - total[name]) * share for name in QUANTILES},
        }

    def stats(self) -> FeatureStats:
        """Statistics over the episodes added so far; empty before the first."""
        return dict(self._stats)


def stats_to_lists(stats: FeatureStats) -> dict[str, Any]:
    """The same as nested lists of Python numbers, for JSON and Arrow."""
    return {name: value.tolist() for name, value in stats.items()}


LeRobotFeatures = dict[str, dict[str, Any]]


class FileNumber(NamedTuple):
    """Number of a chunk folder, and of a file in it."""

    chunk: int = 0
    file: int = 0

    def next(self) -> FileNumber:
        """The number that follows; a chunk has CHUNK_FILES files."""
        if self.file == CHUNK_FILES - 1:
            return FileNumber(self.chunk + 1, 0)
        return FileNumber(self.chunk, self.file + 1)


def signal_columns(group: DatasetGroup) -> dict[str, SignalColumn]:
    """By name, the further signals that all episodes of a group have, under keys that LeRobot has no use for."""
    cameras = map(camera_key, (*group.cameras, *group.copied_depth))
    reserved = {STATE_KEY, ACTION_KEY, REWARD_KEY, *INDEX_DTYPES, SUBTASK_INDEX, *cameras}
    reserved |= {LANGUAGE_EVENTS, LANGUAGE_PERSISTENT}
    return dotted_columns(group.common_columns, reserved)


def data_features(group: DatasetGroup) -> LeRobotFeatures:
    """Features that are columns of the data files."""
    features: LeRobotFeatures = {}
    if group.layout.state_names:
        features[STATE_KEY] = _describe_feature("float32", group.layout.state_names)
    if group.layout.action_names:
        features[ACTION_KEY] = _describe_feature("float32", group.layout.action_names)
    if group.has_reward:
        features[REWARD_KEY] = _describe_feature("float32", None)
    for name, column in signal_columns(group).items():
        names = group.common_signals[name]
        features[column.key] = _describe_feature(column.dtype, None if names == (name,) else names)
    return {**features, **{name: _describe_feature(dtype, None) for name, dtype in INDEX_DTYPES.items()}}


def _describe_feature(dtype: str, names: Sequence[str] | None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [len(names) if names else 1], "names": list(names) if names else None}


def video_feature(stream_format: StreamFormat, rate_hz: float) -> dict[str, Any]:
    """Feature of a camera, with the properties of its video that LeRobot requires."""
    info = {
        "video.height": stream_format.height,
        "video.width": stream_format.width,
        "video.codec": stream_format.codec,
        "video.pix_fmt": stream_format.pixel_format,
        "video.is_depth_map": False,
        "video.fps": rate_hz,
        "video.channels": 3,
        "has_audio": False,
    }
    names = ["height", "width", "channels"]
    return {
        "dtype": "video",
        "shape": [stream_format.height, stream_format.width, 3],
        "names": names,
        "info": info,
    }


def depth_feature(stream_format: StreamFormat, facts: Mapping[str, Any], rate_hz: float) -> dict[str, Any]:
    """Feature of a depth map, with what the source says of its range and unit."""
    info = {
        **facts,
        "video.height": stream_format.height,
        "video.width": stream_format.width,
        "video.codec": stream_format.codec,
        "video.pix_fmt": stream_format.pixel_format,
        "video.fps": rate_hz,
        "video.channels": 1,
        "is_depth_map": True,
        "has_audio": False,
    }
    shape = [stream_format.height, stream_format.width, 1]
    return {"dtype": "video", "shape": shape, "names": ["height", "width", "channels"], "info": info}


def data_schema(features: LeRobotFeatures, list_type: str = "List") -> pa.Schema:
    """Schema of the data files, with the types that Hugging Face `datasets` reads from its metadata.

    Args:
        features: The features.
        list_type: What `datasets` calls a list: "List", or "Sequence" for versions before 4.
    """
    import pyarrow as pa

    fields, descriptions = [], {}
    for name, feature in features.items():
        if feature["dtype"] == LANGUAGE_DTYPE:
            descriptions[name] = describe_language(name)
            fields.append(pa.field(name, language_type(name)))
            continue
        value = pa.from_numpy_dtype(feature["dtype"])
        size = feature["shape"][0]
        descriptions[name] = {"dtype": feature["dtype"], "_type": "Value"}
        if size > 1:
            descriptions[name] = {"feature": descriptions[name], "length": size, "_type": list_type}
        fields.append(pa.field(name, pa.list_(value, size) if size > 1 else value))
    metadata = json.dumps({"info": {"features": descriptions}})
    return pa.schema(fields, metadata={"huggingface": metadata})


def make_episode_data_table(schema: pa.Schema, columns: Mapping[str, Any]) -> pa.Table:
    """One episode as rows; columns are (T, D) or (T, 1) arrays, or Arrow arrays of texts."""
    import pyarrow as pa

    def column(name: str) -> pa.Array:
        if isinstance(columns[name], pa.Array):
            return columns[name]
        column_type = schema.field(name).type
        flat = pa.array(columns[name].reshape(-1))
        if pa.types.is_fixed_size_list(column_type):
            return pa.FixedSizeListArray.from_arrays(flat, type=column_type)
        return flat.cast(column_type)

    return pa.Table.from_arrays([column(name) for name in schema.names], schema=schema)


def episode_schema(
    features: LeRobotFeatures,
    cameras: Sequence[str],
    annotation_schema: pa.Schema,
    depth: Sequence[str] = (),
) -> pa.Schema:
    """Schema of the episodes files; `annotation_schema` has the columns of ARES, which LeRobot passes through.

    Depth has the columns of a video, and no statistics.
    """
    import pyarrow as pa

    integer, real = pa.int64(), pa.float64()
    fields = [("episode_index", integer), ("tasks", pa.list_(pa.string())), ("length", integer)]
    fields += [(name, integer) for name in (*DATA_FILE_COLUMNS, *ROW_RANGE_COLUMNS)]
    for camera in (*cameras, *depth):
        columns = video_columns(camera_key(camera))
        fields += [(columns.chunk_index, integer), (columns.file_index, integer)]
        fields += [(columns.from_timestamp, real), (columns.to_timestamp, real)]
    image = pa.list_(pa.list_(pa.list_(real)))
    for name, feature in features.items():
        if feature["dtype"] == LANGUAGE_DTYPE:
            continue
        range_type = pa.list_(
            pa.bool_() if feature["dtype"] == "bool" else integer if "int" in feature["dtype"] else real
        )
        fields += _stat_fields(name, range_type, pa.list_(real))
    for camera in cameras:
        fields += _stat_fields(camera_key(camera), image, image)
    fields += [(name, integer) for name in EPISODES_FILE_COLUMNS]
    return pa.schema([*fields, *annotation_schema])


def _stat_fields(
    name: str, range_type: pa.DataType, value_type: pa.DataType
) -> list[tuple[str, pa.DataType]]:
    """The columns of a feature's statistics: minimum and maximum of one type, all others but the count of another."""
    import pyarrow as pa

    types = {"min": range_type, "max": range_type, "mean": value_type, "std": value_type}
    types |= {"count": pa.list_(pa.int64()), **dict.fromkeys(QUANTILES, value_type)}
    return [(f"stats/{name}/{stat}", stat_type) for stat, stat_type in types.items()]


class RollingParquetWriter:
    """Writer of Parquet files of about DATA_FILE_MB each, with one row group per table.

    Args:
        root: Dataset folder.
        template: V3_DATA_PATH or V3_EPISODES_PATH.
        schema: Schema of all files.
    """

    def __init__(self, root: Path, template: str, schema: pa.Schema) -> None:
        self._root, self._template, self._schema = root, template, schema
        self.number = FileNumber()
        self._bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def next_file(self, num_bytes: int) -> FileNumber:
        """The file for the next table, of so many bytes; a file that would become too large is closed first."""
        if self._writer and self._bytes + num_bytes >= DATA_FILE_MB * 2**20:
            self.close()
            self.number = self.number.next()
        return self.number

    def write(self, table: pa.Table) -> None:
        """Write a table to the file that `next_file` returned."""
        import pyarrow.parquet as pq

        if self._writer is None:
            path = self._root / self._template.format(
                chunk_index=self.number.chunk, file_index=self.number.file
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            self._bytes = 0
            self._writer = pq.ParquetWriter(path, self._schema, compression="snappy", use_dictionary=True)
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._bytes += table.nbytes

    def close(self) -> None:
        """Finish the current file; without this it has no footer."""
        if self._writer:
            self._writer.close()
            self._writer = None


def write_subtasks(root: Path, subtasks: Sequence[str]) -> None:
    """Write meta/subtasks.parquet as pandas would: the texts are an index with a name."""
    write_numbered_texts(
        root / SUBTASKS_PATH, subtasks, SUBTASK_TEXT_COLUMN, SUBTASK_INDEX, SUBTASK_TEXT_COLUMN
    )


def write_numbered_texts(
    path: Path,
    texts: Sequence[str],
    text_column: str,
    number_column: str = "task_index",
    index_name: str | None = None,
) -> None:
    """Write numbered texts as pandas would: of tasks (meta/tasks.parquet) the texts are an index without a name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = {
        "name": index_name,
        "field_name": text_column,
        "pandas_type": "unicode",
        "numpy_type": "object",
        "metadata": None,
    }
    number = {
        "name": number_column,
        "field_name": number_column,
        "pandas_type": "int64",
        "numpy_type": "int64",
    }
    pandas = {
        "index_columns": [text_column],
        "column_indexes": [],
        "columns": [{**number, "metadata": None}, text],
    }
    schema = pa.schema(
        [(number_column, pa.int64()), (text_column, pa.string())],
        metadata={"pandas": json.dumps({**pandas, "pandas_version": "2.0.0"})},
    )
    table = pa.Table.from_arrays(
        [pa.array(range(len(texts)), pa.int64()), pa.array(texts, pa.string())], schema=schema
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def write_info(root: Path, group: DatasetGroup, features: LeRobotFeatures, counts: DatasetCounts) -> None:
    """Write meta/info.json (v3.0) with the totals of the dataset."""
    info = {
        **make_common_info_fields(VERSION, group, counts),
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "data_path": V3_DATA_PATH,
        "video_path": V3_VIDEO_PATH if group.cameras or group.copied_depth else None,
        "features": features,
    }
    write_json(root / INFO_PATH, info)


def make_common_info_fields(version: str, group: DatasetGroup, counts: DatasetCounts) -> dict[str, Any]:
    """The fields of info.json that all versions have."""
    robots = sorted(group.robots - {""})
    stops = zip(counts.sides, accumulate(counts.sides.values()), strict=True)
    return {
        "codebase_version": version,
        "robot_type": robots[0] if len(robots) == 1 and len(group.robots) == 1 else None,
        "total_episodes": counts.episodes,
        "total_frames": counts.frames,
        "total_tasks": len(counts.tasks),
        "chunks_size": CHUNK_FILES,
        "fps": group.rate_hz,
        "splits": {side: f"{stop - counts.sides[side]}:{stop}" for side, stop in stops},
    }


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a document as JSON, indented as LeRobot does."""
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def ares_schema(stores: Stores) -> pa.Schema:
    """Schema of the columns that ARES adds to the episodes file."""
    import pyarrow as pa

    fields = [pa.field(f"{ARES_PREFIX}{name}", pa.string()) for name in _EPISODE_FIELDS]
    fields += [pa.field(ROWS_HASH_COLUMN, pa.string()), pa.field(f"{ARES_PREFIX}success", pa.bool_())]
    annotator_fields = stores.tables.episodes.schema(annotator_columns(stores))
    return pa.schema(
        [*fields, *(pa.field(f"{ARES_PREFIX}{field.name}", field.type) for field in annotator_fields)]
    )
