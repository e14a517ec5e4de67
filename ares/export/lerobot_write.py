"""DatasetWriter: one LeRobot dataset on disk, filled an episode at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.episode import Episode, Json, Trajectory
from ares.export.base import value_columns
from ares.export.lerobot_meta import (
    DATA_PATH,
    EPISODES_PATH,
    Rolling,
    camera_key,
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
from ares.export.lerobot_plan import Group
from ares.export.lerobot_stats import Totals, of_columns
from ares.export.lerobot_video import Clip, Track

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace

# Rows of the episodes file written at once (LeRobot: 10).
_ROWS = 100
# A policy that is conditioned on language needs some text; the episode says so itself in ares/instruction.
NO_TASK = "unspecified task"
_IDENTITY = (
    "episode_id",
    "dataset",
    "version",
    "split",
    "key",
    "content_hash",
    "instruction",
    "success_source",
)


class DatasetWriter:
    """Writes the episodes of a group.

    Args:
        root: Dataset folder, made if need be.
        group: What is to be written.
        ws: For the columns that annotators filled.
    """

    def __init__(self, root: Path, group: Group, ws: Workspace) -> None:
        self._root, self._group = root, group
        self._values = _value_schema(ws)
        self._features = data_features(group)
        self._data_schema = data_schema(self._features)
        self._schema = episode_schema(self._features, group.cameras, self._values)
        self._data = Rolling(root, DATA_PATH, self._data_schema)
        self._meta = Rolling(root, EPISODES_PATH, self._schema)
        self._tracks = {name: Track(root, name, group.rate_hz) for name in group.cameras}
        self._totals: dict[str, Totals] = {}
        self._rows: list[dict[str, Any]] = []
        self.tasks: dict[str, int] = {}
        self.episodes = 0
        self.frames = 0
        self.reencoded: Counter[str] = Counter()

    @property
    def copied_packets(self) -> int:
        """Video frames copied so far."""
        return sum(track.copied_packets for track in self._tracks.values())

    @property
    def encoded_frames(self) -> int:
        """Video frames encoded so far."""
        return sum(track.encoded_frames for track in self._tracks.values())

    def add(
        self, episode: Episode, trajectory: Trajectory, values: Mapping[str, Json], clips: Mapping[str, Clip]
    ) -> None:
        """Append an episode; clips are those of the group's cameras."""
        task = task_text(episode, values)
        columns = self._columns(episode, trajectory, self.tasks.setdefault(task, len(self.tasks)))
        stats = of_columns(columns)
        stats |= {camera_key(name): clip.stats for name, clip in clips.items()}
        table = data_table(self._data_schema, columns)
        place = self._data.place(table.nbytes)
        self._data.write(table)
        row = {
            "episode_index": self.episodes,
            "tasks": [task],
            "length": episode.num_steps,
            "data/chunk_index": place.chunk,
            "data/file_index": place.file,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + episode.num_steps,
            **self._videos(clips),
            **stat_columns(stats),
            **_own_columns(episode, values, self._values),
        }
        for name, one in stats.items():
            self._totals.setdefault(name, Totals()).add(one)
        self.episodes += 1
        self.frames += episode.num_steps
        self._rows.append(row)
        if len(self._rows) == _ROWS:
            self._flush()

    def finish(self) -> None:
        """Write what is known at the end only: tasks, statistics and, last, info.json."""
        self._flush()
        self.close()
        write_tasks(self._root, list(self.tasks))
        write_stats(self._root, {name: totals.stats() for name, totals in self._totals.items()})
        features = dict(self._features)
        for name, track in self._tracks.items():
            if track.shape:
                features[camera_key(name)] = video_feature(track.shape, self._group.rate_hz)
        numbers = {"episodes": self.episodes, "frames": self.frames, "tasks": len(self.tasks)}
        write_info(self._root, self._group, features, **numbers)

    def close(self) -> None:
        """Release all files; may be called twice."""
        self._data.close()
        self._meta.close()
        for track in self._tracks.values():
            track.close()

    def _columns(self, episode: Episode, trajectory: Trajectory, task: int) -> dict[str, Any]:
        """The data columns of an episode, each (T, D)."""
        import numpy as np

        count = episode.num_steps
        steps = np.arange(count, dtype=np.int64)
        signals = {"observation.state": trajectory.state, "action": trajectory.action}
        columns: dict[str, Any] = {
            name: signal.values for name, signal in signals.items() if signal and signal.names
        }
        if self._group.has_reward and trajectory.reward is not None:
            columns["next.reward"] = trajectory.reward
        columns |= {
            "timestamp": (steps / self._group.rate_hz).astype(np.float32),
            "frame_index": steps,
            "episode_index": np.full(count, self.episodes, dtype=np.int64),
            "index": steps + self.frames,
            "task_index": np.full(count, task, dtype=np.int64),
        }
        return {name: values.reshape(count, -1) for name, values in columns.items()}

    def _videos(self, clips: Mapping[str, Clip]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for name, clip in clips.items():
            placed = self._tracks[name].add(clip)
            key = f"videos/{camera_key(name)}"
            columns[f"{key}/chunk_index"] = placed.number.chunk
            columns[f"{key}/file_index"] = placed.number.file
            columns[f"{key}/from_timestamp"] = placed.from_seconds
            columns[f"{key}/to_timestamp"] = placed.to_seconds
            if clip.reason:
                self.reencoded[clip.reason] += 1
        return columns

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._rows:
            return
        table = pa.Table.from_pylist(self._rows, schema=self._schema)
        place = self._meta.place(table.nbytes)
        for name, value in zip(("chunk_index", "file_index"), place, strict=True):
            at = self._schema.get_field_index(f"meta/episodes/{name}")
            column = pa.array([value] * table.num_rows, pa.int64())
            table = table.set_column(at, self._schema.field(at), column)
        self._meta.write(table)
        self._rows.clear()


def task_text(episode: Episode, values: Mapping[str, Json]) -> str:
    """What the episode is to be trained for: its instruction, else its caption, else NO_TASK."""
    caption = values.get("caption")
    return episode.instruction or (caption if isinstance(caption, str) else "") or NO_TASK


def _value_schema(ws: Workspace) -> pa.Schema:
    """Columns of ours in the episodes file."""
    import pyarrow as pa

    own = [pa.field(f"ares/{name}", pa.string()) for name in _IDENTITY]
    own.append(pa.field("ares/success", pa.bool_()))
    made = ws.tables.episodes.schema(value_columns(ws))
    return pa.schema([*own, *(pa.field(f"ares/{field.name}", field.type) for field in made)])


def _own_columns(episode: Episode, values: Mapping[str, Json], schema: pa.Schema) -> dict[str, Any]:
    names = [name.removeprefix("ares/") for name in schema.names]
    return {f"ares/{name}": values[name] if name in values else getattr(episode, name) for name in names}
