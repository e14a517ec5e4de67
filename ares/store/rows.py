"""Rows: where the rows of each episode lie, so that a filter of many episodes is a set of places, not of words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from ares.store.newest import Newest

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
        key: Column of the ids.
    """

    def __init__(self, dataset: lance.LanceDataset, key: str = "episode_id") -> None:
        import numpy as np
        import pyarrow as pa

        ids, starts, lengths = [], [], []
        scanner = dataset.scanner(columns=[key], with_row_id=True, scan_in_order=True)
        for batch in scanner.to_batches():
            names, row_ids, ends = _runs(batch, key)
            ids.append(names)
            begins = np.concatenate(([0], ends[:-1]))
            starts.append(row_ids[begins])
            lengths.append(ends - begins)
        self.episode_ids: pa.ChunkedArray = pa.chunked_array(ids, pa.string())
        self.starts = np.concatenate(starts) if starts else np.zeros(0, np.uint64)
        self.lengths: NDArray[np.int64] = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        self.offsets = np.cumsum(self.lengths) - self.lengths
        self.count = int(self.lengths.sum())
        self._lock = Lock()
        self._asked: tuple[Collection[str], NDArray[np.bool_], Chosen | None] | None = None

    def of(self, episode_ids: Collection[str]) -> Chosen:
        """The rows of some episodes; remembered like `runs`."""
        with self._lock:
            runs, chosen = self._remembered(episode_ids)
            chosen = chosen or self.where(runs)
            if isinstance(episode_ids, (frozenset, Ids)):
                self._asked = (episode_ids, runs, chosen)
            return chosen

    def runs(self, episode_ids: Collection[str]) -> NDArray[np.bool_]:
        """(R,) whether each run is of one of some episodes; remembered for a frozenset: parts of a search share it."""
        with self._lock:
            return self._remembered(episode_ids)[0]

    def _remembered(self, episode_ids: Collection[str]) -> tuple[NDArray[np.bool_], Chosen | None]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._asked is not None and self._asked[0] is episode_ids:
            return self._asked[1:]
        wanted = pa.array(episode_ids, pa.string())
        runs: NDArray[np.bool_] = pc.is_in(self.episode_ids, value_set=wanted).to_numpy()
        if isinstance(episode_ids, (frozenset, Ids)):
            self._asked = (episode_ids, runs, None)
        return runs, None

    def where(self, runs: NDArray[np.bool_]) -> Chosen:
        """The rows of some runs. Args: (R,) a flag for each run."""
        import numpy as np

        lengths = self.lengths[runs]
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row_ids = np.repeat(self.starts[runs], lengths) + inside.astype(np.uint64)
        return Chosen(row_ids, np.repeat(self.offsets[runs], lengths) + inside)

    def locate(self, row_ids: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The run of each of some rows, and its place in the order of a scan."""
        import numpy as np

        order, starts = self._by_start
        runs = order[np.searchsorted(starts, row_ids, side="right") - 1]
        return runs, self.offsets[runs] + (row_ids - self.starts[runs]).astype(np.int64)

    def runs_at(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The run of each of some places in the order of a scan."""
        import numpy as np

        return np.searchsorted(self.offsets, offsets, side="right") - 1

    @cached_property
    def _by_start(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        import numpy as np

        # Compaction leaves fragments in an order that is not that of their numbers.
        order = np.argsort(self.starts, kind="stable")
        return order, self.starts[order]


class Places:
    """The rows of a table as its newest version has them.

    Args:
        key: Column of the ids.
    """

    def __init__(self, key: str = "episode_id") -> None:
        self._newest = Newest(lambda dataset: Rows(dataset, key))

    def rows(self, dataset: lance.LanceDataset) -> Rows:
        """Where the rows of each episode lie in this very version."""
        return self._newest.of(dataset)


def _runs(batch: pa.RecordBatch, key: str) -> tuple[pa.Array, NDArray[np.uint64], NDArray[np.int64]]:
    """The ids of the runs of a batch, all its row ids, and where each run ends; a gap in the row ids ends a run too."""
    import numpy as np
    import pyarrow.compute as pc

    row_ids = batch["_rowid"].to_numpy()
    encoded = pc.run_end_encode(batch[key])
    ends = encoded.run_ends.to_numpy().astype(np.int64)
    gaps = np.flatnonzero(np.diff(row_ids) != 1) + 1
    if len(gaps):
        ends = np.union1d(ends, gaps)
    return batch[key].take(ends - 1), row_ids, ends
