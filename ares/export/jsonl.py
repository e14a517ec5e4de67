"""Exports the segments of a set as JSON lines for the fine-tuning of vision-language models.

Each line has a span of an episode with its text, the origin of that, and where its frames are: the pictures stay in the
files of the source, and a line names the file of each camera and the seconds in it. A set of spans has a line for each
of them, with or without a text.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from ares.clock import camera_seconds
from ares.episode import Camera, Episode, Json, Span, Trajectory
from ares.errors import AresError, RequestError
from ares.export.base import (
    NO_TASKS,
    EpisodeTaskText,
    ExportFailures,
    ExportManifest,
    ExportReport,
    ExportRequest,
    find_segment_producers,
    make_export_report,
    open_span_texts,
)
from ares.export.retime import cut_record, describe_part
from ares.export.run import ExportBatch, ExportMember, ExportReader, member_tasks
from ares.export.segments import (
    EpisodeSegments,
    ExportSegment,
    SegmentCounts,
    SegmentReader,
    describe_segment,
)
from ares.export.staging import staging_folder

if TYPE_CHECKING:
    from ares.store import Stores


SEGMENTS_FILE = "segments.jsonl"


def export_jsonl(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write the segments of a set as segments.jsonl, one line each; arguments and errors are those of `Exporter`.

    Spans are on the clock of the source: a rate to write is refused, because no steps are written.
    """
    if request.plan is not None:
        raise RequestError("jsonl has texts of the sources, which need no plan", "leave out --plan")
    if request.trim is not None or request.weights:
        raise RequestError("jsonl has texts of the sources and no steps", "leave out trim and weights")
    if request.signals is not None:
        raise RequestError("jsonl has texts of the sources and no signals", "leave out --signals")
    if request.fps is not None:
        raise RequestError("jsonl has spans of the source and no steps", "leave out --fps")
    start = time.monotonic()
    with (
        staging_folder(request.destination) as folder,
        ExportManifest(folder, reader.stores, request, "jsonl") as manifest,
    ):
        failures = ExportFailures(folder, request.strict, request.least_episodes)
        with (folder / SEGMENTS_FILE).open("w", encoding="utf-8") as file:
            producers = find_segment_producers(reader.stores, request)
            segments = SegmentReader(reader.stores, producers, request.released_states)
            span_texts = open_span_texts(reader.stores, request)
            job = _JsonlExport(request, reader.stores, manifest, file, segments, span_texts)
            for batch in reader.member_batches(failures):
                _write_batch(job, batch, failures)
                progress(len(batch.requested_ids))
        failures.check(request.set.num_members)
        counts = {"episodes": manifest.episodes, "frames": job.steps.total(), "tasks": len(job.tasks)}
        report = make_export_report(
            request,
            failures,
            time.monotonic() - start,
            **counts,
            task_sources=job.task_sources,
            left_out=(*reader.notes.left_out, "signals of every episode"),
            datasets=({"path": ".", **counts},),
            segments=job.counts.to_json(),
        )
        manifest.write(report)
    return report


@dataclass(frozen=True, slots=True)
class _JsonlExport:
    """Arguments common to the functions below, and what they count."""

    request: ExportRequest
    stores: Stores
    manifest: ExportManifest
    file: TextIO
    segments: SegmentReader
    span_texts: SegmentReader | None
    counts: SegmentCounts = field(default_factory=SegmentCounts)
    tasks: set[str] = field(default_factory=set)
    task_sources: Counter[str] = field(default_factory=lambda: Counter(NO_TASKS))
    steps: Counter[str] = field(default_factory=Counter)


def _write_batch(job: _JsonlExport, batch: ExportBatch, failures: ExportFailures) -> None:
    """Write the lines of some episodes; one whose files have changed is added to the failures."""
    annotations = job.stores.annotations.find_annotations(batch.ids)
    job.manifest.maker_ids.update(annotation.maker_id for annotation in annotations)
    texts = job.segments.read(batch.ids, annotations)
    tasks = member_tasks(job.request, batch, job.stores, job.span_texts, annotations)
    for member in batch.members:
        id, (task, withheld) = member.episode.episode_id, tasks[member.name]
        episode_segments, trajectory = texts.get(id, EpisodeSegments()), batch.trajectories[id]
        try:
            if member.span:
                written = _write_span(job, member, trajectory, task, episode_segments)
            else:
                written = _write_episode(job, member.episode, trajectory, task, episode_segments)
        except AresError as error:
            failures.add(member.name, error)
            continue
        job.counts.task_withheld.update([withheld] if withheld else [])
        job.tasks.add(task.text)
        job.task_sources[task.source] += 1
        job.steps[written.dataset] += written.num_steps


def _write_span(
    job: _JsonlExport,
    member: ExportMember,
    trajectory: Trajectory,
    task: EpisodeTaskText,
    episode_segments: EpisodeSegments,
) -> Episode:
    """Write the line of a span, and return it as an episode.

    Raises AresError where it cannot be cut or a file of its episode has changed.
    """
    from ares.media import verify_source

    episode, span = member.episode, member.span
    assert span is not None
    cut = cut_record(episode, trajectory, span)
    part = cut.episode
    for camera in episode.cameras:
        verify_source(camera.media)
    text = span.text if task.source == "segment" else ""
    segments = (
        segment
        for segment in episode_segments.segments
        if text and segment.annotation_id == span.annotation_id
    )
    segment = next(segments, None)
    document: dict[str, Json] = {
        "episode_index": job.manifest.episodes,
        "episode_id": episode.episode_id,
        "dataset": episode.dataset,
        "key": episode.key,
        "task": task.text,
        "task_source": task.source,
        **(describe_segment(segment) if segment else {}),
        **span.to_json(),
        "text": text,
        "frames": [dict(_describe_frames(episode, trajectory, camera, span)) for camera in episode.cameras],
    }
    job.file.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    job.manifest.add(part, ".", job.manifest.episodes, describe_part(span, cut.kept, part.num_steps))
    job.counts.written.update([segment.state] if segment else [])
    return part


def _write_episode(
    job: _JsonlExport,
    episode: Episode,
    trajectory: Trajectory,
    task: EpisodeTaskText,
    episode_segments: EpisodeSegments,
) -> Episode:
    """Write a line for each segment of an episode. Raises SourceError or MediaError when a file of it has changed."""
    from ares.media import verify_source

    lines = []
    if episode_segments.segments:
        for camera in episode.cameras:
            verify_source(camera.media)
    for segment in episode_segments.segments:
        document: dict[str, Json] = {
            "episode_id": episode.episode_id,
            "dataset": episode.dataset,
            "key": episode.key,
            "task": task.text,
            "task_source": task.source,
            **describe_segment(segment),
            "frames": [
                dict(_describe_frames(episode, trajectory, camera, segment))
                for camera in episode.cameras
                if segment.camera in ("", camera.name)
            ],
        }
        lines.append(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    job.file.writelines(lines)
    job.manifest.add(episode, ".", job.manifest.episodes)
    job.counts.add(episode_segments)
    return episode


def _describe_frames(
    episode: Episode, trajectory: Trajectory, camera: Camera, segment: ExportSegment | Span
) -> Mapping[str, Json]:
    """Where the frames of a span are: the file, and the seconds [start, stop) in it.

    A file of another kind than mp4 has no clock: its frames are counted from 0 at `rate_hz`, and `uri`, `key` and
    `byte_offset` say which pictures of the file they are.
    """
    media = camera.media
    edges = [segment.start_seconds, segment.stop_seconds]
    start, stop = camera_seconds(episode, camera, edges, lambda: trajectory.timestamps)
    first = media.start_seconds if media.kind == "mp4" else 0.0
    last = first + media.num_frames / media.rate_hz
    return {
        "camera": camera.name,
        "kind": media.kind,
        "uri": media.uri,
        "key": media.key,
        "byte_offset": media.byte_offset,
        "start_seconds": round(min(first + start, last), 9),
        "stop_seconds": round(min(first + stop, last), 9),
        "rate_hz": media.rate_hz,
        "width": camera.width,
        "height": camera.height,
    }
