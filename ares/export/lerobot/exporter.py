"""Export of a set as LeRobot v3.0 or v2.1: one dataset per group of episodes with the same layout."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ares.curation import CurationSet
from ares.errors import AresError
from ares.export.base import ExportReport, TaskSource
from ares.export.grouped import (
    DatasetCounts,
    ExportItem,
    ExportOptions,
    GroupedExport,
    GroupedFormat,
    export_groups,
    prefetched,
)
from ares.export.left_out import ExportFailures
from ares.export.lerobot.v21 import LeRobotV21Writer
from ares.export.lerobot.video import PreparedVideo, prepare_video
from ares.export.lerobot.writer import LeRobotWriter
from ares.export.plan import DatasetGroup, ExportPlan
from ares.export.retime import ExportClock, RetimeMode
from ares.formats import V21_VERSION, VERSION
from ares.registry import plugin_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ares.quality.contract import SetConversion
    from ares.store import Stores

# Episodes prepared ahead of the one being written, per thread: their packets wait in memory.
_PREFETCHED_PER_THREAD = 1
_SCRATCH_FOLDER = ".scratch"


class DatasetWriter(Protocol):
    """Writes the episodes of one group as a dataset of one version of LeRobot."""

    counts: DatasetCounts

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
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
    task: TaskSource = "instruction",
    fps: float | None = None,
    retime: RetimeMode = "nearest",
    convert: SetConversion | None = None,
) -> ExportReport:
    """Write a set as LeRobot v3.0.

    Episodes that do not fit into one dataset (another rate, other signals, cameras or sizes) are split into several,
    each in a folder named after its source dataset. A set of one layout is written directly into the destination.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        destination: A new or empty folder; it appears complete or not at all.
        progress: Called with a number of episodes whenever some are finished.
        strict: Whether an episode that fails ends the export; else it is left out.
        task: What the task of an episode is, see `ares.export.base.episode_tasks`.
        fps: Steps per second to write; None for the rate of each episode.
        retime: Which step is written for a second, see `ares.export.retime`.
        convert: Conversions of the signals.

    Raises:
        RequestError: The destination is not empty, or the rate is not positive.
        MediaError: No episode can be exported, or with `strict` one cannot; the message lists the first failures.
        StoreError: The disk is full.
    """
    format = GroupedFormat(f"lerobot {VERSION}", partial(_write_dataset, LeRobotWriter))
    options = ExportOptions(strict, task, ExportClock(fps, retime), convert)
    return export_groups(stores, selection, destination, progress, options, format)


def export_lerobot_v21(
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
    task: TaskSource = "instruction",
    fps: float | None = None,
    retime: RetimeMode = "nearest",
    convert: SetConversion | None = None,
) -> ExportReport:
    """Write a set as LeRobot v2.1, with the modality.json of GR00T: a Parquet file and an mp4 per episode.

    Arguments, datasets and errors are those of `export_lerobot`.
    """
    format = GroupedFormat(f"lerobot {V21_VERSION}", partial(_write_dataset, LeRobotV21Writer))
    options = ExportOptions(strict, task, ExportClock(fps, retime), convert)
    return export_groups(stores, selection, destination, progress, options, format)


def _write_dataset(
    open_writer: OpenWriter, export: GroupedExport, plan: ExportPlan, number: int
) -> DatasetCounts:
    """Write one dataset; episodes that fail are recorded, the others are still written."""
    group, folder = plan.groups[number], plan.folders[number]
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(open_writer(export.root / folder, group, export.stores)) as writer,
    ):
        started = _start_episodes(export, group, export.items(plan, number), pool)
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
    export: GroupedExport, group: DatasetGroup, items: Iterator[ExportItem], pool: ThreadPoolExecutor
) -> Iterator[_PendingEpisode]:
    """Yield the episodes of a group after submitting the preparation of their videos to the pool."""
    scratch = export.root / _SCRATCH_FOLDER
    for item in items:
        videos = {
            name: pool.submit(
                prepare_video,
                item.retimed.episode.camera(name),
                item.retimed,
                group.rate_hz,
                scratch / f"{item.episode_id}-{position}.mp4",
            )
            for position, name in enumerate(group.cameras)
        }
        yield _PendingEpisode(item, videos)


def _collect_videos(pending: _PendingEpisode, failures: ExportFailures) -> dict[str, PreparedVideo] | None:
    """The videos of an episode, or None when one of them failed."""
    videos: dict[str, PreparedVideo] = {}
    for camera, future in pending.videos.items():
        try:
            videos[camera] = future.result()
        except AresError as error:
            failures.add(pending.item.episode_id, error)
        except OSError:
            raise
        except Exception as error:  # damaged data may raise anything in the libraries that read it
            failures.add(pending.item.episode_id, plugin_fault(f"the exporter of camera {camera}", error))
    if len(videos) < len(pending.videos):
        for video in videos.values():
            video.close()
        return None
    return videos
