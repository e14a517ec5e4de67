"""Write: collects what was read and writes it in few large batches beside the reading, counting each record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import AresError, DiskFull
from ares.jobs.ledger import Ledger
from ares.jobs.report import Report
from ingest.base import Item
from ingest.batch import Batch
from ingest.checked import Checks
from ingest.copied import Media
from ingest.known import Taken

if TYPE_CHECKING:
    from ares.workspace import Workspace

# One write of the tables per this much: few and large, yet a killed run loses little.
_BYTES_PER_WRITE = 64 * 2**20
_EPISODES_PER_WRITE = 20_000
_SECONDS_PER_WRITE = 30.0


class Told(NamedTuple):
    """What became of an item on its way in.

    Attributes:
        item: The item.
        end: The batch that holds its record, or why there is none; None for one that is there already.
        odd: What is odd about one that is there already, or "".
    """

    item: Item
    end: Batch | AresError | None
    odd: str = ""


@dataclass(slots=True)
class _Load:
    """What is written at once: batches, each with its items, and the items that failed."""

    batches: list[tuple[Batch, list[Item]]] = field(default_factory=list)
    failed: dict[str, AresError] = field(default_factory=dict)
    episodes: int = 0
    nbytes: int = 0


class Writer:
    """Writes the records of one source, one load while the next is collected.

    Args:
        ws: Where to; the caller holds it for writing.
        report: Where to count.
        checks: Where the facts of the checks go.
        strict: Whether the first failure is raised.
        media: Whether cameras are copied.
    """

    def __init__(self, ws: Workspace, report: Report, checks: Checks, strict: bool, media: Media) -> None:
        self.report = report
        self.media = media
        self.copied_bytes = 0
        self._ws = ws
        self._checks = checks
        self._strict = strict
        self._ledger = Ledger(ws.annotations, "ingest")
        self._load = _Load()
        self._begun = time.monotonic()
        self._thread = ThreadPoolExecutor(1, "ingest-write")
        self._writing: Future[None] | None = None

    def take(self, told: Sequence[Told]) -> None:
        """Accept what was read together. Raises the first failure when strict, and what a write raised."""
        load, items = self._load, dict[int, list[Item]]()
        for item, end, odd in told:
            if isinstance(end, AresError):
                self._fail(item, end)
            elif end is None:
                self._pass(item, odd)
            elif id(end) in items:
                items[id(end)].append(item)
            else:
                load.batches.append((end, items.setdefault(id(end), [item])))
                load.episodes += len(end.facts)
                load.nbytes += end.nbytes
        waited = time.monotonic() - self._begun > _SECONDS_PER_WRITE
        if waited or load.nbytes > _BYTES_PER_WRITE or load.episodes >= _EPISODES_PER_WRITE:
            self._flush()

    def close(self) -> None:
        """Write what was collected and wait until all is written. Raises what a write raised."""
        with self._thread:
            self._flush()
            self._wait()

    def _flush(self) -> None:
        self._wait()
        load, self._load, self._begun = self._load, _Load(), time.monotonic()
        self._writing = self._thread.submit(self._write, load)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def _write(self, load: _Load) -> None:
        """Signals, episodes, then what was found suspicious about them."""
        if load.batches:
            self._ws.tables.episodes.write([batch.packed for batch, _ in load.batches])
            self._checks.enter([fact for batch, _ in load.batches for fact in batch.facts])
        for batch, items in load.batches:
            self.report.keep(items=len(items))
            self.copied_bytes += batch.copied_bytes
            for reason, (count, first) in batch.odd.items():
                self.report.warn(reason, items[first].where, count)
        done = (item.episode_id for _, items in load.batches for item in items)
        self._ledger.record(load.failed, done)

    def _pass(self, item: Item, odd: str) -> None:
        self.report.pass_over()
        if odd:
            self.report.warn(odd, item.where)

    def _fail(self, item: Item, error: AresError) -> None:
        self.report.fail(error, item.where)
        if not isinstance(error, Taken):
            self._load.failed[item.episode_id] = error
        if self._strict or isinstance(error, DiskFull):
            raise error
