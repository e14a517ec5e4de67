"""Batch: records that were read and checked together, as the tables keep them; what a reader sends to the writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ares.episode import Record
from ares.errors import AresError, SourceError
from ares.files import words
from ares.media.stamp import stamped
from ares.store.lean import without_pandas
from ares.store.packed import Packed, pack
from ingest.check import Finding, check
from ingest.copied import copied_bytes

Load = Callable[[], Record]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Records that were read.

    Attributes:
        packed: Their rows.
        warnings: What is odd about each, from its reader.
        findings: What is suspicious about the data of each.
        copied_bytes: Size of the copies of each one's cameras.
        nbytes: Of the rows, in memory; known where they were made, as Arrow takes long to count them.
    """

    packed: Packed
    warnings: tuple[tuple[str, ...], ...]
    findings: tuple[tuple[Finding, ...], ...]
    copied_bytes: tuple[int, ...]
    nbytes: int


class Row(NamedTuple):
    """One record of a batch. Sent together, the rows of a batch carry it once."""

    batch: Batch
    number: int


def reader() -> Callable[[Sequence[Load]], list[Row | AresError]]:
    """`read_all` for a process that does nothing else."""
    without_pandas()
    return read_all


def read_all(loads: Sequence[Load]) -> list[Row | AresError]:
    """Read records: a row or what went wrong for each, in order."""
    found = [_read(load) for load in loads]
    records = [each for each in found if isinstance(each, Record)]
    batch = _batch(records) if records else None
    numbers = iter(range(len(records)))
    return [Row(batch, next(numbers)) if batch and isinstance(each, Record) else each for each in found]  # type: ignore[misc]


def _read(load: Load) -> Record | AresError:
    try:
        return stamped(load())
    except AresError as error:
        return error
    except OSError as error:  # a disk or a server that fails in the middle costs what it was asked for
        return SourceError("file cannot be read", f"{error.filename or ''}: {words(error)}")


def _batch(records: Sequence[Record]) -> Batch:
    packed = pack(records)
    return Batch(
        packed=packed,
        nbytes=packed.nbytes,
        warnings=tuple(record.warnings for record in records),
        findings=tuple(check(record) for record in records),
        copied_bytes=tuple(copied_bytes(record.episode.cameras) for record in records),
    )
