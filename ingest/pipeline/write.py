"""Writes records in few large batches while others are read, and counts every item."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.errors import AresError, DiskFull
from ares.jobs import FailureLog, Report
from ingest.base import Item
from ingest.pipeline.check_log import CheckLog
from ingest.pipeline.identity import IdentityConflict
from ingest.pipeline.outcome import ItemOutcome
from ingest.pipeline.read import CheckedBatch

if TYPE_CHECKING:
    from ares.store import Stores

# The tables are written once per this much: writes are few and large, yet a killed run loses little.
_BYTES_PER_WRITE = 64 * 2**20
_EPISODES_PER_WRITE = 20_000
_SECONDS_PER_WRITE = 30.0
# Episodes by which the meaning of the signals is inferred.
_SAMPLED_EPISODES = 16


@dataclass(slots=True)
class WriteBuffer:
    """What is written together.

    Attributes:
        items: The items of each batch, in the order of its rows.
        failures: Errors to be logged, by episode id.
        num_episodes: Rows of all batches.
        nbytes: Bytes of all batches in memory.
    """

    items: dict[CheckedBatch, list[Item]] = field(default_factory=dict)
    failures: dict[str, AresError] = field(default_factory=dict)
    num_episodes: int = 0
    nbytes: int = 0

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
        strict: Whether the first failure is raised.
    """

    def __init__(self, stores: Stores, counts: Report, check_log: CheckLog, strict: bool) -> None:
        self.counts = counts
        self.copied_bytes = 0
        self.sample_ids: list[str] = []
        self._stores = stores
        self._check_log = check_log
        self._strict = strict
        self._failure_log = FailureLog(stores.annotations, "ingest")
        self._buffer = WriteBuffer()
        self._buffer_started = time.monotonic()
        self._executor = ThreadPoolExecutor(1, "ingest-write")
        self._pending_write: Future[None] | None = None

    def add(self, outcomes: Sequence[ItemOutcome]) -> None:
        """Accept items that were read together. Raises the first failure when strict, and what a write raised."""
        buffer = self._buffer
        for outcome in outcomes:
            if isinstance(outcome.result, AresError):
                self._add_failure(outcome.item, outcome.result)
            elif outcome.result is None:
                self._add_existing(outcome)
            else:
                buffer.add(outcome.result, outcome.item)
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
        buffer, self._buffer, self._buffer_started = self._buffer, WriteBuffer(), time.monotonic()
        self._pending_write = self._executor.submit(self._write, buffer)

    def _wait(self) -> None:
        pending, self._pending_write = self._pending_write, None
        if pending:
            pending.result()

    def _write(self, buffer: WriteBuffer) -> None:
        """Write signals, then episodes, then the annotations of the checks."""
        if buffer.items:
            self._stores.tables.episodes.write([batch.rows for batch in buffer.items])
            self._check_log.append([row for batch in buffer.items for row in batch.annotations])
        for batch, items in buffer.items.items():
            self.counts.add_kept(items=len(items))
            self.copied_bytes += batch.copied_bytes
            for reason, (count, first_row) in batch.warnings.items():
                self.counts.add_warning(reason, items[first_row].location, count)
        written_ids = [item.episode_id for items in buffer.items.values() for item in items]
        # Ids are hashes: the lowest are a sample that only chance selects.
        self.sample_ids = heapq.nsmallest(_SAMPLED_EPISODES, (*self.sample_ids, *written_ids))
        self._failure_log.record(buffer.failures, written_ids)

    def _add_existing(self, outcome: ItemOutcome) -> None:
        self.counts.add_existing()
        if outcome.warning:
            self.counts.add_warning(outcome.warning, outcome.item.location)

    def _add_failure(self, item: Item, error: AresError) -> None:
        self.counts.add_failure(error, item.location)
        # The stored episode of the same id has not failed; items that were not listed have no id.
        if item.episode_id and not isinstance(error, IdentityConflict):
            self._buffer.failures[item.episode_id] = error
        if self._strict or isinstance(error, DiskFull):
            raise error
