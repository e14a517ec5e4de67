"""Rows: where the rows of each episode lie, so that a filter of many episodes is a set of places, not of words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class Ids(Collection[str]):
    """Ids of episodes, a quarter of the memory that Python's own strings take.

    Args:
        held: The ids, each once.
    """

    def __init__(self, held: pa.ChunkedArray) -> None:
        self.held = held

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Iterator[str]:
        return (each for chunk in self.held.chunks for each in chunk.to_pylist())

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.ChunkedArray:
        return self.held if type is None else self.held.cast(type)

    def __contains__(self, one: object) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        return bool(isinstance(one, str) and pc.index(self.held, pa.scalar(one)).as_py() >= 0)


class Chosen:
    """Rows of one version of a table.

    Args:
        row_ids: (N,) uint64 Lance row ids.
        offsets: (N,) int64 places in the order of a scan.
    """

    def __init__(self, row_ids: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        self.row_ids = row_ids
        self.offsets = offsets

    @cached_property
    def allowlist(self) -> bytes:
        """The rows as Lance takes them for a filter before the search."""
        from lance.dataset import serialize_row_addrs

        return bytes(serialize_row_addrs(self.row_ids))

    def parts(self, size: int) -> Iterator[Chosen]:
        """The rows, `size` at a time."""
        for start in range(0, len(self.row_ids), size):
            part = slice(start, start + size)
            yield Chosen(self.row_ids[part], self.offsets[part])


class Rows:
    """Runs of rows that share an episode, of one version of a table: 16 bytes and an id each, whatever their length.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np
        import pyarrow as pa

        ids, starts, lengths = [], [], []
        scanner = dataset.scanner(columns=["episode_id"], with_row_id=True, scan_in_order=True)
        for batch in scanner.to_batches():
            names, row_ids, ends = _runs(batch)
            ids.append(names)
            begins = np.concatenate(([0], ends[:-1]))
            starts.append(row_ids[begins])
            lengths.append(ends - begins)
        self.episode_ids: pa.ChunkedArray = pa.chunked_array(ids, pa.string())
        self.starts = np.concatenate(starts) if starts else np.zeros(0, np.uint64)
        self.lengths: NDArray[np.int64] = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        self.offsets = np.cumsum(self.lengths) - self.lengths

    def of(self, episode_ids: Collection[str]) -> Chosen:
        """The rows of some episodes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = pa.array(episode_ids, pa.string())
        return self.where(pc.is_in(self.episode_ids, value_set=wanted).to_numpy())

    def where(self, runs: NDArray[np.bool_]) -> Chosen:
        """The rows of some runs. Args: (R,) a flag for each run."""
        import numpy as np

        lengths = self.lengths[runs]
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row_ids = np.repeat(self.starts[runs], lengths) + inside.astype(np.uint64)
        return Chosen(row_ids, np.repeat(self.offsets[runs], lengths) + inside)


class Places:
    """The rows of a table as its newest version has them, read once for each version, whatever threads ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read: tuple[int, Rows] | None = None

    def of(self, dataset: lance.LanceDataset, episode_ids: Collection[str] | None) -> Chosen | None:
        """The rows of some episodes in this very version; None, which is all, for None."""
        return None if episode_ids is None else self.rows(dataset).of(episode_ids)

    def rows(self, dataset: lance.LanceDataset) -> Rows:
        """Where the rows of each episode lie in this very version."""
        version = int(dataset.version)
        # Threads that meet here wait for one reading instead of each doing its own.
        with self._lock:
            if self._read is None or self._read[0] != version:
                self._read = (version, Rows(dataset))
            return self._read[1]


def _runs(batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.uint64], NDArray[np.int64]]:
    """The ids of the runs of a batch, all its row ids, and where each run ends; a gap in the row ids ends a run too."""
    import numpy as np
    import pyarrow.compute as pc

    row_ids = batch["_rowid"].to_numpy()
    encoded = pc.run_end_encode(batch["episode_id"])
    ends = encoded.run_ends.to_numpy().astype(np.int64)
    gaps = np.flatnonzero(np.diff(row_ids) != 1) + 1
    if len(gaps):
        ends = np.union1d(ends, gaps)
    return batch["episode_id"].take(ends - 1), row_ids, ends
