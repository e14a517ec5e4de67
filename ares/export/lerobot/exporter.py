"""Export of a set as LeRobot v3.0: one dataset per group of episodes with the same layout."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.curation import CurationSet, Sets
from ares.episode import Json
from ares.errors import AresError
from ares.export.base import (
    EpisodeTask,
    ExportReport,
    TaskSource,
    annotator_values,
    episode_batches,
    episode_tasks,
    staging_folder,
    task_counter,
)
from ares.export.left_out import ExportFailures
from ares.export.lerobot.plan import NO_GROUP, DatasetGroup, LeRobotPlan, plan_datasets
from ares.export.lerobot.video import PreparedVideo, prepare_video
from ares.export.lerobot.writer import LeRobotWriter
from ares.export.manifest import ExportManifest
from ares.export.retime import ClockChanges, ExportClock, RetimedEpisode, RetimeMode, retime_episode
from ares.registry import plugin_fault

if TYPE_CHECKING:
    from ares.quality.contract import SetConversion
    from ares.store import Stores

# Episodes prepared ahead of the one being written, per thread: their packets wait in memory.
_PREFETCHED_PER_THREAD = 1
_SCRATCH_FOLDER = ".scratch"


@dataclass(frozen=True, slots=True, eq=False)
class _PendingEpisode:
    """An episode whose videos are being prepared."""

    retimed: RetimedEpisode
    task: EpisodeTask
    values: dict[str, Json]
    videos: dict[str, Future[PreparedVideo]]
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class _LeRobotExport:
    """Arguments common to the functions below."""

    stores: Stores
    selection: CurationSet
    root: Path
    manifest: ExportManifest
    failures: ExportFailures
    task: TaskSource
    clock: ExportClock
    changes: ClockChanges
    convert: SetConversion | None
    progress: Callable[[int], None]

    def episode_ids(self) -> Iterator[str]:
        """The ids of the set, in its order."""
        return Sets(self.stores.annotations).ids(self.selection)


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
    start, clock = time.monotonic(), ExportClock(fps, retime)
    with staging_folder(destination) as root:
        failures = ExportFailures(root, strict)
        plan = plan_datasets(stores, selection, failures, clock, convert)
        progress(plan.group_numbers.count(NO_GROUP))
        with ExportManifest(root, stores, selection, "lerobot v3.0") as manifest:
            changes = ClockChanges(clock)
            job = _LeRobotExport(
                stores, selection, root, manifest, failures, task, clock, changes, convert, progress
            )
            writers = [_write_dataset(job, plan, number) for number in range(len(plan.groups))]
            failures.check(selection.episodes)
            shutil.rmtree(root / _SCRATCH_FOLDER, ignore_errors=True)
            report = _report(job, destination, plan, writers, time.monotonic() - start)
            manifest.write(report.counts())
    return report


def _report(
    job: _LeRobotExport, destination: Path, plan: LeRobotPlan, writers: list[LeRobotWriter], seconds: float
) -> ExportReport:
    reencoded: Counter[str] = Counter()
    task_sources = task_counter()
    for writer in writers:
        reencoded.update(writer.reencoded)
        task_sources.update(writer.task_sources)
    return ExportReport(
        set=job.selection.label,
        episodes=sum(writer.episodes for writer in writers),
        frames=sum(writer.frames for writer in writers),
        tasks=len({task for writer in writers for task in writer.tasks}),
        task_source=job.task,
        task_sources=task_sources,
        path=destination,
        seconds=seconds,
        copied_packets=sum(writer.copied_packets for writer in writers),
        encoded_frames=sum(writer.encoded_frames for writer in writers),
        left_out=tuple(line for group in plan.groups for line in group.left_out()),
        datasets=tuple(
            {"path": folder, "episodes": writer.episodes, "frames": writer.frames, "tasks": len(writer.tasks)}
            for folder, writer in zip(plan.folders, writers, strict=True)
            if writer.episodes
        ),
        reencoded=dict(reencoded),
        failed=len(job.failures),
        failures=tuple(job.failures.tallies()),
        changed=(*job.changes.to_json(), *(job.convert.to_json() if job.convert else ())),
        unknown=job.convert.unknown if job.convert else (),
    )


def _write_dataset(job: _LeRobotExport, plan: LeRobotPlan, number: int) -> LeRobotWriter:
    """Write one dataset; episodes that fail are recorded, the others are still written."""
    group, folder = plan.groups[number], plan.folders[number]
    ids = compress(job.episode_ids(), (group_number == number for group_number in plan.group_numbers))
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(LeRobotWriter(job.root / folder, group, job.stores)) as writer,
    ):
        for pending in _prefetch(_start_episodes(job, group, ids, pool), workers * _PREFETCHED_PER_THREAD):
            _write_episode(job, writer, pending, folder)
        if writer.episodes and not job.failures.fatal:
            writer.finish()
    if not writer.episodes and folder != ".":
        shutil.rmtree(job.root / folder, ignore_errors=True)
    return writer


def _write_episode(job: _LeRobotExport, writer: LeRobotWriter, pending: _PendingEpisode, folder: str) -> None:
    videos = _collect_videos(pending, job.failures)
    if videos is not None and not job.failures.fatal:
        job.manifest.add(pending.retimed.episode, folder, writer.episodes)
        job.changes.add(pending.retimed)
        if job.convert:
            job.convert.count(pending.reasons)
        writer.add(pending.retimed.episode, pending.retimed.trajectory, pending.task, pending.values, videos)
    for video in (videos or {}).values():
        video.close()
    job.progress(1)


def _start_episodes(
    job: _LeRobotExport, group: DatasetGroup, ids: Iterator[str], pool: ThreadPoolExecutor
) -> Iterator[_PendingEpisode]:
    """Yield the episodes of a group after submitting the preparation of their videos to the pool."""
    scratch = job.root / _SCRATCH_FOLDER
    for batch in episode_batches(job.stores, ids, job.failures, job.convert):
        annotations = job.stores.annotations.find_annotations(batch.ids)
        job.manifest.add_makers(annotations)
        rows = annotator_values(job.stores, batch.ids)
        tasks = episode_tasks(batch.episodes, rows, job.task)
        for episode, values, task in zip(batch.episodes, rows, tasks, strict=True):
            retimed = retime_episode(episode, batch.trajectories[episode.episode_id], job.clock)
            videos = {
                name: pool.submit(
                    prepare_video,
                    episode.camera(name),
                    retimed,
                    group.rate_hz,
                    scratch / f"{episode.episode_id}-{position}.mp4",
                )
                for position, name in enumerate(group.cameras)
            }
            reasons = batch.reasons.get(episode.episode_id, ())
            yield _PendingEpisode(retimed, task, values, videos, reasons)


def _prefetch(items: Iterator[_PendingEpisode], count: int) -> Iterator[_PendingEpisode]:
    """Yield the same items, each taken from the iterator `count` items ahead of its use."""
    waiting: deque[_PendingEpisode] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def _collect_videos(pending: _PendingEpisode, failures: ExportFailures) -> dict[str, PreparedVideo] | None:
    """The videos of an episode, or None when one of them failed."""
    videos: dict[str, PreparedVideo] = {}
    for camera, future in pending.videos.items():
        try:
            videos[camera] = future.result()
        except AresError as error:
            failures.add(pending.retimed.episode.episode_id, error)
        except OSError:
            raise
        except Exception as error:  # damaged data may raise anything in the libraries that read it
            fault = plugin_fault(f"the exporter of camera {camera}", error)
            failures.add(pending.retimed.episode.episode_id, fault)
    if len(videos) < len(pending.videos):
        for video in videos.values():
            video.close()
        return None
    return videos
