"""Which rows of the episodes table a view selects, and in which order: filters, orders, slices, samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ares.curation import SOURCE_ORDER
from ares.store.filters import conjunction

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance import EpisodeSnapshot

# Rows that are read at once, and the longest slice that the table sorts for itself.
BATCH_ROWS = 1_024
# From this share of the table on, reading every row and dropping some is faster than picking rows.
_SCAN_SHARE = 0.1


class Sample(NamedTuple):
    """A random choice of rows: how many, and the seed."""

    size: int
    seed: int


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
        base: The slice or sample that this selection narrows; None for the whole table.
    """

    where: str = ""
    order_by: str = ""
    start: int = 0
    stop: int | None = None
    sample: Sample | None = None
    ids: frozenset[str] | None = None
    base: Selection | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it is a slice, a sample or a list: what follows applies to these rows alone."""
        return bool(self.start or self.stop is not None or self.sample or self.ids is not None)

    def filtered(self, where: str) -> Selection:
        """Those rows that fulfil a filter, too."""
        if self.is_cut:
            return Selection(where=where, base=self)
        return replace(self, where=conjunction([self.where, where]))

    def sorted_by(self, order: str) -> Selection:
        """The same rows in another order; the order before decides between equal values."""
        if self.is_cut:
            return Selection(order_by=order, base=self)
        return replace(self, order_by=f"{order}, {self.order_by}" if self.order_by else order)

    def sliced(self, start: int, stop: int | None) -> Selection:
        """The rows from `start` to `stop`, counted from the first row of this selection."""
        if self.sample or self.ids is not None:
            return Selection(start=start, stop=stop, base=self)
        first = self.start + start
        ends = [end for end in (self.stop, None if stop is None else self.start + stop) if end is not None]
        return replace(self, start=first, stop=max(min(ends), first) if ends else None)

    def sampled(self, size: int, seed: int) -> Selection:
        """A random choice of the rows, in their order."""
        if self.is_cut:
            return Selection(sample=Sample(size, seed), base=self)
        return replace(self, sample=Sample(size, seed))

    def listed(self, ids: frozenset[str]) -> Selection:
        """Those rows whose episode is in a list."""
        return Selection(ids=ids, base=self)

    def count(self, snapshot: EpisodeSnapshot) -> int:
        """Number of rows, without reading them where that is possible."""
        if self.base is not None:
            return len(self.offsets(snapshot))
        matching = snapshot.count(self.where)
        if self.sample:
            return min(self.sample.size, matching)
        return max(0, min(matching, matching if self.stop is None else self.stop) - self.start)

    def offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        """(N,) offsets of the rows, in order, see `EpisodeSnapshot.take`."""
        rows = self._uncut_offsets(snapshot)[self.start : self.stop]
        return _choose(rows, self.sample) if self.sample else rows

    def _uncut_offsets(self, snapshot: EpisodeSnapshot) -> NDArray[np.int64]:
        import numpy as np

        if self.base is None:
            return snapshot.offsets(self.where, self.order_by or SOURCE_ORDER)
        base_rows = self.base.offsets(snapshot)
        if self.ids is not None:
            listed: NDArray[np.int64] = base_rows[np.isin(base_rows, _listed_offsets(snapshot, self.ids))]
            return listed
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
        if self.base is None and not self.sample and self.stop is not None:
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
        if self.base is None and self.stop is not None and not self.sample:
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
    batches = snapshot.reader(["episode_id"])
    is_listed = [pc.is_in(batch["episode_id"], known_ids).to_numpy(zero_copy_only=False) for batch in batches]
    return np.flatnonzero(np.concatenate(is_listed)) if is_listed else np.zeros(0, np.int64)


def _choose(rows: NDArray[np.int64], sample: Sample) -> NDArray[np.int64]:
    """A random choice of (N,) rows, in their order; the same for the same seed with any version of NumPy."""
    import numpy as np

    if sample.size >= len(rows):
        return rows
    positions = np.random.RandomState(sample.seed).permutation(len(rows))[: sample.size]
    sample_rows: NDArray[np.int64] = rows[np.sort(positions)]
    return sample_rows
