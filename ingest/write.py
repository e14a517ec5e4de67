"""Write: collects what was read and writes it in few large batches, counting what became of each record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.errors import AresError, DiskFull
from ares.jobs.ledger import Ledger
from ares.jobs.report import Report
from ares.store.packed import Packed
from ingest.base import Item
from ingest.batch import Batch, Row
from ingest.checked import Checked, enter_checks
from ingest.copied import Media

if TYPE_CHECKING:
    from ares.workspace import Workspace

# One write of the tables per this much: few and large, yet a killed run loses little.
_BYTES_PER_WRITE = 64 * 2**20
_EPISODES_PER_WRITE = 10_000
_SECONDS_PER_WRITE = 30.0


@dataclass(slots=True)
class Reading:
    """An item on its way in."""

    item: Item
    row: Row | None = None
    error: AresError | None = None


class Writer:
    """Writes the records of one source.

    Args:
        ws: Where to; the caller holds it for writing.
        report: Where to count.
        strict: Whether the first failure is raised.
        media: Whether cameras are copied.
    """

    def __init__(self, ws: Workspace, report: Report, strict: bool, media: Media) -> None:
        self.report = report
        self.media = media
        self.copied_bytes = 0
        self._ws = ws
        self._strict = strict
        self._ledger = Ledger(ws.annotations, "ingest")
        self._rows: list[tuple[Item, Row]] = []
        self._failed: dict[str, AresError] = {}
        self._bytes = 0
        self._written = time.monotonic()

    def take(self, readings: Sequence[Reading]) -> None:
        """Accept what was read. Raises the first failure when strict."""
        for reading in readings:
            if reading.row is not None:
                self._rows.append((reading.item, reading.row))
                self._bytes += reading.row.batch.nbytes if reading.row.number == 0 else 0
            elif reading.error is not None:
                self._fail(reading.item, reading.error)
        waited = time.monotonic() - self._written > _SECONDS_PER_WRITE
        if waited or self._bytes > _BYTES_PER_WRITE or len(self._rows) >= _EPISODES_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        """Write what was collected: signals, episodes, then what was found suspicious about them."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            batches = _together([row for _, row in rows])
            self._ws.tables.episodes.write([_taken(batch, numbers) for batch, numbers in batches])
            enter_checks(self._ws, [one for batch, numbers in batches for one in _checked(batch, numbers)])
            for item, row in rows:
                self._count(item, row)
        self._ledger.record(self._failed, [item.episode_id for item, _ in rows])
        self._failed = {}
        self._written = time.monotonic()

    def _count(self, item: Item, row: Row) -> None:
        self.report.keep()
        self.copied_bytes += row.batch.copied_bytes[row.number]
        warnings, findings = row.batch.warnings[row.number], row.batch.findings[row.number]
        for reason in dict.fromkeys((*warnings, *(finding.reason for finding in findings))):
            self.report.warn(reason, item.where)

    def _fail(self, item: Item, error: AresError) -> None:
        self.report.fail(error, item.where)
        self._failed[item.episode_id] = error
        if self._strict or isinstance(error, DiskFull):
            raise error


def _together(rows: Sequence[Row]) -> list[tuple[Batch, list[int]]]:
    """The batches of some rows, each with the numbers of those rows in it."""
    found: dict[int, tuple[Batch, list[int]]] = {}
    for row in rows:
        found.setdefault(id(row.batch), (row.batch, []))[1].append(row.number)
    return list(found.values())


def _taken(batch: Batch, numbers: Sequence[int]) -> Packed:
    packed = batch.packed
    if len(numbers) == packed.episodes.num_rows:
        return packed
    return Packed(packed.episodes.take(numbers), packed.trajectories.take(numbers))


def _checked(batch: Batch, numbers: Sequence[int]) -> list[Checked]:
    rows = batch.packed.episodes
    ids, seconds = (rows[name].to_pylist() for name in ("episode_id", "duration_seconds"))
    return [Checked(ids[number], seconds[number], batch.findings[number]) for number in numbers]
