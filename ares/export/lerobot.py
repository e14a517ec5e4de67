"""Export as LeRobot v3.0: one dataset per group of like episodes, each opened by lerobot as it stands."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.curate.sets import CurationSet
from ares.episode import Episode, Json, Trajectory
from ares.errors import AresError
from ares.export.base import ExportReport, batches, staging, values_of
from ares.export.failures import Failures
from ares.export.lerobot_plan import NOWHERE, Group, Plan, plan
from ares.export.lerobot_video import Clip, prepare
from ares.export.lerobot_write import DatasetWriter
from ares.export.manifest import Manifest

if TYPE_CHECKING:
    from ares.workspace import Workspace

# Episodes prepared ahead of the one being written, per thread: their packets wait in memory.
_AHEAD = 1
_SCRATCH = ".scratch"


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """An episode whose videos are being prepared."""

    episode: Episode
    trajectory: Trajectory
    values: dict[str, Json]
    clips: dict[str, Future[Clip]]


@dataclass(frozen=True, slots=True)
class _Job:
    """What the functions below share."""

    ws: Workspace
    chosen: CurationSet
    root: Path
    manifest: Manifest
    failures: Failures
    progress: Callable[[int], None]


def export_lerobot(
    ws: Workspace,
    chosen: CurationSet,
    dest: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
) -> ExportReport:
    """Write a set as LeRobot v3.0.

    Episodes that cannot be one dataset (another rate, other signals, cameras or sizes) become several, each in a
    folder named after its source dataset; a set of one kind is written directly into `dest`.

    Args:
        ws: The workspace.
        chosen: The set.
        dest: A new or empty folder; it is there whole or not at all.
        progress: Called with a number of episodes whenever some are done.
        strict: Whether an episode that fails ends the export; else it is left out.

    Raises:
        RequestError: `dest` is not empty, or a rate is no whole number, which LeRobot needs.
        MediaError: No episode can be exported, or when strict one cannot; the message counts those and names some.
        StoreError: The disk is full.
    """
    start = time.monotonic()
    with staging(dest) as root:
        failures = Failures(root, strict)
        planned = plan(ws, chosen, failures)
        progress(planned.member.count(NOWHERE))
        with Manifest(root, ws, chosen, "lerobot v3.0") as manifest:
            job = _Job(ws, chosen, root, manifest, failures, progress)
            writers = [_write(job, planned, number) for number in range(len(planned.groups))]
            failures.check(chosen.episodes)
            shutil.rmtree(root / _SCRATCH, ignore_errors=True)
            report = _report(job, dest, planned, writers, time.monotonic() - start)
            manifest.close(report.counts())
    return report


def _report(
    job: _Job, dest: Path, planned: Plan, writers: list[DatasetWriter], seconds: float
) -> ExportReport:
    reencoded: Counter[str] = Counter()
    for writer in writers:
        reencoded.update(writer.reencoded)
    return ExportReport(
        set=job.chosen.label,
        episodes=sum(writer.episodes for writer in writers),
        frames=sum(writer.frames for writer in writers),
        tasks=len({task for writer in writers for task in writer.tasks}),
        path=dest,
        seconds=seconds,
        copied_packets=sum(writer.copied_packets for writer in writers),
        encoded_frames=sum(writer.encoded_frames for writer in writers),
        left_out=tuple(line for group in planned.groups for line in group.left_out()),
        datasets=tuple(
            {"path": folder, "episodes": writer.episodes, "frames": writer.frames, "tasks": len(writer.tasks)}
            for folder, writer in zip(planned.folders, writers, strict=True)
            if writer.episodes
        ),
        reencoded=dict(reencoded),
        failed=len(job.failures),
        failures=tuple(job.failures.tallies()),
    )


def _write(job: _Job, planned: Plan, number: int) -> DatasetWriter:
    """Write one dataset; failing episodes are remembered, the rest is still tried."""
    group, folder = planned.groups[number], planned.folders[number]
    ids = compress(job.ws.sets.ids(job.chosen), (one == number for one in planned.member))
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(DatasetWriter(job.root / folder, group, job.ws)) as writer,
    ):
        for pending in _ahead(_pending(job, group, ids, pool), workers * _AHEAD):
            clips = _collect(pending, job.failures)
            if clips is not None and not job.failures.fatal:
                job.manifest.add(pending.episode, folder, writer.episodes)
                writer.add(pending.episode, pending.trajectory, pending.values, clips)
            for clip in (clips or {}).values():
                clip.close()
            job.progress(1)
        if writer.episodes and not job.failures.fatal:
            writer.finish()
    if not writer.episodes and folder != ".":
        shutil.rmtree(job.root / folder, ignore_errors=True)
    return writer


def _pending(job: _Job, group: Group, ids: Iterator[str], pool: ThreadPoolExecutor) -> Iterator[_Pending]:
    scratch = job.root / _SCRATCH
    for batch in batches(job.ws, ids, job.failures):
        job.manifest.used(job.ws.annotations.about(batch.ids))
        rows = values_of(job.ws, batch.ids)
        for episode, values in zip(batch.episodes, rows, strict=True):
            clips = {
                name: pool.submit(
                    prepare,
                    episode.camera(name),
                    episode.num_steps,
                    group.rate_hz,
                    scratch / f"{episode.episode_id}-{position}.mp4",
                )
                for position, name in enumerate(group.cameras)
            }
            yield _Pending(episode, batch.trajectories[episode.episode_id], values, clips)


def _ahead(items: Iterator[_Pending], count: int) -> Iterator[_Pending]:
    """The same items, started `count` before they are asked for."""
    waiting: deque[_Pending] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting


def _collect(pending: _Pending, failures: Failures) -> dict[str, Clip] | None:
    """The clips of an episode, or None when one of them failed."""
    clips: dict[str, Clip] = {}
    for camera, future in pending.clips.items():
        try:
            clips[camera] = future.result()
        except AresError as error:
            failures.add(pending.episode.episode_id, error)
    if len(clips) < len(pending.clips):
        for clip in clips.values():
            clip.close()
        return None
    return clips
