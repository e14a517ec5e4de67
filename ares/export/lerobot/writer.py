"""Writer of one LeRobot dataset on disk, filled episode by episode."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Episode, Json
from ares.export.base import annotator_columns
from ares.export.grouped import DatasetCounts, ExportItem
from ares.export.lerobot.metadata import (
    RollingParquetWriter,
    data_features,
    data_schema,
    data_table,
    episode_schema,
    stat_columns,
    video_feature,
    write_info,
    write_stats,
    write_tasks,
)
from ares.export.lerobot.stats import RunningStats, column_stats
from ares.export.lerobot.video import CameraVideoWriter, PreparedVideo, count_video
from ares.export.plan import DatasetGroup
from ares.formats import (
    ACTION_KEY,
    ARES_PREFIX,
    DATA_FILE_COLUMNS,
    EPISODES_FILE_COLUMNS,
    REWARD_KEY,
    ROW_RANGE_COLUMNS,
    STATE_KEY,
    V3_DATA_PATH,
    V3_EPISODES_PATH,
    camera_key,
    video_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores

# Rows of the episodes file written at once (LeRobot: 10).
_BUFFERED_ROWS = 100
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


class LeRobotWriter:
    """Writes the episodes of a group as one dataset.

    Args:
        root: Dataset folder, created when needed.
        group: The episodes and their layout.
        stores: Stores of the workspace, for the columns that annotators filled.
    """

    def __init__(self, root: Path, group: DatasetGroup, stores: Stores) -> None:
        self._root, self._group = root, group
        self._ares_schema = ares_schema(stores)
        self._features = data_features(group)
        self._data_schema = data_schema(self._features)
        self._episode_schema = episode_schema(self._features, group.cameras, self._ares_schema)
        self._data = RollingParquetWriter(root, V3_DATA_PATH, self._data_schema)
        self._episode_files = RollingParquetWriter(root, V3_EPISODES_PATH, self._episode_schema)
        self._videos = {name: CameraVideoWriter(root, name, group.rate_hz) for name in group.cameras}
        self._running_stats: dict[str, RunningStats] = {}
        self._episode_rows: list[dict[str, Any]] = []
        self.counts = DatasetCounts()

    def add(self, item: ExportItem, videos: Mapping[str, PreparedVideo]) -> None:
        """Append an episode.

        Args:
            item: The episode, its signals and its task.
            videos: By name, the videos of the group's cameras.
        """
        number, first_row, episode = self.counts.episodes, self.counts.frames, item.retimed.episode
        columns = data_columns(self._group, item, number, first_row, self.counts.add(item))
        stats = column_stats(columns)
        stats |= {camera_key(name): video.stats for name, video in videos.items()}
        table = data_table(self._data_schema, columns)
        file_number = self._data.next_file(table.nbytes)
        self._data.write(table)
        row = {
            "episode_index": number,
            "tasks": [item.task.text],
            "length": episode.num_steps,
            **dict(zip(DATA_FILE_COLUMNS, file_number, strict=True)),
            **dict(zip(ROW_RANGE_COLUMNS, (first_row, self.counts.frames), strict=True)),
            **self._append_videos(videos),
            **stat_columns(stats),
            **ares_values(episode, item.values, self._ares_schema),
        }
        for name, feature_stats in stats.items():
            self._running_stats.setdefault(name, RunningStats()).add(feature_stats)
        self._episode_rows.append(row)
        if len(self._episode_rows) == _BUFFERED_ROWS:
            self._flush()

    def finish(self) -> None:
        """Write the files that need all episodes: tasks, statistics and, last, info.json."""
        self._flush()
        self.close()
        write_tasks(self._root, list(self.counts.tasks))
        write_stats(self._root, {name: running.stats() for name, running in self._running_stats.items()})
        features = dict(self._features)
        for name, video in self._videos.items():
            if video.format:
                features[camera_key(name)] = video_feature(video.format, self._group.rate_hz)
        write_info(self._root, self._group, features, self.counts)

    def close(self) -> None:
        """Close all files; may be called twice."""
        self._data.close()
        self._episode_files.close()
        for video in self._videos.values():
            video.close()

    def _append_videos(self, videos: Mapping[str, PreparedVideo]) -> dict[str, Any]:
        """Append the videos of an episode and return their columns of the episodes file."""
        values: dict[str, Any] = {}
        for name, video in videos.items():
            location = self._videos[name].append(video)
            columns = video_columns(camera_key(name))
            values[columns.chunk_index] = location.file_number.chunk
            values[columns.file_index] = location.file_number.file
            values[columns.from_timestamp] = location.from_seconds
            values[columns.to_timestamp] = location.to_seconds
            count_video(self.counts, video)
        return values

    def _flush(self) -> None:
        """Write the buffered rows of the episodes file."""
        import pyarrow as pa

        if not self._episode_rows:
            return
        table = pa.Table.from_pylist(self._episode_rows, schema=self._episode_schema)
        file_number = self._episode_files.next_file(table.nbytes)
        for name, value in zip(EPISODES_FILE_COLUMNS, file_number, strict=True):
            position = self._episode_schema.get_field_index(name)
            column = pa.array([value] * table.num_rows, pa.int64())
            table = table.set_column(position, self._episode_schema.field(position), column)
        self._episode_files.write(table)
        self._episode_rows.clear()


def data_columns(
    group: DatasetGroup, item: ExportItem, number: int, first_row: int, task_index: int
) -> dict[str, Any]:
    """The data columns of an episode, each (T, D).

    Args:
        group: The group of the episode.
        item: The episode.
        number: Its number in the dataset.
        first_row: Number of its first step in the dataset.
        task_index: Number of its task.
    """
    import numpy as np

    trajectory, count = item.retimed.trajectory, item.retimed.episode.num_steps
    steps = np.arange(count, dtype=np.int64)
    signals = {STATE_KEY: trajectory.state, ACTION_KEY: trajectory.action}
    columns: dict[str, Any] = {
        name: signal.values for name, signal in signals.items() if signal and signal.names
    }
    if group.has_reward and trajectory.reward is not None:
        columns[REWARD_KEY] = trajectory.reward
    columns |= {
        "timestamp": (steps / group.rate_hz).astype(np.float32),
        "frame_index": steps,
        "episode_index": np.full(count, number, dtype=np.int64),
        "index": steps + first_row,
        "task_index": np.full(count, task_index, dtype=np.int64),
    }
    return {name: values.reshape(count, -1) for name, values in columns.items()}


def ares_schema(stores: Stores) -> pa.Schema:
    """Schema of the columns that ARES adds to the episodes file."""
    import pyarrow as pa

    fields = [pa.field(f"{ARES_PREFIX}{name}", pa.string()) for name in _EPISODE_FIELDS]
    fields.append(pa.field(f"{ARES_PREFIX}success", pa.bool_()))
    annotator_fields = stores.tables.episodes.schema(annotator_columns(stores))
    return pa.schema(
        [*fields, *(pa.field(f"{ARES_PREFIX}{field.name}", field.type) for field in annotator_fields)]
    )


def ares_values(episode: Episode, values: Mapping[str, Json], schema: pa.Schema) -> dict[str, Any]:
    """The values of the columns of `ares_schema`, by column."""
    names = [name.removeprefix(ARES_PREFIX) for name in schema.names]
    return {
        f"{ARES_PREFIX}{name}": values[name] if name in values else getattr(episode, name) for name in names
    }
