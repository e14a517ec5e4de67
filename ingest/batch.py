"""Batch: records that were read and checked together, as the stores keep them; what a reader sends to the writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Record
from ares.errors import AresError, SourceError
from ares.files import words
from ares.jobs.calm import calm
from ares.jobs.ledger import now
from ares.media.stamp import stamped
from ares.store import codec
from ares.store.lean import without_pandas
from ares.store.packed import Packed, pack
from ingest.check import CHECKER, Finding, annotation, check
from ingest.copied import copied_bytes

if TYPE_CHECKING:
    import pyarrow as pa


class Identity(NamedTuple):
    """What tells whether a record is one that is there already.

    Attributes:
        content_hash: Of the record.
        source: The file that it is in.
    """

    content_hash: str
    source: str


Load = Callable[[], Record | Identity]
# The columns of `codec.Row`. As bare tuples of texts they cost the collector of garbage nothing.
Fact = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Records that were read.

    Attributes:
        packed: Their rows, with the columns of what the checks found.
        facts: What the checks found, one for each record.
        odd: By reason: how many of the records are odd so, and the number of the first.
        copied_bytes: Size of the copies of their cameras.
        nbytes: Of the rows, in memory; known where they were made, as Arrow takes long to count them.
    """

    packed: Packed
    facts: tuple[Fact, ...]
    odd: Mapping[str, tuple[int, int]]
    copied_bytes: int
    nbytes: int


class _Read(NamedTuple):
    record: Record
    findings: tuple[Finding, ...]
    fact: Fact


def reader() -> Callable[[Sequence[Load]], list[Batch | Identity | AresError]]:
    """`read_all` for a process that does nothing else."""
    without_pandas()
    calm()
    return read_all


def read_all(loads: Sequence[Load]) -> list[Batch | Identity | AresError]:
    """Read records: for each, in order, the one batch that holds it, what tells it, or what went wrong.

    The records of the batch stand in it in the order of those that have it as their answer.
    """
    found = [_read(load) for load in loads]
    read = [each for each in found if isinstance(each, _Read)]
    batch = _batch(read) if read else None
    return [batch if batch and isinstance(each, _Read) else each for each in found]  # type: ignore[misc]


def _read(load: Load) -> _Read | Identity | AresError:
    try:
        loaded = load()
        return loaded if isinstance(loaded, Identity) else _checked(stamped(loaded))
    except AresError as error:
        return error
    except OSError as error:  # a disk or a server that fails in the middle costs what it was asked for
        return SourceError("file cannot be read", f"{error.filename or ''}: {words(error)}")


def _checked(record: Record) -> _Read:
    findings = check(record)
    fact = codec.to_row(annotation(record.episode, findings, now()))
    return _Read(record, findings, tuple(fact))


def _batch(read: Sequence[_Read]) -> Batch:
    packed = pack([each.record for each in read])
    packed = replace(packed, episodes=_with_findings(packed.episodes, [len(each.findings) for each in read]))
    return Batch(
        packed=packed,
        facts=tuple(each.fact for each in read),
        odd=_odd(read),
        copied_bytes=sum(copied_bytes(each.record.episode.cameras) for each in read),
        nbytes=packed.nbytes,
    )


def _with_findings(rows: pa.RecordBatch, counts: Sequence[int]) -> pa.RecordBatch:
    import pyarrow as pa

    (column,) = CHECKER.columns
    return rows.append_column(column.name, pa.array(counts, pa.int64()))


def _odd(read: Sequence[_Read]) -> dict[str, tuple[int, int]]:
    odd: dict[str, tuple[int, int]] = {}
    for number, each in enumerate(read):
        for reason in {*each.record.warnings, *(finding.reason for finding in each.findings)}:
            count, first = odd.get(reason, (0, number))
            odd[reason] = (count + 1, first)
    return odd
