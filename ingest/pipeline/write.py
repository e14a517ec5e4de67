"""Writes records, and the findings of their checks, in few batches while others are read."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ares.annotation import SOURCE_PREFIX, Annotation
from ares.checks import check_record
from ares.episode import Record
from ares.errors import AresError, DiskFull, SourceError
from ares.jobs import INCOMPLETE_WORK, FailureLog, Report, location_subject, utc_now
from ares.store import (
    AnnotationRow,
    annotation_from_row,
    annotation_to_row,
    applied_sequence,
    arrow_type,
    batched,
    keep_newest_annotations,
    outdate_annotations,
    skip_applied,
)
from ares_ingest.base import Item
from ares_ingest.pipeline.plan import IdentityConflict, ItemAction, ItemOutcome, read_stored_identities
from ares_ingest.pipeline.read import CHECKER, CheckedBatch, YoungFileError, make_findings_annotation
from ares_ingest.pipeline.source_segments import (
    ROWS_PER_APPEND,
    AnnotationTexts,
    find_changed_segments,
    list_source_annotators,
    make_source_producer,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import EpisodeTableRows, Stores


_BATCH_SIZE = 1_000
# The tables are written once per this much: writes are few and large, yet a killed run loses little.
_BYTES_PER_WRITE = 64 * 2**20
_EPISODES_PER_WRITE = 20_000
_SECONDS_PER_WRITE = 30.0
# Episodes by which the meaning of the signals is inferred.
_SAMPLED_EPISODES = 16


class CheckAnnotationLog:
    """Appends the annotations of the checks, and the segments of the source, to the log.

    The episode rows hold the values of the checks already. Unless segments come, or another process appends meanwhile,
    the tables are marked as in step with the log, so that the next synchronisation does not apply them again.

    Args:
        stores: Where to; the tables are in step with the log, and the caller holds the write lock.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        stores.annotations.add_producer(CHECKER)
        stores.tables.episodes.add_missing_columns(check_columns())
        self._first_sequence = applied_sequence(stores.tables)
        self._last_sequence = self._first_sequence
        self._is_only_writer = stores.annotations.last_sequence() == self._first_sequence

    def append(self, rows: Sequence[AnnotationTexts]) -> None:
        """Append one annotation for each episode, after the episode's row is written. Raises StoreError."""
        last = self._stores.annotations.append([AnnotationRow._make(row) for row in rows])
        # Annotations that another process appends meanwhile leave a gap between the sequence numbers.
        self._is_only_writer = self._is_only_writer and last - self._last_sequence == len(rows)
        self._last_sequence = last

    def append_segments(self, rows: Sequence[AnnotationRow]) -> None:
        """Append segments, before the rows of their episodes are written; the log ignores known ones.

        A run that is killed in between leaves segments without an episode, which the next run reads again. The next
        synchronisation applies them.

        Raises:
            StoreError: The log cannot be written.
        """
        for annotator in list_source_annotators(rows):
            self._stores.annotations.add_producer(make_source_producer(annotator))
        for part in batched(rows, ROWS_PER_APPEND):
            self._last_sequence = self._stores.annotations.append(part)
            self._is_only_writer = False

    def expect_others(self) -> None:
        """Other annotations came in between: the next synchronisation applies them with these."""
        self._is_only_writer = False

    def close(self) -> None:
        """Mark the tables as in step with the log, where they are. Raises StoreError."""
        if self._is_only_writer:
            skip_applied(self._stores.tables, self._first_sequence, self._last_sequence, CHECKER.maker_id)


def check_columns() -> pa.Schema:
    """Columns of the episodes table that the checks fill."""
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in CHECKER.columns])


def check_unchecked_episodes(stores: Stores) -> int:
    """Check the episodes without an annotation of the checks, which a killed run had written. Returns their number."""
    count = 0
    for ids in batched(_unchecked_ids(stores), _BATCH_SIZE):
        trajectories = dict(stores.tables.trajectories.read(ids))
        episodes = [
            episode for episode in stores.tables.episodes.get(ids) if episode.episode_id in trajectories
        ]
        records = [
            Record(episode=episode, trajectory=trajectories[episode.episode_id]) for episode in episodes
        ]
        stores.annotations.add_producer(CHECKER)
        stores.annotations.append([_check_annotation(record) for record in records])
        count += len(episodes)
    return count


def _unchecked_ids(stores: Stores) -> Iterator[str]:
    for ids in stores.tables.episodes.id_batches():
        checked_ids = stores.annotations.find_done_subjects(CHECKER.maker_id, ids)
        yield from (episode_id for episode_id in ids if episode_id not in checked_ids)


def _check_annotation(record: Record) -> Annotation:
    return make_findings_annotation(
        record.episode, check_record(record.episode, record.trajectory), utc_now()
    )


@dataclass(slots=True)
class RecordWriteBuffer:
    """What is written together.

    Attributes:
        items: The items of each batch, in the order of its rows.
        failures: Errors to be logged, by episode id.
        location_failures: Errors of items without an episode id, by location.
        num_episodes: Rows of all batches.
        nbytes: Bytes of all batches in memory.
        corrects: Whether one of them is of an episode that is stored already.
    """

    items: dict[CheckedBatch, list[Item]] = field(default_factory=dict)
    failures: dict[str, AresError] = field(default_factory=dict)
    location_failures: dict[str, AresError] = field(default_factory=dict)
    num_episodes: int = 0
    nbytes: int = 0
    corrects: bool = False

    def add(self, batch: CheckedBatch, item: Item) -> None:
        """Add an item whose record is the next row of a batch."""
        items = self.items.get(batch)
        if items is not None:
            items.append(item)
            return
        self.items[batch] = [item]
        self.num_episodes += len(batch.annotations)
        self.nbytes += batch.nbytes


class RecordWriter:
    """Writes the records of one source; one buffer is written while the next is filled.

    Args:
        stores: Where to; the caller holds the write lock.
        counts: Where every item is counted.
        check_log: Where the annotations of the checks go.
        ingested: Time of the ingestion, see `EpisodeTable.next_time`.

    Attributes:
        corrects: Whether all episodes come that are stored already, and are to be corrected.
        incomplete: Written episodes that lack something that their source promises, and nobody has accepted it.
    """

    def __init__(
        self, stores: Stores, counts: Report, check_log: CheckAnnotationLog, ingested: datetime
    ) -> None:
        self.counts = counts
        self.copied_bytes = 0
        self.corrects = False
        self.incomplete = 0
        self.sample_ids: list[str] = []
        self._stores = stores
        self._check_log = check_log
        self._ingested = ingested
        self._failure_log = FailureLog(stores.annotations, "ingest")
        self._incomplete_log = FailureLog(stores.annotations, INCOMPLETE_WORK)
        self._buffer = RecordWriteBuffer()
        self._buffer_started = time.monotonic()
        self._executor = ThreadPoolExecutor(1, "ingest-write")
        self._pending_write: Future[None] | None = None

    def add(self, outcomes: Sequence[ItemOutcome]) -> None:
        """Accept items that were read together. Raises what a write raised, and DiskFull."""
        buffer = self._buffer
        for outcome in outcomes:
            if isinstance(outcome.result, YoungFileError):
                self.counts.add_open()
                self.counts.add_warning(outcome.result.reason, outcome.result.detail)
            elif isinstance(outcome.result, AresError):
                self._add_failure(outcome.item, outcome.result)
            elif outcome.result is None:
                self._add_existing(outcome)
            else:
                buffer.add(outcome.result, outcome.item)
                buffer.corrects |= self.corrects or outcome.action is ItemAction.CORRECT
        is_old = time.monotonic() - self._buffer_started > _SECONDS_PER_WRITE
        if is_old or buffer.nbytes > _BYTES_PER_WRITE or buffer.num_episodes >= _EPISODES_PER_WRITE:
            self._flush()

    def close(self) -> None:
        """Write what was added and wait until it is written. Raises what a write raised."""
        with self._executor:
            self._flush()
            self._wait()

    def _flush(self) -> None:
        self._wait()
        buffer, self._buffer, self._buffer_started = self._buffer, RecordWriteBuffer(), time.monotonic()
        self._pending_write = self._executor.submit(self._write, buffer)

    def _wait(self) -> None:
        pending, self._pending_write = self._pending_write, None
        if pending:
            pending.result()

    def _write(self, buffer: RecordWriteBuffer) -> None:
        """Write segments, then signals, then episodes, then the annotations of the checks."""
        if buffer.items:
            # Before the rows: an incomplete episode of which nothing is noted would be written again.
            self._note_incomplete(buffer)
            if buffer.corrects:
                self._outdate_changed(buffer)
            self._write_segments(buffer)
            self._write_rows([batch.rows for batch in buffer.items], corrects=buffer.corrects)
            rows = [row for batch in buffer.items for row in batch.annotations]
            self._check_log.append(list(self._find_changed_checks(rows)) if buffer.corrects else rows)
        for batch, items in buffer.items.items():
            self.counts.add_kept(items=len(items))
            self.copied_bytes += batch.copied_bytes
            for reason, (count, first_row) in batch.warnings.items():
                self.counts.add_warning(reason, items[first_row].location, count)
        written_ids = [item.episode_id for items in buffer.items.values() for item in items]
        # Ids are hashes: the lowest are a sample that only chance selects.
        self.sample_ids = heapq.nsmallest(_SAMPLED_EPISODES, (*self.sample_ids, *written_ids))
        self._failure_log.record(buffer.failures, written_ids)
        self._failure_log.record_locations(buffer.location_failures)

    def _note_incomplete(self, buffer: RecordWriteBuffer) -> None:
        """Log which of the episodes to be written lack something that their source promises, and count them."""
        incomplete = {
            items[row].episode_id: SourceError(reason, items[row].location)
            for batch, items in buffer.items.items()
            for row, reason in batch.incomplete.items()
        }
        log = self._incomplete_log
        self.incomplete += sum(not log.is_accepted(*failure) for failure in incomplete.items())
        log.record(incomplete, [item.episode_id for items in buffer.items.values() for item in items])

    def _find_changed_checks(self, rows: Sequence[AnnotationTexts]) -> Iterator[AnnotationTexts]:
        """What the checks say of episodes now where the log says something else of them, or nothing yet."""
        for chunk in batched(rows, _BATCH_SIZE):
            annotations = [annotation_from_row(AnnotationRow._make(row)) for row in chunk]
            ids, log = [item.episode_id for item in annotations], self._stores.annotations
            logged = keep_newest_annotations(log.find_annotations(ids, maker_ids=[CHECKER.maker_id]))
            newest = {item.episode_id: item for item in logged}
            for annotation in annotations:
                before = newest.get(annotation.episode_id)
                if before is None or before.value != annotation.value:
                    revision = 0 if before is None else annotation.revision
                    yield tuple(annotation_to_row(replace(annotation, revision=revision)))

    def _outdate_changed(self, buffer: RecordWriteBuffer) -> None:
        """Let what models and code said of episodes that have other content now be said again."""
        ids = [item.episode_id for items in buffer.items.values() for item in items]
        stored = read_stored_identities(self._stores, ids)
        rows = (batch.rows.episodes for batch in buffer.items)
        hashes = {
            episode_id: content_hash
            for batch in rows
            for episode_id, content_hash in zip(
                batch["episode_id"].to_pylist(), batch["content_hash"].to_pylist(), strict=True
            )
        }
        changed = [id for id in ids if id in stored and stored[id].content_hash != hashes[id]]
        log = self._stores.annotations
        sources = [
            maker_id
            for maker_id, producer in log.producers().items()
            if maker_id == CHECKER.maker_id or producer.annotator.startswith(SOURCE_PREFIX)
        ]
        for chunk in batched(changed, _BATCH_SIZE):
            if outdate_annotations(log, chunk, sources):
                self._check_log.expect_others()

    def _write_segments(self, buffer: RecordWriteBuffer) -> None:
        """Append what the source says of spans; of episodes that are corrected only what has changed."""
        rows: list[AnnotationTexts] = [row for batch in buffer.items for row in batch.segments]
        if buffer.corrects:
            ids = [item.episode_id for items in buffer.items.values() for item in items]
            changed = find_changed_segments(self._stores.annotations, ids, rows, utc_now())
            self._check_log.append_segments(list(changed))
        elif rows:
            self._check_log.append_segments([AnnotationRow._make(row) for row in rows])

    def _write_rows(self, batches: Sequence[EpisodeTableRows], *, corrects: bool) -> None:
        """Write rows of new episodes; those of episodes that are stored are corrected in place."""
        episodes = self._stores.tables.episodes
        write = episodes.correct if corrects else episodes.write
        write(batches, self._ingested)

    def _add_existing(self, outcome: ItemOutcome) -> None:
        self.counts.add_existing()
        self.incomplete += outcome.is_incomplete
        if outcome.warning:
            self.counts.add_warning(outcome.warning, outcome.item.location)

    def _add_failure(self, item: Item, error: AresError) -> None:
        # The stored episode of the same id has not failed; items that were not listed have no id.
        has_episode = bool(item.episode_id) and not isinstance(error, IdentityConflict)
        subject = item.episode_id if has_episode else location_subject(item.location)
        self.counts.add_failure(error, item.location, self._failure_log.is_accepted(subject, error))
        if has_episode:
            self._buffer.failures[item.episode_id] = error
        elif not item.episode_id:
            self._buffer.location_failures[item.location] = error
        if isinstance(error, DiskFull):
            raise error
