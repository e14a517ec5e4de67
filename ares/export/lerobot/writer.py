"""Writer of one LeRobot dataset on disk, filled episode by episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Episode, Json, Trajectory
from ares.export.base import EpisodeTask, annotator_columns, task_counter
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
from ares.export.lerobot.plan import DatasetGroup
from ares.export.lerobot.stats import RunningStats, column_stats
from ares.export.lerobot.video import CameraVideoWriter, PreparedVideo
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
        self._ares_schema = _ares_schema(stores)
        self._features = data_features(group)
        self._data_schema = data_schema(self._features)
        self._episode_schema = episode_schema(self._features, group.cameras, self._ares_schema)
        self._data = RollingParquetWriter(root, V3_DATA_PATH, self._data_schema)
        self._episode_files = RollingParquetWriter(root, V3_EPISODES_PATH, self._episode_schema)
        self._videos = {name: CameraVideoWriter(root, name, group.rate_hz) for name in group.cameras}
        self._running_stats: dict[str, RunningStats] = {}
        self._episode_rows: list[dict[str, Any]] = []
        self.tasks: dict[str, int] = {}
        self.task_sources = task_counter()
        self.episodes = 0
        self.frames = 0
        self.reencoded: Counter[str] = Counter()

    @property
    def copied_packets(self) -> int:
        """Video frames copied so far."""
        return sum(video.copied_packets for video in self._videos.values())

    @property
    def encoded_frames(self) -> int:
        """Video frames encoded so far."""
        return sum(video.encoded_frames for video in self._videos.values())

    def add(
        self,
        episode: Episode,
        trajectory: Trajectory,
        task: EpisodeTask,
        values: Mapping[str, Json],
        videos: Mapping[str, PreparedVideo],
    ) -> None:
        """Append an episode.

        Args:
            episode: The episode.
            trajectory: Its signals.
            task: Its task.
            values: Columns that annotators filled.
            videos: By name, the videos of the group's cameras.
        """
        task_index = self.tasks.setdefault(task.text, len(self.tasks))
        columns = self._columns(episode, trajectory, task_index)
        stats = column_stats(columns)
        stats |= {camera_key(name): video.stats for name, video in videos.items()}
        table = data_table(self._data_schema, columns)
        file_number = self._data.next_file(table.nbytes)
        self._data.write(table)
        row = {
            "episode_index": self.episodes,
            "tasks": [task.text],
            "length": episode.num_steps,
            **dict(zip(DATA_FILE_COLUMNS, file_number, strict=True)),
            **dict(zip(ROW_RANGE_COLUMNS, (self.frames, self.frames + episode.num_steps), strict=True)),
            **self._append_videos(videos),
            **stat_columns(stats),
            **_ares_values(episode, values, self._ares_schema),
        }
        for name, feature_stats in stats.items():
            self._running_stats.setdefault(name, RunningStats()).add(feature_stats)
        self.task_sources[task.source] += 1
        self.episodes += 1
        self.frames += episode.num_steps
        self._episode_rows.append(row)
        if len(self._episode_rows) == _BUFFERED_ROWS:
            self._flush()

    def finish(self) -> None:
        """Write the files that need all episodes: tasks, statistics and, last, info.json."""
        self._flush()
        self.close()
        write_tasks(self._root, list(self.tasks))
        write_stats(self._root, {name: running.stats() for name, running in self._running_stats.items()})
        features = dict(self._features)
        for name, video in self._videos.items():
            if video.format:
                features[camera_key(name)] = video_feature(video.format, self._group.rate_hz)
        totals = {"episodes": self.episodes, "frames": self.frames, "tasks": len(self.tasks)}
        write_info(self._root, self._group, features, **totals)

    def close(self) -> None:
        """Close all files; may be called twice."""
        self._data.close()
        self._episode_files.close()
        for video in self._videos.values():
            video.close()

    def _columns(self, episode: Episode, trajectory: Trajectory, task: int) -> dict[str, Any]:
        """The data columns of an episode, each (T, D)."""
        import numpy as np

        count = episode.num_steps
        steps = np.arange(count, dtype=np.int64)
        signals = {STATE_KEY: trajectory.state, ACTION_KEY: trajectory.action}
        columns: dict[str, Any] = {
            name: signal.values for name, signal in signals.items() if signal and signal.names
        }
        if self._group.has_reward and trajectory.reward is not None:
            columns[REWARD_KEY] = trajectory.reward
        columns |= {
            "timestamp": (steps / self._group.rate_hz).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(count, self.episodes, dtype=np.int64),
            "index": steps + self.frames,
            "task_index": np.full(count, task, dtype=np.int64),
        }
        return {name: values.reshape(count, -1) for name, values in columns.items()}

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
            if video.encoding_reason:
                self.reencoded[video.encoding_reason] += 1
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


def _ares_schema(stores: Stores) -> pa.Schema:
    """Schema of the columns that ARES adds to the episodes file."""
    import pyarrow as pa

    fields = [pa.field(f"{ARES_PREFIX}{name}", pa.string()) for name in _EPISODE_FIELDS]
    fields.append(pa.field(f"{ARES_PREFIX}success", pa.bool_()))
    annotator_fields = stores.tables.episodes.schema(annotator_columns(stores))
    return pa.schema(
        [*fields, *(pa.field(f"{ARES_PREFIX}{field.name}", field.type) for field in annotator_fields)]
    )


def _ares_values(episode: Episode, values: Mapping[str, Json], schema: pa.Schema) -> dict[str, Any]:
    names = [name.removeprefix(ARES_PREFIX) for name in schema.names]
    return {
        f"{ARES_PREFIX}{name}": values[name] if name in values else getattr(episode, name) for name in names
    }
