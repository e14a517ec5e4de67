"""Which rows of the table of episodes a view has, and in which order, before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from ares.curation import SOURCE_ORDER
from ares.store import conjunction

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store import EpisodeSnapshot


# Rows that are read at once, and the longest slice that the table sorts for itself.
BATCH_ROWS = 1_024
# From this share of the table on, reading every row and dropping some is faster than picking rows.
_SCAN_SHARE = 0.1


class Sample(NamedTuple):
    """A random choice of rows in a random order: how many, None for all, and the seed."""

    size: int | None
    seed: int


class RowCombination(NamedTuple):
    """Rows of this selection and of another: "and", "or", "minus"."""

    operation: Literal["and", "or", "minus"]
    other: Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Rows that fulfil a filter, in an order, from `start` to `stop`, or a sample of them.

    Attributes:
        where: SQL filter; "" is all.
        order_by: Columns as for `EpisodeSnapshot.scan`; "" is the order of `base`, or of the sources.
        start: First row.
        stop: Row after the last one, or None for all that follow.
        sample: A random choice in place of a slice.
        ids: The only episodes that it may have; None for any.
        numbers: (N,) numbers of the rows, counted from the first, in any order; None for all.
        combination: What is done with the rows of another selection.
        base: The slice or sample that this selection narrows; None for the whole table.
    """

    where: str = ""
    order_by: str = ""
    start: int = 0
    stop: int | None = None
    sample: Sample | None = None
    ids: frozenset[str] | None = None
    numbers: NDArray[np.int64] | None = field(default=None, compare=False)
    combination: RowCombination | None = None
    base: Selection | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it is a slice, a sample or a list: what follows applies to these rows alone."""
        parts = (self.stop, self.sample, self.ids, self.numbers, self.combination)
        return bool(self.start) or any(part is not None for part in parts)

    @property
    def _is_slice(self) -> bool:
        """Whether it is rows of the table, or a slice of them."""
        return self.base is None and self.sample is None

    def filtered(self, where: str) -> Selection:
        """Those rows that fulfil a filter, too."""
        if self.is_cut:
            return Selection(where=where, base=self)
        return replace(self, where=conjunction([self.where, where]))

    def sorted_by(self, order: str) -> Selection:
        """The same rows in another order; the order before decides between equal values."""
        if self.is_cut:
            return Selection(order_by=order, base=self)
        names = {term.split()[0] for term in order.split(", ")}
        earlier = (term for term in self.order_by.split(", ") if term and term.split()[0] not in names)
        return replace(self, order_by=", ".join((order, *earlier)))

    def sliced(self, start: int, stop: int | None) -> Selection:
        """The rows from `start` to `stop`, counted from the first row of this selection."""
        if self.sample or self.base is not None:
            return Selection(start=start, stop=stop, base=self)
        first = self.start + start
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return replace(self, start=first, stop=max(min(ends), first) if ends else None)

    def sampled(self, size: int | None, seed: int) -> Selection:
        """A random choice of the rows, all of them for None, in a random order."""
        if self.is_cut:
            return Selection(sample=Sample(size, seed), base=self)
        return replace(self, sample=Sample(size, seed))

    def numbered(self, numbers: NDArray[np.int64]) -> Selection:
        """The rows of these numbers, in their order."""
        return Selection(numbers=numbers, base=self)

    def combined(self, operation: Literal["and", "or", "minus"], other: Selection) -> Selection:
        """Rows of both selections; those of the other alone come last."""
        return Selection(combination=RowCombination(operation, other), base=self)

    def count(self, snapshot: EpisodeSnapshot) -> int:
        """Number of rows, without reading them where that is possible."""
        if self.base is not None:
            return len(self.offsets(snapshot))
        matching = snapshot.count(self.where)
        if self.sample:
            return matching if self.sample.size is None else min(self.sample.size, matching)
        return max(0, min(matching, matching if self.stop is None else self.stop) - self.start)

    def offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        """(N,) offsets of the rows, in order, see `EpisodeSnapshot.take`."""
        rows = self._uncut_offsets(snapshot)[self.start : self.stop]
        return _choose_sample(rows, self.sample) if self.sample else rows

    def _uncut_offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        import numpy as np

        if self.base is None:
            return snapshot.offsets(self.where, self.order_by or SOURCE_ORDER)
        base_rows = self.base.offsets(snapshot)
        if self.ids is not None:
            listed: NDArray[np.int64] = base_rows[np.isin(base_rows, _listed_offsets(snapshot, self.ids))]
            return listed
        if self.numbers is not None:
            numbered: NDArray[np.int64] = base_rows[self.numbers]
            return numbered
        if self.combination:
            return _combine_rows(
                base_rows, self.combination.other.offsets(snapshot), self.combination.operation
            )
        if not self.where and not self.order_by:
            return base_rows
        matching = snapshot.offsets(self.where, self.order_by or SOURCE_ORDER)
        if self.order_by:
            ordered: NDArray[np.int64] = matching[np.isin(matching, base_rows)]
            return ordered
        narrowed: NDArray[np.int64] = base_rows[np.isin(base_rows, matching)]
        return narrowed

    def batches(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the rows, in order, streamed.

        Raises:
            RequestError: A column does not exist.
        """
        if self._is_slice and self.stop is not None:
            size = self.stop - self.start
            if size <= BATCH_ROWS:
                order = self.order_by or SOURCE_ORDER
                return snapshot.scan(columns, self.where, size, self.start, order)
        snapshot.schema(columns)
        return self._picked_batches(snapshot, columns)

    def _picked_batches(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        offsets = self.offsets(snapshot)
        for start in range(0, len(offsets), BATCH_ROWS):
            yield from snapshot.take(columns, offsets[start : start + BATCH_ROWS]).to_batches()

    def table(self, snapshot: EpisodeSnapshot, columns: Sequence[str]) -> pa.Table:
        """Columns of the rows as one table, in order.

        Raises:
            RequestError: A column does not exist.
        """
        import pyarrow as pa

        schema = snapshot.schema(columns)
        if self._is_slice and self.stop is not None:
            return pa.Table.from_batches(self.batches(snapshot, columns), schema=schema)
        offsets = self.offsets(snapshot)
        if len(offsets) < _SCAN_SHARE * snapshot.count():
            return snapshot.take(columns, offsets)
        return pa.Table.from_batches(snapshot.reader(columns), schema=schema).take(pa.array(offsets))


def _listed_offsets(snapshot: EpisodeSnapshot, ids: frozenset[str]) -> NDArray[np.int64]:
    """Offsets of the episodes with these ids."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    known_ids = pa.array(sorted(ids), pa.string())
    # All at once: for each batch the ids would be hashed again.
    episode_ids = snapshot.reader(["episode_id"]).read_all()["episode_id"]
    return np.flatnonzero(pc.is_in(episode_ids, value_set=known_ids).to_numpy())


def _combine_rows(
    rows: NDArray[np.int64], others: NDArray[np.int64], operation: Literal["and", "or", "minus"]
) -> NDArray[np.int64]:
    """(N,) rows of two selections, each once."""
    import numpy as np

    is_other = np.isin(rows, others)
    if operation == "or":
        return np.concatenate([rows, others[~np.isin(others, rows)]])
    kept: NDArray[np.int64] = rows[is_other if operation == "and" else ~is_other]
    return kept


def _choose_sample(rows: NDArray[np.int64], sample: Sample) -> NDArray[np.int64]:
    """A random choice of (N,) rows, the same for the same seed with any version of NumPy."""
    import numpy as np

    drawn: NDArray[np.int64] = rows[np.random.RandomState(sample.seed).permutation(len(rows))[: sample.size]]
    return drawn
