"""Reads, checks and encodes records in a reader process, and copies their cameras."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ares.annotation import OUTCOME_COLUMNS, Annotation, Column, Producer
from ares.checks import (
    QualityFinding,
    check_record,
    describe_incomplete,
    find_check_code,
    finding_reason,
    missing_cameras,
)
from ares.clock import compute_measured_clock_fields
from ares.episode import INTERVENTION_SHARE, MISSING_CAMERAS, Camera, Episode, Json, NotRead, Record
from ares.errors import AresError, SourceError, StoreError
from ares.input import input_budgets, limited_memory
from ares.io import describe_os_error, is_url
from ares.jobs import COMPLETE, MediaMode, WorkerLimits, WorkerPool, utc_now
from ares.media import has_file_changed, make_file_stamp_fields
from ares.process_tuning import hide_pandas_from_pyarrow, tune_garbage_collector
from ares.registry import ingesters, plugin_fault
from ares.store import (
    EpisodeTableRows,
    annotation_to_row,
    arrow_type,
    records_to_table_rows,
)
from ares_ingest.base import Item
from ares_ingest.files import add_unread
from ares_ingest.interventions import add_interventions
from ares_ingest.mapping import add_signal_types
from ares_ingest.outcomes import read_outcome
from ares_ingest.pipeline.source_segments import AnnotationTexts, EncodedSegments, encode_source_segments
from ares_ingest.pipeline.unread import account_for_unread
from ares_ingest.subtask_flags import add_flagged_subtasks

if TYPE_CHECKING:
    import pyarrow as pa


NOT_FINITE = "NaN or infinity in metadata is stored as null"
CHANGED_WHILE_READ = "a file changed while it was read"


def replace_non_finite_metadata(metadata: Mapping[str, Json]) -> Mapping[str, Json]:
    """The metadata with null in place of NaN and infinity; the same object where it has neither."""
    finite = {name: _finite_value(value) for name, value in metadata.items()}
    return finite if _any_value_replaced(finite.values(), metadata.values()) else metadata


def _finite_value(value: Json) -> Json:
    """The value with null in place of NaN and infinity; the same object where it has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return replace_non_finite_metadata(value)
    if isinstance(value, list):
        finite = [_finite_value(part) for part in value]
        return finite if _any_value_replaced(finite, value) else value
    return value


def _any_value_replaced(finite: Collection[Json], values: Collection[Json]) -> bool:
    return any(new is not old for new, old in zip(finite, values, strict=True))


def add_media_copying(item: Item, media: MediaMode, workspace: Path) -> Item:
    """The item; with media "copy", loading it also copies its cameras; with "none", it leaves them out."""
    if media == "reference":
        return item
    return item.with_change(drop_cameras if media == "none" else partial(copy_cameras, workspace=workspace))


class KnownRecord(NamedTuple):
    """A record that is stored already: the hash of its content, and what it lacked, in words."""

    content_hash: str
    incomplete: str


def load_again(load: Callable[[], Record], known: KnownRecord | None) -> Record | RecordIdentity:
    """Read a record whose episode is stored: what is said of it takes the place of what was.

    Args:
        load: Reads it.
        known: The record that would change nothing: of that only the identity is returned.

    Raises:
        SourceError: It cannot be read.
    """
    record = load()
    episode = record.episode
    if KnownRecord(episode.content_hash, "; ".join(describe_incomplete(episode))) == known:
        return RecordIdentity(episode.content_hash, episode.source)
    return replace(record, revision=time.time_ns())


class YoungFileError(SourceError):
    """A record of which a file was written just now: it has not failed, and the next run reads it."""


def wait_for_files(item: Item, settle_seconds: float) -> Item:
    """The item, left for the next run while one of its files is younger than some seconds."""
    if not settle_seconds:
        return item
    # A location is a file, and behind a comma or a colon which record of it.
    paths = (*item.videos.values(), item.location, re.split(r"[,:] ", item.location)[0])
    return replace(item, load=partial(load_settled, item.load, paths, settle_seconds))


def load_settled(load: Callable[[], Record], paths: Sequence[str], settle_seconds: float) -> Record:
    """Read a record of which no file was written within some seconds. Raises SourceError."""
    _refuse_young_files(paths, settle_seconds)
    record = load()
    episode = record.episode
    _refuse_young_files([episode.source, *(camera.media.uri for camera in episode.cameras)], settle_seconds)
    return record


def _refuse_young_files(paths: Sequence[str], settle_seconds: float) -> None:
    for path in paths:
        try:
            age = time.time() - os.stat(path).st_mtime  # noqa: PTH116 - called for thousands of files
        except (OSError, ValueError):
            continue
        # A file of tomorrow is no reason to wait: the clock of its server is another.
        if 0 <= age < settle_seconds:
            raise YoungFileError("written just now, left for the next run", f"{path}: {age:.0f} s ago")


def drop_cameras(record: Record) -> Record:
    """The record as one of states alone."""
    metadata = {name: value for name, value in record.episode.metadata.items() if name != MISSING_CAMERAS}
    return replace(record, episode=replace(record.episode, cameras=(), metadata=metadata))


def copy_cameras(record: Record, workspace: Path) -> Record:
    """The record, whose cameras are copied into the workspace.

    Raises:
        MediaError: One of its cameras cannot be copied.
        StoreError: The workspace is not on this machine, or its disk is full (DiskFull).
    """
    from ares.media import copy_camera_media

    if not (workspace / "workspace.json").is_file():
        raise StoreError(
            "the workspace folder is not on the machine that reads",
            f"{workspace}: every worker needs it under this path",
        )
    cameras = copy_camera_media(workspace, record.episode.episode_id, record.episode.cameras)
    return replace(record, episode=replace(record.episode, cameras=cameras))


def count_copied_bytes(cameras: Sequence[Camera]) -> int:
    """Bytes of the cameras that are copies: until they are stored, their uri is relative."""
    refs = (camera.media for camera in cameras)
    return sum(ref.byte_size for ref in refs if not ref.uri.startswith("/") and "://" not in ref.uri)


_STATED_COLUMNS = (
    *OUTCOME_COLUMNS,
    Column(
        name=INTERVENTION_SHARE, type="float64", meaning="share of the steps at which a person intervened"
    ),
)
CHECKER = Producer(
    annotator="quality",
    version="3",
    columns=(
        Column(name="quality_findings", type="int64", meaning="suspicious things found when it was ingested"),
        Column(
            name="quality_codes",
            type="list<string>",
            meaning="codes of the checks that found something when it was ingested, see docs/check.md",
        ),
        Column(
            name=COMPLETE,
            type="bool",
            meaning="whether all that its source promises could be read; empty where an earlier version read it",
        ),
        *_STATED_COLUMNS,
    ),
)

_CHECKER_ID = CHECKER.maker_id


def quality_codes(findings: tuple[QualityFinding, ...]) -> list[str]:
    """Code and name of every check that has a finding, in the order of the codes: "A001 not-finite"."""
    return [f"{code} {find_check_code(code).name}" for code in sorted({finding.code for finding in findings})]


def _stated_values(episode: Episode) -> dict[str, Json]:
    """What the source says of the end of an episode and of interventions, by column."""
    stated = (*read_outcome(episode), episode.metadata.get(INTERVENTION_SHARE))
    return dict(zip((column.name for column in _STATED_COLUMNS), stated, strict=True))


def make_findings_annotation(
    episode: Episode, findings: tuple[QualityFinding, ...], created: str, revision: int = 0
) -> Annotation:
    """The annotation that records the findings about an episode.

    Args:
        episode: The episode that was checked.
        findings: The findings; may be empty.
        created: When, as ISO 8601 in UTC.
        revision: As that of its record.
    """
    documents: list[Json] = [{"reason": finding_reason(finding), **finding.to_json()} for finding in findings]
    codes: list[Json] = list(quality_codes(findings))
    return Annotation(
        episode_id=episode.episode_id,
        name=CHECKER.annotator,
        value={
            "findings": documents,
            "quality_findings": len(findings),
            "quality_codes": codes,
            COMPLETE: not describe_incomplete(episode),
            **{name: part for name, part in _stated_values(episode).items() if part is not None},
        },
        revision=revision,
        maker_id=_CHECKER_ID,
        subject=episode.episode_id,
        start_seconds=0.0,
        stop_seconds=episode.duration_seconds,
        created=created,
    )


class RecordIdentity(NamedTuple):
    """What tells whether a record is the stored episode of the same id.

    Attributes:
        content_hash: Hash of the record.
        source: The file that holds it.
        source_stamp: Stamp of that file, see `ares.media.fingerprint`; "" when not known.
        earlier_hash: Hash that earlier versions of ARES stored for the record, or "".
    """

    content_hash: str
    source: str
    source_stamp: str = ""
    earlier_hash: str = ""

    def has_hash(self, stored_hash: str) -> bool:
        """Whether a stored hash is the one of the record, by this or an earlier version of ARES."""
        return stored_hash == self.content_hash or bool(stored_hash and stored_hash == self.earlier_hash)


class FirstRecordSummary(NamedTuple):
    """What a plan shows of the first record of a dataset.

    Attributes:
        rate_hz: Its recording rate.
        cameras: Names of its cameras.
        missing: Names of cameras that its source names and of which it has no pictures.
        unread: What its source holds beside it and was not read, and what it lacks for that.
    """

    rate_hz: float
    cameras: tuple[str, ...]
    missing: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CheckedBatch:
    """Records that were read and checked together, encoded as rows.

    Attributes:
        rows: Rows of episodes, with the columns of the checks, and of signals.
        annotations: Findings of the checks, one row of the annotation log for each record.
        segments: What the source says of spans, rows of the annotation log; those of one record stand together.
        warnings: By reason: how many of the records it holds for, and the row of the first.
        incomplete: By row, what the source of a record promises and could not be read.
        copied_bytes: Size of the copies of their cameras.
        nbytes: Size of `rows` and `segments` in memory; counted by the reader, since counting takes Arrow long.
    """

    rows: EpisodeTableRows
    annotations: tuple[AnnotationTexts, ...]
    warnings: Mapping[str, tuple[int, int]]
    copied_bytes: int
    nbytes: int
    segments: tuple[AnnotationTexts, ...] = ()
    incomplete: Mapping[int, str] = field(default_factory=dict)


LoadFunction = Callable[[], Record | RecordIdentity]
ReadResult = CheckedBatch | RecordIdentity | AresError
# Run `read_records`; made by `ares_ingest.pipeline.run`.
Readers = WorkerPool[LoadFunction, CheckedBatch | RecordIdentity]


def make_record_limits(factor: float = 1.0) -> WorkerLimits:
    """What one batch of records may cost in a reader process; `factor` times as long as a record is given."""
    budgets = input_budgets()
    return WorkerLimits(budgets.record_seconds * factor, budgets.memory_bytes)


def start_record_reader() -> Callable[[Sequence[LoadFunction]], list[ReadResult]]:
    """Set up a process that only reads records; returns `read_records`."""
    hide_pandas_from_pyarrow()
    tune_garbage_collector()
    return read_records


def read_records(loads: Sequence[LoadFunction]) -> list[ReadResult]:
    """Read, check and encode records.

    Returns:
        For each, in order: the one batch that holds them all, its identity where only that was to be read, or its
        error. The rows of the batch are in the order of the records.
    """
    with limited_memory():  # entered once: the limit of each record then costs nothing
        loaded = [_load_finished_record(load) for load in loads]
    records = [record for record in loaded if isinstance(record, Record)]
    encoded = iter(_encode_all(records))
    return [next(encoded) if isinstance(result, Record) else result for result in loaded]


def summarise_records(loads: Sequence[Callable[[], Record]]) -> list[FirstRecordSummary | AresError]:
    """Read records and return what a plan shows of them, or their errors."""
    return [_summarise_record(load) for load in loads]


def _summarise_record(load: Callable[[], Record]) -> FirstRecordSummary | AresError:
    try:
        record = account_for_unread(load())
    except AresError as error:
        return error
    episode = record.episode
    cameras = tuple(camera.name for camera in episode.cameras)
    unread = tuple(warning for warning in record.warnings if isinstance(warning, NotRead))
    return FirstRecordSummary(episode.rate_hz, cameras, missing_cameras(episode), unread)


def _load_finished_record(load: LoadFunction) -> Record | RecordIdentity | AresError:
    loaded: Record | RecordIdentity | None = None
    try:
        loaded = load()
        return loaded if isinstance(loaded, RecordIdentity) else _finish_record(loaded)
    except AresError as error:
        return error
    except OSError as error:  # a disk or a server that fails costs only the records that were read from it
        return SourceError("file cannot be read", f"{error.filename or ''}: {describe_os_error(error)}")
    except Exception as error:
        return plugin_fault(_record_label(loaded), error)


def _finish_record(record: Record) -> Record:
    """The record with its clock settled, its files stamped and its metadata finite; the episode is copied once."""
    record = add_signal_types(account_for_unread(record))
    fields, warnings = compute_measured_clock_fields(record)
    episode = record.episode
    metadata = replace_non_finite_metadata(episode.metadata)
    if metadata is not episode.metadata:
        fields, warnings = {**fields, "metadata": metadata}, (*warnings, NOT_FINITE)
    fields |= make_file_stamp_fields(episode.source, fields.get("cameras", episode.cameras))
    finished = Record(
        episode=replace(episode, **fields),
        trajectory=record.trajectory,
        warnings=(*record.warnings, *warnings),
        segments=record.segments,
        revision=record.revision,
    )
    return add_flagged_subtasks(add_interventions(finished))


def _record_label(record: object) -> str:
    format_name = getattr(getattr(record, "episode", None), "format", "")
    return (
        f"the record of {ingesters.label(str(format_name))}" if format_name else "the record of an ingester"
    )


def _encode_all(records: Sequence[Record]) -> list[CheckedBatch | AresError]:
    """The batch that holds all records, once for each; record by record where one of them cannot be encoded."""
    if not records:
        return []
    try:
        return [_encode_checked_batch(records)] * len(records)
    except Exception as error:
        if len(records) == 1:
            return [plugin_fault(_record_label(records[0]), error)]
    return [result for record in records for result in _encode_all([record])]


def _encode_checked_batch(records: Sequence[Record]) -> CheckedBatch:
    records = [_note_change(record) for record in records]
    findings = [check_record(record.episode, record.trajectory) for record in records]
    created = utc_now()
    rows = records_to_table_rows(records)
    reasons = ["; ".join(describe_incomplete(record.episode)) for record in records]
    episodes = _append_findings(rows.episodes, findings, reasons)
    rows = replace(rows, episodes=_append_stated(episodes, [record.episode for record in records]))
    encoded = [
        encode_source_segments(record, created) if record.segments else EncodedSegments()
        for record in records
    ]
    segments = tuple(row for part in encoded for row in part.rows)
    return CheckedBatch(
        rows=rows,
        annotations=tuple(
            _encode_findings(record, record_findings, created)
            for record, record_findings in zip(records, findings, strict=True)
        ),
        warnings=_count_warnings(records, findings, encoded),
        copied_bytes=sum(count_copied_bytes(record.episode.cameras) for record in records),
        nbytes=rows.nbytes + sum(len(row[-1]) for row in segments),
        segments=segments,
        incomplete={row: reason for row, reason in enumerate(reasons) if reason},
    )


def _note_change(record: Record) -> Record:
    """The record, with a remark where one of its files is not any more as it was when it was read."""
    episode = record.episode
    stamps = [(episode.source, episode.source_stamp)]
    stamps += [(camera.media.uri, camera.media.stamp) for camera in episode.cameras]
    if not any(has_file_changed(uri, stamp) for uri, stamp in dict.fromkeys(stamps) if not is_url(uri)):
        return record
    return replace(
        record, episode=replace(episode, metadata=add_unread(episode.metadata, [CHANGED_WHILE_READ]))
    )


def _encode_findings(record: Record, findings: tuple[QualityFinding, ...], created: str) -> AnnotationTexts:
    annotation = make_findings_annotation(record.episode, findings, created, record.revision)
    return tuple(annotation_to_row(annotation))


def _append_findings(
    rows: pa.RecordBatch, findings: Sequence[tuple[QualityFinding, ...]], incomplete: Sequence[str]
) -> pa.RecordBatch:
    import pyarrow as pa

    count, codes, complete = CHECKER.columns[:3]
    rows = rows.append_column(count.name, pa.array(list(map(len, findings)), pa.int64()))
    listed = pa.array([quality_codes(part) for part in findings], pa.list_(pa.string()))
    rows = rows.append_column(codes.name, listed)
    return rows.append_column(complete.name, pa.array([not reason for reason in incomplete], pa.bool_()))


def _append_stated(rows: pa.RecordBatch, episodes: Sequence[Episode]) -> pa.RecordBatch:
    import pyarrow as pa

    values = [_stated_values(episode) for episode in episodes]
    for column in _STATED_COLUMNS:
        array = pa.array([value[column.name] for value in values], arrow_type(column.type))
        rows = rows.append_column(column.name, array)
    return rows


def _count_warnings(
    records: Sequence[Record],
    findings: Sequence[Sequence[QualityFinding]],
    segments: Sequence[EncodedSegments],
) -> dict[str, tuple[int, int]]:
    warnings: dict[str, tuple[int, int]] = {}
    for row, (record, record_findings, encoded) in enumerate(zip(records, findings, segments, strict=True)):
        for reason in {*record.warnings, *encoded.warnings, *map(finding_reason, record_findings)}:
            count, first_row = warnings.get(reason, (0, row))
            warnings[reason] = (count + 1, first_row)
    return warnings
