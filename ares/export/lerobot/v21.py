"""Writer of one LeRobot v2.1 dataset: a Parquet file and a video of each camera for every episode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ares.export.grouped import DatasetCounts, ExportItem
from ares.export.lerobot.metadata import (
    common_info,
    data_features,
    data_schema,
    data_table,
    video_feature,
    write_json,
)
from ares.export.lerobot.modality import modality_document
from ares.export.lerobot.stats import QUANTILES, column_stats, stats_to_lists
from ares.export.lerobot.video import PreparedVideo, count_video
from ares.export.lerobot.writer import ares_schema, ares_values, data_columns
from ares.export.plan import DatasetGroup
from ares.formats import (
    CHUNK_FILES,
    EPISODE_LINES_PATH,
    EPISODE_STATS_PATH,
    INFO_PATH,
    META_FOLDER,
    MODALITY_PATH,
    TASK_LINES_PATH,
    V2_DATA_PATH,
    V2_VIDEO_PATH,
    V21_VERSION,
    camera_key,
)

if TYPE_CHECKING:
    from ares.media.video import StreamFormat
    from ares.store import Stores

# The libraries that read v2.1 have `datasets` before version 4.
_LIST_TYPE = "Sequence"


class LeRobotV21Writer:
    """Writes the episodes of a group as one dataset.

    Args:
        root: Dataset folder, created when needed.
        group: The episodes and their layout.
        stores: Stores of the workspace, for the columns that annotators filled.
    """

    def __init__(self, root: Path, group: DatasetGroup, stores: Stores) -> None:
        self._root, self._group = root, group
        self._features = data_features(group)
        self._data_schema = data_schema(self._features, _LIST_TYPE)
        self._ares_schema = ares_schema(stores)
        self._formats: dict[str, StreamFormat] = {}
        (root / META_FOLDER).mkdir(parents=True, exist_ok=True)
        self._episodes = _open_lines(root / EPISODE_LINES_PATH)
        self._stats = _open_lines(root / EPISODE_STATS_PATH)
        self.counts = DatasetCounts()

    def add(self, item: ExportItem, videos: Mapping[str, PreparedVideo]) -> None:
        """Append an episode.

        Args:
            item: The episode, its signals and its task.
            videos: By name, the videos of the group's cameras.
        """
        number, first_row, episode = self.counts.episodes, self.counts.frames, item.retimed.episode
        columns = data_columns(self._group, item, number, first_row, self.counts.add(item))
        stats = column_stats(columns) | {camera_key(name): video.stats for name, video in videos.items()}
        self._write_table(columns, number)
        for name, video in videos.items():
            self._write_video(name, video, number)
        row = {"episode_index": number, "tasks": [item.task.text], "length": episode.num_steps}
        _write_line(self._episodes, row | ares_values(episode, item.values, self._ares_schema))
        lists = {name: _without_quantiles(stats_to_lists(values)) for name, values in stats.items()}
        _write_line(self._stats, {"episode_index": number, "stats": lists})

    def finish(self) -> None:
        """Write the files that need all episodes: tasks, modalities and, last, info.json."""
        self.close()
        with _open_lines(self._root / TASK_LINES_PATH) as file:
            for task, number in self.counts.tasks.items():
                _write_line(file, {"task_index": number, "task": task})
        write_json(self._root / MODALITY_PATH, modality_document(self._group))
        write_json(self._root / INFO_PATH, self._info())

    def close(self) -> None:
        """Close all files; may be called twice."""
        self._episodes.close()
        self._stats.close()

    def _info(self) -> dict[str, Any]:
        group, episodes = self._group, self.counts.episodes
        videos = {
            camera_key(name): video_feature(format, group.rate_hz) for name, format in self._formats.items()
        }
        return {
            **common_info(V21_VERSION, group, self.counts),
            "total_videos": episodes * len(videos),
            "total_chunks": -(-episodes // CHUNK_FILES),
            "data_path": V2_DATA_PATH,
            "video_path": V2_VIDEO_PATH if videos else None,
            "features": self._features | videos,
        }

    def _write_table(self, columns: Mapping[str, Any], number: int) -> None:
        import pyarrow.parquet as pq

        path = self._path(V2_DATA_PATH, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data_table(self._data_schema, columns), path)

    def _write_video(self, camera: str, video: PreparedVideo, number: int) -> None:
        from ares.media.video import PacketJoiner

        path = self._path(V2_VIDEO_PATH, number, camera_key(camera))
        joiner = PacketJoiner(path, self._group.rate_hz, video.span)
        joiner.append(video.span)
        joiner.close()
        self._formats.setdefault(camera, video.span.format)
        count_video(self.counts, video)

    def _path(self, template: str, number: int, video_key: str = "") -> Path:
        return self._root / template.format(
            episode_chunk=number // CHUNK_FILES, episode_index=number, video_key=video_key
        )


def _open_lines(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8")


def _write_line(file: TextIO, document: Mapping[str, Any]) -> None:
    file.write(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str) + "\n")


def _without_quantiles(stats: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics that v2.1 has."""
    return {name: value for name, value in stats.items() if name not in QUANTILES}
