"""Exports a set by a function that writes one member of it; what failed and what was written is counted here."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ares.episode import Episode, Json, Trajectory
from ares.errors import AresError, RequestError, StoreError, is_disk_full
from ares.export.base import (
    NO_TASKS,
    PLAN_FILE,
    ExportFailures,
    ExportManifest,
    ExportReport,
    ExportRequest,
    make_export_report,
    open_span_texts,
)
from ares.export.retime import ClockChanges, describe_part, written_record
from ares.export.run import ExportBatch, ExportMember, ExportReader, MemberTask, member_tasks
from ares.export.staging import staging_folder
from ares.imitation import find_needs
from ares.registry import exporters, plugin_fault


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExportedMember:
    """An episode of a set, or a span as a separate episode, as it is to be written.

    Attributes:
        number: Its number in the export, from 0 on.
        name: A name for its files, which no other member has.
        task: The text to train with.
        episode: What is known of it; its steps and rate are those that are written.
        trajectory: Its signals, converted, and at the rate of the export.
    """

    number: int
    name: str
    task: str
    episode: Episode
    trajectory: Trajectory


WriteMember = Callable[[Path, ExportedMember], None]


def export_members(
    request: ExportRequest,
    reader: ExportReader,
    progress: Callable[[int], None],
    write: WriteMember,
    *,
    left_out: Sequence[str] = (),
) -> ExportReport:
    """Write a set member by member; the other arguments, and the errors, are those of `Exporter`.

    Spans, rates, conversions, merges and trims are done before `write`; the manifest, the report and the folder that
    is complete or not there at all are made around it. A member that `write` raises an exception for is left out.

    Args:
        request: As the exporter got it.
        reader: As the exporter got it.
        progress: As the exporter got it.
        write: Writes the files of one member into the folder of the export. It may leave files of a member that it
            raises for: name them by `ExportedMember.name`, and they are removed.
        left_out: What of the episodes the format does not hold, for the report: "cameras".
    """
    started = time.monotonic()
    if request.weights:
        raise RequestError(f"{request.format} writes no weights of steps", "leave out weights")
    with (
        staging_folder(request.destination) as folder,
        ExportManifest(folder, reader.stores, request, request.format) as manifest,
    ):
        job = _MemberExport(request, reader, manifest, folder, write)
        for batch in reader.member_batches(job.failures):
            job.write_batch(batch)
            progress(len(batch.requested_ids))
        job.failures.check(job.num_members)
        if request.plan is not None:
            request.plan.write(folder / PLAN_FILE)
        report = job.make_report(time.monotonic() - started, left_out)
        manifest.write(report)
    return report


class _MemberExport:
    """What is common to the members of one export, and what was written of them."""

    def __init__(
        self,
        request: ExportRequest,
        reader: ExportReader,
        manifest: ExportManifest,
        folder: Path,
        write: WriteMember,
    ) -> None:
        self._request, self._reader, self._manifest = request, reader, manifest
        self._folder, self._write = folder, write
        self._span_texts = open_span_texts(reader.stores, request)
        self._changes = ClockChanges(request.clock)
        self.failures = ExportFailures(folder, request.strict, request.least_episodes)
        self.num_members = self._frames = 0
        self._tasks: set[str] = set()
        self._task_sources: Counter[str] = Counter(NO_TASKS)

    def write_batch(self, batch: ExportBatch) -> None:
        """Write some members; those that cannot be written are added to the failures."""
        stores = self._reader.stores
        annotations = list(stores.annotations.find_annotations(batch.ids))
        tasks = member_tasks(self._request, batch, stores, self._span_texts, annotations)
        self._manifest.maker_ids.update(annotation.maker_id for annotation in annotations)
        self.num_members += len(batch.requested_ids)
        for member in batch.members:
            try:
                self._write_member(member, batch, tasks[member.name])
            except StoreError:
                raise
            except AresError as error:
                self.failures.add(member.name, error)

    def _write_member(self, member: ExportMember, batch: ExportBatch, task: MemberTask) -> None:
        """Write a member. Raises AresError where it cannot be cut, retimed or written."""
        number, id = self._manifest.episodes, member.episode.episode_id
        stored, clock = batch.trajectories[id], self._request.clock
        episode, trajectory, kept = written_record(member.episode, stored, member.span, clock, self._changes)
        name = id if member.span is None else f"{id}-{number:06d}"
        exported = ExportedMember(
            number=number, name=name, task=task.task.text, episode=episode, trajectory=trajectory
        )
        try:
            self._write(self._folder, exported)
        except Exception as error:
            for path in self._folder.glob(f"{name}*"):
                path.unlink()
            if isinstance(error, AresError) or is_disk_full(error):
                raise
            raise plugin_fault(exporters.label(self._request.format), error) from error
        steps = len(trajectory.timestamps)
        part = describe_part(member.span, kept, steps) if member.span else None
        self._manifest.add(episode, ".", number, part)
        self.failures.needs.add(find_needs(episode, trajectory, task.task.text))
        self._reader.conversion.count(batch.reasons.get(id, ()))
        self._frames += steps
        self._tasks.add(task.task.text)
        self._task_sources[task.task.source] += 1

    def make_report(self, seconds: float, left_out: Sequence[str]) -> ExportReport:
        """The report of what was written."""
        conversion, notes = self._reader.conversion, self._reader.notes
        counts = {"episodes": self._manifest.episodes, "frames": self._frames, "tasks": len(self._tasks)}
        dataset: dict[str, Json] = {"path": ".", **counts}
        return make_export_report(
            self._request,
            self.failures,
            seconds,
            **counts,
            task_sources=self._task_sources,
            left_out=(*conversion.left_out, *notes.left_out, *left_out),
            datasets=(dataset,),
            changed=(*notes.changed, *self._changes.to_json(), *conversion.to_json()),
            unknown=(*conversion.unknown, *notes.unknown),
        )
