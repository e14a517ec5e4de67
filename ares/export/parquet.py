"""Export of a set as Parquet files of episodes, steps, segments and annotations, for analysis without ARES."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, canonical_json
from ares.episode import Episode, Signal, Span, Trajectory
from ares.errors import AresError
from ares.export.base import (
    NO_TASKS,
    PLAN_FILE,
    SAMPLE_WEIGHT,
    TASK_COLUMNS,
    EpisodeTaskText,
    ExportFailures,
    ExportManifest,
    ExportReport,
    ExportRequest,
    annotator_columns,
    list_episode_columns,
    make_export_report,
    open_span_texts,
    read_rows,
)
from ares.export.retime import ClockChanges, describe_part, written_record
from ares.export.run import ExportBatch, ExportReader, MemberTask, member_tasks
from ares.export.segments import SegmentCounts, SegmentReader, read_segments, segments_schema
from ares.export.staging import staging_folder
from ares.imitation import find_needs

if TYPE_CHECKING:
    import pyarrow as pa


# Column of episodes.parquet with the task; a column of an annotator with this name is left out.
_TASK_COLUMN = "task"
_COST_COLUMNS = ("calls", "tokens_in", "tokens_out", "usd")
# Columns of a span in episodes.parquet; the first is in steps.parquet too.
_SPAN_COLUMNS = ("episode_index", "start_seconds", "stop_seconds", "annotation_id", "text")
# Columns that are of the whole episode.
_OUTCOME_COLUMNS = ("success", "success_source", "content_hash", "duplicate_of")
# Columns that another clock changes, and those that another order of dimensions does.
_CLOCK_FIELDS = ("num_steps", "rate_hz", "duration_seconds", "clock_shift_seconds")
_NAME_FIELDS = ("state_names", "action_names")
# Behind all others, in whose order readers may trust.
_SUBJECT_COLUMNS = ("subject_kind", "part", "ordinal", "revision")
_ANNOTATION_COLUMNS = (
    "annotation_id",
    "episode_id",
    "name",
    "subject",
    "start_seconds",
    "stop_seconds",
    "camera",
    "maker_id",
    "created",
)


def export_parquet(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write a set as episodes.parquet, steps.parquet, segments.parquet and annotations.parquet.

    Pixels are not copied: the column `cameras` of episodes.parquet refers to the source files. Its column `task` is the
    text to train with. segments.parquet has the segments that are shown, annotations.parquet every annotation. Without
    a rate all steps are written at their stamps. Arguments and errors are those of `Exporter`.
    """
    start = time.monotonic()
    with (
        staging_folder(request.destination) as folder,
        ExportManifest(folder, reader.stores, request, "parquet") as manifest,
    ):
        failures, written, num_members = (
            ExportFailures(folder, request.strict, request.least_episodes),
            _ParquetCounts(),
            0,
        )
        with ExitStack() as stack:
            files = _ParquetFiles(stack, folder, reader, bool(request.weights))
            changes, span_texts = ClockChanges(request.clock), open_span_texts(reader.stores, request)
            job = _ParquetExport(request, reader, manifest, files, written, changes, span_texts)
            for batch in reader.member_batches(failures):
                _write_batch(job, batch, failures)
                num_members += len(batch.requested_ids)
                progress(len(batch.requested_ids))
        failures.check(num_members)
        report = _make_export_report(job, failures, time.monotonic() - start)
        if request.plan is not None:
            request.plan.write(folder / PLAN_FILE)
        if reader.weights is not None:
            reader.weights.write(folder)
        manifest.write(report)
    return report


def _make_export_report(job: _ParquetExport, failures: ExportFailures, seconds: float) -> ExportReport:
    written, conversion, notes = job.written, job.reader.conversion, job.reader.notes
    counts: dict[str, Any] = {
        "episodes": job.manifest.episodes,
        "frames": written.frames,
        "tasks": len(written.tasks),
    }
    return make_export_report(
        job.request,
        failures,
        seconds,
        **counts,
        task_sources=written.task_sources,
        left_out=(
            *conversion.left_out,
            *notes.left_out,
            *job.files.left_out,
        ),
        datasets=({"path": ".", **counts},),
        segments=written.segments.to_json(),
        changed=(*notes.changed, *job.changes.to_json(), *conversion.to_json()),
        unknown=(*conversion.unknown, *notes.unknown),
    )


@dataclass(slots=True)
class _ParquetCounts:
    """Counts of what was written.

    Attributes:
        frames: Steps.
        tasks: Task texts.
        task_sources: Where they come from.
        segments: Spans whose text is not their task.
        last_id: The last episode that was written, or of which a span was.
    """

    frames: int = 0
    tasks: set[str] = field(default_factory=set)
    task_sources: Counter[str] = field(default_factory=lambda: Counter(NO_TASKS))
    segments: SegmentCounts = field(default_factory=SegmentCounts)
    last_id: str = ""


class _ParquetFiles:
    """Writers of the four files, closed with the stack."""

    def __init__(self, stack: ExitStack, root: Path, reader: ExportReader, has_weights: bool) -> None:
        import pyarrow as pa

        stores, are_spans = reader.stores, reader.are_spans
        columns, reserved = (
            list_episode_columns(stores),
            (_TASK_COLUMN, *(_SPAN_COLUMNS if are_spans else ())),
        )
        self.columns = [name for name in columns if name not in reserved]
        self.left_out = [f"column {name} of an annotator" for name in columns if name in reserved]
        schema = stores.tables.episodes.schema(self.columns).append(pa.field(_TASK_COLUMN, pa.string()))
        steps = steps_schema()
        if has_weights:
            steps = steps.append(pa.field(SAMPLE_WEIGHT, pa.float32()))
        if are_spans:
            schema = pa.schema([*schema, *_span_schema()])
            steps = steps.append(_span_schema().field(0))
        self.episodes = _open_writer(stack, root / "episodes.parquet", schema)
        self.steps = _open_writer(stack, root / "steps.parquet", steps)
        self.segment_schema = segments_schema(stores)
        self.segments = _open_writer(stack, root / "segments.parquet", self.segment_schema)
        self.annotations = _open_writer(stack, root / "annotations.parquet", annotations_schema())


@dataclass(frozen=True, slots=True)
class _ParquetExport:
    """Arguments common to the functions below."""

    request: ExportRequest
    reader: ExportReader
    manifest: ExportManifest
    files: _ParquetFiles
    written: _ParquetCounts
    changes: ClockChanges
    span_texts: SegmentReader | None


def _span_schema() -> pa.Schema:
    """The columns that episodes.parquet has of a span."""
    import pyarrow as pa

    types = (pa.int64(), pa.float64(), pa.float64(), pa.string(), pa.string())
    return pa.schema(list(zip(_SPAN_COLUMNS, types, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class _WrittenPart:
    """A member as it is written: an episode, or the steps of a span as one.

    Attributes:
        span: The span; None for a whole episode.
        episode: The episode, or the part of it.
        trajectory: Its signals.
        kept: The stored steps that they are of.
        lacks_values: Whether it is a part, of which nothing is known that is said of the whole.
        task: Its task.
        withheld: Why the text of the span is not the task, or "".
    """

    span: Span | None
    episode: Episode
    trajectory: Trajectory
    kept: range
    lacks_values: bool
    task: EpisodeTaskText
    withheld: str


def _write_batch(job: _ParquetExport, batch: ExportBatch, failures: ExportFailures) -> None:
    """Write the members of a batch; of spans what is said of whole episodes is written once for each episode."""
    stores = job.reader.stores
    annotations = stores.annotations.find_annotations(batch.ids)
    rows = read_rows(stores, job.files.columns, batch.ids)
    of_tasks = rows.select([name for name in ("episode_id", *TASK_COLUMNS) if name in rows.column_names])
    tasks = member_tasks(job.request, batch, stores, job.span_texts, annotations, of_tasks.to_pylist())
    parts = list(_written_parts(job, batch, failures, tasks))
    if not parts:
        return
    _write_rows(job, batch, parts, rows)
    # Spans are sorted by episode, of which the first may have been in the batch before.
    new_ids = [
        id for id in dict.fromkeys(part.episode.episode_id for part in parts) if id != job.written.last_id
    ]
    job.written.last_id = parts[-1].episode.episode_id
    job.files.segments.write_table(_segment_table(job, batch, new_ids))
    of_new = [annotation for annotation in annotations if annotation.episode_id in set(new_ids)]
    job.files.annotations.write_table(_annotation_table(of_new))
    job.manifest.maker_ids.update(annotation.maker_id for annotation in of_new)


def _segment_table(job: _ParquetExport, batch: ExportBatch, ids: Sequence[str]) -> pa.Table:
    """The shown segments of some episodes of a batch; cameras have their names in a merged dataset."""
    rows = read_segments(job.reader.stores, job.files.segment_schema, ids)
    if job.request.plan is None:
        return rows
    import pyarrow as pa

    names = job.request.plan.camera_names
    by_id = {
        episode.episode_id: names.get((episode.format, episode.dataset, episode.version), {})
        for episode in batch.episodes
    }
    pairs = zip(rows["episode_id"].to_pylist(), rows["camera"].to_pylist(), strict=True)
    cameras = [by_id.get(id, {}).get(camera, camera) for id, camera in pairs]
    field_, number = rows.schema.field("camera"), rows.schema.get_field_index("camera")
    return rows.set_column(number, field_, pa.array(cameras, field_.type))


def _written_parts(
    job: _ParquetExport,
    batch: ExportBatch,
    failures: ExportFailures,
    tasks: Mapping[str, MemberTask],
) -> Iterator[_WrittenPart]:
    """Yield the members as they are written; those that cannot be cut or retimed are added to the failures."""
    for name, episode, span in batch.members:
        stored = batch.trajectories[episode.episode_id]
        try:
            part, trajectory, kept = written_record(episode, stored, span, job.request.clock, job.changes)
        except AresError as error:
            failures.add(name, error)
            continue
        stands_for_episode = span is None or span.stands_for_episode
        lacks_values = len(kept) < episode.num_steps and not stands_for_episode
        failures.needs.add(find_needs(part, trajectory, tasks[name].task.text))
        named = replace(span, annotation_id="") if span and stands_for_episode else span
        yield _WrittenPart(named, part, trajectory, kept, lacks_values, *tasks[name])


def _write_rows(
    job: _ParquetExport, batch: ExportBatch, parts: Sequence[_WrittenPart], rows: pa.Table
) -> None:
    """Write the rows of members and of their steps; a part has none of the values of annotators."""
    import pyarrow as pa

    positions = {id: position for position, id in enumerate(batch.ids)}
    rows = rows.take(pa.array([positions[part.episode.episode_id] for part in parts]))
    episodes = [part.episode for part in parts]
    rows = _with_fields(rows, episodes, (*_CLOCK_FIELDS, *_NAME_FIELDS))
    lacks_values = [part.lacks_values for part in parts]
    if any(lacks_values):
        for name in {*annotator_columns(job.reader.stores), *_OUTCOME_COLUMNS} & set(rows.column_names):
            rows = _with_nulls(rows, name, lacks_values)
    rows = rows.append_column(_TASK_COLUMN, pa.array([part.task.text for part in parts], pa.string()))
    steps = [_episode_steps(part.episode, part.trajectory) for part in parts]
    if job.reader.are_spans:
        numbers = range(job.manifest.episodes, job.manifest.episodes + len(parts))
        columns = [numbers, *([getattr(part.span, name) for part in parts] for name in _SPAN_COLUMNS[1:])]
        for field_, values in zip(_span_schema(), columns, strict=True):
            rows = rows.append_column(field_, pa.array(values, field_.type))
        steps = [
            table.append_column("episode_index", pa.array([number] * table.num_rows, pa.int64()))
            for number, table in zip(numbers, steps, strict=True)
        ]
    job.files.episodes.write_table(rows)
    job.files.steps.write_table(pa.concat_tables(steps))
    for part in parts:
        steps_written = part.episode.num_steps
        described = describe_part(part.span, part.kept, steps_written) if part.span else None
        job.manifest.add(part.episode, ".", job.manifest.episodes, described)
        job.reader.conversion.count(batch.reasons.get(part.episode.episode_id, ()))
        job.written.segments.task_withheld.update([part.withheld] if part.withheld else [])
        job.written.frames += steps_written
        job.written.tasks.add(part.task.text)
        job.written.task_sources[part.task.source] += 1


def _with_nulls(rows: pa.Table, name: str, is_null: Sequence[bool]) -> pa.Table:
    """The rows without the values of a column where one is set."""
    import pyarrow as pa

    field_ = rows.schema.field(name)
    values = [None if null else value for null, value in zip(is_null, rows[name].to_pylist(), strict=True)]
    return rows.set_column(rows.schema.get_field_index(name), field_, pa.array(values, field_.type))


def _with_fields(rows: pa.Table, episodes: Sequence[Episode], names: Sequence[str]) -> pa.Table:
    """The rows with the values of the episodes as they are written."""
    import pyarrow as pa

    for name in names:
        field = rows.schema.field(name)
        values = pa.array([getattr(episode, name) for episode in episodes], field.type)
        rows = rows.set_column(rows.schema.get_field_index(name), field, values)
    return rows


def _open_writer(stack: ExitStack, path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))


def steps_schema() -> pa.Schema:
    """Schema of steps.parquet: one row per step, with the further signals by name."""
    import pyarrow as pa

    vector = pa.list_(pa.float32())
    fields = [("episode_id", pa.string()), ("step", pa.int64()), ("timestamp", pa.float64())]
    fields += [("state", vector), ("action", vector), ("reward", pa.float32())]
    return pa.schema([*fields, ("signals", pa.map_(pa.string(), vector))])


def _episode_steps(episode: Episode, trajectory: Trajectory) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    count = len(trajectory.timestamps)
    reward = (
        pa.nulls(count, pa.float32()) if trajectory.reward is None else pa.array(trajectory.reward.ravel())
    )
    columns = [
        pa.repeat(pa.scalar(episode.episode_id), count),
        pa.array(np.arange(count)),
        pa.array(trajectory.timestamps),
        _signal_column(trajectory.state, count),
        _signal_column(trajectory.action, count),
        reward,
        _further_signals(trajectory, count),
    ]
    table = pa.Table.from_arrays(columns, schema=steps_schema())
    if weights := trajectory.extra.get(SAMPLE_WEIGHT):
        table = table.append_column(SAMPLE_WEIGHT, pa.array(weights.values.ravel(), pa.float32()))
    return table


def _further_signals(trajectory: Trajectory, count: int) -> pa.Array:
    """The further signals of T steps as a column of T maps from name to list."""
    import numpy as np
    import pyarrow as pa

    signals = {name: signal for name, signal in trajectory.extra.items() if name != SAMPLE_WEIGHT}
    values = np.concatenate([np.empty((count, 0), np.float32), *(s.values for s in signals.values())], axis=1)
    widths = [signal.values.shape[1] for signal in signals.values()]
    ends = np.concatenate([[0], np.cumsum(np.tile(widths, count))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(values.reshape(-1)))
    names = pa.array(list(signals) * count, pa.string())
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * len(signals))
    return pa.MapArray.from_arrays(offsets, names, lists)


def _signal_column(signal: Signal | None, count: int) -> pa.Array:
    """A (T, D) signal as a column of T lists; null in every row without a signal."""
    import numpy as np
    import pyarrow as pa

    if signal is None:
        return pa.nulls(count, pa.list_(pa.float32()))
    offsets = np.arange(count + 1, dtype=np.int32) * signal.values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(signal.values.reshape(-1)))


def annotations_schema() -> pa.Schema:
    """Schema of annotations.parquet: one row per annotation, its value as JSON text."""
    import pyarrow as pa

    column_types = dict.fromkeys(_ANNOTATION_COLUMNS, pa.string())
    column_types |= {"start_seconds": pa.float64(), "stop_seconds": pa.float64()}
    column_types |= {"value": pa.string(), "frames": pa.list_(pa.float64())}
    column_types |= dict.fromkeys(_COST_COLUMNS, pa.int64()) | {"usd": pa.float64()}
    column_types |= dict.fromkeys(_SUBJECT_COLUMNS, pa.string())
    column_types |= {"ordinal": pa.int64(), "revision": pa.int64()}
    return pa.schema(list(column_types.items()))


def _annotation_table(annotations: Sequence[Annotation]) -> pa.Table:
    import pyarrow as pa

    rows = [
        {name: getattr(annotation, name) for name in (*_ANNOTATION_COLUMNS, *_SUBJECT_COLUMNS)}
        | {"value": canonical_json(dict(annotation.value)), "frames": list(annotation.frames)}
        | {name: getattr(annotation.cost, name) for name in _COST_COLUMNS}
        for annotation in annotations
    ]
    return pa.Table.from_pylist(rows, schema=annotations_schema())
