"""Exports a set as LeRobot v3.0 or v2.1, one dataset for each group of episodes with equal layout."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from ares.errors import AresError
from ares.export.base import ExportFailures, ExportReport, ExportRequest
from ares.export.layout_groups import (
    DatasetCounts,
    DatasetGroup,
    ExportItem,
    ExportPlan,
    GroupedExport,
    GroupedFormat,
    export_groups,
    prefetched,
)
from ares.export.lerobot.language import NO_COLUMNS
from ares.export.lerobot.segment_file import SegmentFileWriter
from ares.export.lerobot.tables import (
    QUANTILES,
    ares_schema,
    column_stats,
    data_features,
    data_schema,
    make_common_info_fields,
    make_episode_data_table,
    signal_columns,
    stats_to_lists,
    video_feature,
    write_json,
)
from ares.export.lerobot.writer import (
    LeRobotWriter,
    PreparedVideo,
    ares_values,
    count_written_video,
    find_copyable_depth,
    make_episode_data_columns,
    prepare_depth,
    prepare_video,
)
from ares.export.run import ExportReader
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
    VERSION,
    camera_key,
)
from ares.registry import plugin_fault

if TYPE_CHECKING:
    from ares.media import StreamFormat
    from ares.store import Stores


_TASK_COLUMN = "task_index"


def modality_document(group: DatasetGroup) -> dict[str, Any]:
    """The content of meta/modality.json of a group."""
    return {
        "state": _spans_by_name(group.layout.state_names, "state"),
        "action": _spans_by_name(group.layout.action_names, "action"),
        "video": {name: {"original_key": camera_key(name)} for name in group.cameras},
        "annotation": {"human.task_description": {"original_key": _TASK_COLUMN}},
    }


def _spans_by_name(names: Sequence[str], signal: str) -> dict[str, dict[str, int]]:
    """Spans of dimensions by name: "arm" for arm_0, arm_1 and so on; the whole signal where names repeat."""
    spans = list(_numbered_spans(names))
    if len({name for name, _, _ in spans}) < len(spans):
        spans = [(signal, 0, len(names))]
    return {name: {"start": start, "end": stop} for name, start, stop in spans}


def _numbered_spans(names: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and stop of each run of names that are numbered from 0, and of each other name."""
    start = 0
    while start < len(names):
        part, _, number = names[start].rpartition("_")
        stop = start + 1
        if part and number == "0":
            while stop < len(names) and names[stop] == f"{part}_{stop - start}":
                stop += 1
        yield (part if stop - start > 1 else names[start]), start, stop
        start = stop


# The libraries that read v2.1 have `datasets` before version 4.
_LIST_TYPE = "Sequence"


class LeRobotV21Writer:
    """Writes the episodes of a group as one dataset.

    Args:
        root: Dataset folder, created when needed.
        group: The episodes and their layout.
        stores: Stores of the workspace, for the columns that annotators filled.
    """

    can_point = False

    def __init__(self, root: Path, group: DatasetGroup, stores: Stores) -> None:
        self._root, self._group = root, group
        self._features, self._signals = data_features(group), signal_columns(group)
        self._data_schema = data_schema(self._features, _LIST_TYPE)
        self._ares_schema = ares_schema(stores)
        self._formats: dict[str, StreamFormat] = {}
        (root / META_FOLDER).mkdir(parents=True, exist_ok=True)
        self._episodes = _open_lines(root / EPISODE_LINES_PATH)
        self._stats = _open_lines(root / EPISODE_STATS_PATH)
        self._segments = SegmentFileWriter(root) if group.episodes_with_segments else None
        self.counts = DatasetCounts()

    def add(self, item: ExportItem, videos: Mapping[str, PreparedVideo]) -> None:
        """Append an episode.

        Args:
            item: The episode, its signals and its task.
            videos: By name, the videos of the group's cameras.
        """
        number, first_row, episode = self.counts.episodes, self.counts.frames, item.retimed.episode
        tasks, task_index = self.counts.add(item)
        columns = make_episode_data_columns(self._group, self._signals, item, number, first_row, task_index)
        stats = column_stats(columns) | {camera_key(name): video.stats for name, video in videos.items()}
        self._write_table(columns, number)
        if self._segments:
            lacks = {segment.annotation_id: NO_COLUMNS for segment in item.texts.segments}
            self._segments.add(number, item, lacks)
            self.counts.segments.lacks.update(lacks.values())
        for name, video in videos.items():
            self._write_video(name, video, number)
        row = {"episode_index": number, "tasks": tasks, "length": episode.num_steps}
        _write_line(self._episodes, row | ares_values(item, columns, videos, self._ares_schema))
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
        if self._segments:
            self._segments.close()

    def _info(self) -> dict[str, Any]:
        group, episodes = self._group, self.counts.episodes
        videos = {
            camera_key(name): video_feature(format, group.rate_hz) for name, format in self._formats.items()
        }
        return {
            **make_common_info_fields(V21_VERSION, group, self.counts),
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
        pq.write_table(make_episode_data_table(self._data_schema, columns), path)

    def _write_video(self, camera: str, video: PreparedVideo, number: int) -> None:
        from ares.media import PacketJoiner

        path = self._path(V2_VIDEO_PATH, number, camera_key(camera))
        joiner = PacketJoiner(path, self._group.rate_hz, video.span)
        joiner.append(video.span)
        joiner.close()
        self._formats.setdefault(camera, video.span.format)
        count_written_video(self.counts, video)

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


# Episodes prepared ahead of the one being written, per thread: their packets wait in memory.
_PREFETCHED_PER_THREAD = 1
_SCRATCH_FOLDER = ".scratch"


class DatasetWriter(Protocol):
    """Writes the episodes of one group as one dataset: `LeRobotWriter` or `LeRobotV21Writer`.

    Attributes:
        counts: What has been written.
        can_point: Whether an episode may begin in the middle of a video.
    """

    counts: DatasetCounts
    can_point: bool

    def add(self, item: ExportItem, videos: Mapping[str, PreparedVideo]) -> None:
        """Append an episode with its videos by camera."""

    def finish(self) -> None:
        """Write the files that need all episodes."""

    def close(self) -> None:
        """Close all files."""


OpenWriter = Callable[[Path, DatasetGroup, "Stores"], DatasetWriter]


@dataclass(frozen=True, slots=True, eq=False)
class _PendingEpisode:
    """An episode whose videos are being prepared."""

    item: ExportItem
    videos: dict[str, Future[PreparedVideo]]


def export_lerobot(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write a set as LeRobot v3.0; arguments and errors are those of `Exporter`.

    Episodes that do not fit into one dataset (another rate, other signals, cameras or sizes) are split into several,
    each in a folder named after its source dataset. A set of one layout is written directly into the destination.
    """
    format = GroupedFormat(
        f"lerobot {VERSION}", _write_dataset_with_depth, left_out=_left_out, has_segments=True
    )
    return export_groups(request, reader, progress, format)


def export_lerobot_lance(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write a set as LeRobot v3.0 on Lance; arguments, datasets and errors are those of `export_lerobot`."""
    format = GroupedFormat(
        f"lerobot {VERSION} on lance", _write_dataset_on_lance, left_out=_left_out, has_segments=True
    )
    return export_groups(request, reader, progress, format)


def _write_dataset_on_lance(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    from ares.export.lerobot.lance_layout import convert_to_lance

    counts = _write_dataset_with_depth(export, plan, number)
    if counts.episodes and not export.failures.fatal:
        convert_to_lance(export.root / plan.folders[number])
    return counts


def export_lerobot_v21(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write a set as LeRobot v2.1, with the modality.json of GR00T: a Parquet file and an mp4 per episode.

    Arguments, datasets and errors are those of `export_lerobot`.
    """
    write = partial(_write_dataset, LeRobotV21Writer)
    format = GroupedFormat(f"lerobot {V21_VERSION}", write, left_out=_left_out, has_segments=True)
    return export_groups(request, reader, progress, format)


def _left_out(group: DatasetGroup) -> list[str]:
    return group.left_out(signals=signal_columns(group))


def _write_dataset_with_depth(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    """Write one dataset of v3.0, with depth where its videos can be copied."""
    group = plan.groups[number]
    group.copied_depth = find_copyable_depth(group)
    return _write_dataset(LeRobotWriter, export, plan, number)


def _write_dataset(
    open_writer: OpenWriter, export: GroupedExport, plan: ExportPlan, number: int
) -> DatasetCounts:
    """Write one dataset; episodes that fail are recorded, the others are still written."""
    group, folder = plan.groups[number], plan.folders[number]
    scratch = export.root / _SCRATCH_FOLDER / folder
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(open_writer(export.root / folder, group, export.reader.stores)) as writer,
    ):
        items = export.items(plan, number)
        started = _start_episodes(scratch, group, items, pool, writer.can_point)
        for pending in prefetched(started, workers * _PREFETCHED_PER_THREAD):
            _write_episode(export, writer, pending, folder)
        if writer.counts.episodes and not export.failures.fatal:
            writer.finish()
    shutil.rmtree(export.root / _SCRATCH_FOLDER, ignore_errors=True)
    if not writer.counts.episodes and folder != ".":
        shutil.rmtree(export.root / folder, ignore_errors=True)
    return writer.counts


def _write_episode(
    export: GroupedExport, writer: DatasetWriter, pending: _PendingEpisode, folder: str
) -> None:
    videos = _collect_videos(pending, export.failures)
    if videos is not None and not export.failures.fatal:
        export.note_written(pending.item, folder, writer.counts.episodes)
        writer.add(pending.item, videos)
    for video in (videos or {}).values():
        video.close()
    export.progress(1)


def _start_episodes(
    scratch: Path,
    group: DatasetGroup,
    items: Iterator[ExportItem],
    pool: ThreadPoolExecutor,
    can_point: bool,
) -> Iterator[_PendingEpisode]:
    """Yield the episodes of a group after submitting the preparation of their videos to the pool."""
    for number, item in enumerate(items):
        videos = {
            name: pool.submit(
                prepare_video,
                item.retimed.episode.camera(name),
                item.retimed,
                group.rate_hz,
                scratch / f"{item.retimed.episode.episode_id}-{number}-{position}.mp4",
                can_point,
            )
            for position, name in enumerate(group.cameras)
        }
        for name in group.copied_depth:
            videos[name] = pool.submit(prepare_depth, name, item.retimed)
        yield _PendingEpisode(item, videos)


def _collect_videos(pending: _PendingEpisode, failures: ExportFailures) -> dict[str, PreparedVideo] | None:
    """The videos of an episode, or None when one of them failed."""
    videos: dict[str, PreparedVideo] = {}
    for camera, future in pending.videos.items():
        try:
            videos[camera] = future.result()
        except AresError as error:
            failures.add(pending.item.member, error)
        except OSError:
            raise
        except Exception as error:  # damaged data may raise anything in the libraries that read it
            failures.add(pending.item.member, plugin_fault(f"the exporter of camera {camera}", error))
    if len(videos) < len(pending.videos):
        for video in videos.values():
            video.close()
        return None
    return videos
