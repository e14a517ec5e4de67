"""Exports in which every group of episodes with one layout becomes a dataset: the steps that such formats share."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ares.curation import CurationSet, Sets
from ares.episode import Json
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
from ares.export.manifest import ExportManifest
from ares.export.plan import NO_GROUP, DatasetGroup, ExportPlan, FindOrigin, no_origin, plan_datasets
from ares.export.retime import ClockChanges, ExportClock, RetimedEpisode, retime_episode

if TYPE_CHECKING:
    from ares.quality.contract import SetConversion
    from ares.store import Stores

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What a user chooses for an export, see `Exporter`.

    Attributes:
        strict: Whether an episode that fails ends the export.
        task: What the task of an episode is.
        clock: The rate to write, and which step is written for a second.
        convert: Conversions of the signals.
    """

    strict: bool
    task: TaskSource
    clock: ExportClock
    convert: SetConversion | None


@dataclass(frozen=True, slots=True, eq=False)
class ExportItem:
    """An episode to write.

    Attributes:
        retimed: The episode at the rate of the export.
        task: Its task.
        values: By column, what annotators say of it.
        reasons: What was converted in its signals.
    """

    retimed: RetimedEpisode
    task: EpisodeTask
    values: dict[str, Json]
    reasons: Sequence[str]

    @property
    def episode_id(self) -> str:
        """Id of the episode."""
        return self.retimed.episode.episode_id


@dataclass(slots=True)
class DatasetCounts:
    """What has been written of one dataset; the attributes are those of `ExportReport`.

    Attributes:
        tasks: Number of each task text, in order of appearance.
    """

    episodes: int = 0
    frames: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    task_sources: Counter[str] = field(default_factory=task_counter)
    copied_packets: int = 0
    encoded_frames: int = 0
    copied_records: int = 0
    reencoded: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, item: ExportItem) -> int:
        """Count an episode; returns the number of its task."""
        number = self.tasks.setdefault(item.task.text, len(self.tasks))
        self.task_sources[item.task.source] += 1
        self.episodes += 1
        self.frames += item.retimed.episode.num_steps
        return number


@dataclass(frozen=True, slots=True)
class GroupedExport:
    """An export that is being written."""

    stores: Stores
    selection: CurationSet
    root: Path
    manifest: ExportManifest
    failures: ExportFailures
    options: ExportOptions
    changes: ClockChanges
    progress: Callable[[int], None]

    def items(self, plan: ExportPlan, number: int) -> Iterator[ExportItem]:
        """The episodes of one group, in the order of the set; one batch at a time is in memory."""
        all_ids = Sets(self.stores.annotations).ids(self.selection)
        ids = compress(all_ids, (group == number for group in plan.group_numbers))
        for batch in episode_batches(self.stores, ids, self.failures, self.options.convert):
            self.manifest.add_makers(self.stores.annotations.find_annotations(batch.ids))
            rows = annotator_values(self.stores, batch.ids)
            tasks = episode_tasks(batch.episodes, rows, self.options.task)
            for episode, values, task in zip(batch.episodes, rows, tasks, strict=True):
                retimed = retime_episode(episode, batch.trajectories[episode.episode_id], self.options.clock)
                yield ExportItem(retimed, task, values, batch.reasons.get(episode.episode_id, ()))

    def note_written(self, item: ExportItem, folder: str, number: int) -> None:
        """Note that an episode is written as the one of a number in a dataset folder."""
        self.manifest.add(item.retimed.episode, folder, number)
        self.changes.add(item.retimed)
        if self.options.convert:
            self.options.convert.count(item.reasons)


@dataclass(frozen=True, slots=True)
class GroupedFormat:
    """A format that is written group by group.

    Attributes:
        name: Name and version, as the manifest has them.
        write_dataset: Writes one group into its folder; an episode that fails is added to the failures.
        folders: Folder of each group inside the export; None for those of `plan_datasets`.
        find_origin: Says which episodes are copied, see `plan_datasets`.
        left_out: Describes the data of a group that the format leaves out.
    """

    name: str
    write_dataset: Callable[[GroupedExport, ExportPlan, int], DatasetCounts]
    folders: Callable[[ExportPlan], list[str]] | None = None
    find_origin: FindOrigin = no_origin
    left_out: Callable[[DatasetGroup], list[str]] = DatasetGroup.left_out


def export_groups(
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    progress: Callable[[int], None],
    options: ExportOptions,
    format: GroupedFormat,
) -> ExportReport:
    """Write a set in a format, one dataset after the other; see `Exporter` for what is raised."""
    start = time.monotonic()
    with staging_folder(destination) as root:
        failures = ExportFailures(root, options.strict)
        plan = plan_datasets(stores, selection, failures, options.clock, options.convert, format.find_origin)
        if format.folders is not None:
            plan = ExportPlan(plan.groups, format.folders(plan), plan.group_numbers)
        progress(plan.group_numbers.count(NO_GROUP))
        with ExportManifest(root, stores, selection, format.name) as manifest:
            changes = ClockChanges(options.clock)
            export = GroupedExport(stores, selection, root, manifest, failures, options, changes, progress)
            written = [format.write_dataset(export, plan, number) for number in range(len(plan.groups))]
            failures.check(selection.episodes)
            groups_left_out = [line for group in plan.groups for line in format.left_out(group)]
            seconds = time.monotonic() - start
            report = _report(export, destination, plan, written, groups_left_out, seconds)
            manifest.write(report.counts())
    return report


def _report(
    export: GroupedExport,
    destination: Path,
    plan: ExportPlan,
    written: Sequence[DatasetCounts],
    groups_left_out: Sequence[str],
    seconds: float,
) -> ExportReport:
    convert = export.options.convert
    texts = [f"{text}: {count} episodes" for counts in written for text, count in counts.left_out.items()]
    return ExportReport(
        set=export.selection.label,
        tasks=len({task for counts in written for task in counts.tasks}),
        task_source=export.options.task,
        path=destination,
        seconds=seconds,
        left_out=(*groups_left_out, *texts),
        datasets=tuple(
            {
                "path": folder,
                "episodes": counts.episodes,
                "frames": counts.frames,
                "tasks": len(counts.tasks),
            }
            for folder, counts in zip(plan.folders, written, strict=True)
            if counts.episodes
        ),
        failed=len(export.failures),
        failures=tuple(export.failures.tallies()),
        changed=(*export.changes.to_json(), *(convert.to_json() if convert else ())),
        unknown=convert.unknown if convert else (),
        **_totals(written),
    )


def _totals(written: Sequence[DatasetCounts]) -> dict[str, Any]:
    """The counts of `ExportReport` that are sums over the datasets."""
    names = ("episodes", "frames", "copied_packets", "encoded_frames", "copied_records")
    sources = {name: sum(counts.task_sources[name] for counts in written) for name in task_counter()}
    reencoded = sum((counts.reencoded for counts in written), Counter[str]())
    return {
        **{name: sum(getattr(counts, name) for counts in written) for name in names},
        "task_sources": sources,
        "reencoded": dict(reencoded),
    }


def prefetched(items: Iterator[T], count: int) -> Iterator[T]:
    """Yield the same items, each taken from the iterator `count` items ahead of its use."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting
