"""Episode ids to row ids, run-length encoded, and what else is computed once for one version of a Lance table."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ares.deadline import carry_deadline_to_thread, check_deadline, limit_time, wait_for_lock
from ares.store.lance.lance_api import row_allowlist

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

T = TypeVar("T")
_MAX_MASKS = 32
# Rows of which a filter is evaluated between two checks of the deadline, rows for which a thread is worth its start,
# and threads of one filter.
_CHECKED_ROWS, _PART_ROWS, _MOST_PARTS = 8_192, 100_000, 4
_MATCHES = "__matches"
# Rows sorted for each episode in the result; neighbouring rows often belong to one episode.
_ROWS_PER_EPISODE = 8


class VersionCache(Generic[T]):
    """Keeps what a function computes from a version of a table, for the version that was used last.

    Args:
        compute: The function.
    """

    def __init__(self, compute: Callable[[lance.LanceDataset], T]) -> None:
        self._compute = compute
        self._lock = Lock()
        self._entry: tuple[int, T] | None = None

    def get(self, dataset: lance.LanceDataset) -> T:
        """The result for this version."""
        version = int(dataset.version)
        # Concurrent threads wait for one computation instead of each doing its own; once begun it goes to its end.
        with wait_for_lock(self._lock), limit_time(None):
            if self._entry is None or self._entry[0] != version:
                self._entry = (version, self._compute(dataset))
            return self._entry[1]


class RowNumbering:
    """Offsets of the rows of one version in a scan, from 0 to `size` - 1, by their addresses.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np

        rows = {fragment.fragment_id: int(fragment.physical_rows) for fragment in dataset.get_fragments()}
        self.size = int(dataset.count_rows())
        self._starts = np.zeros(max(rows, default=0) + 1, np.int64)
        self._starts[list(rows)] = np.cumsum([0, *rows.values()])[:-1]
        # Deleted rows have addresses too: without any, an offset is the place in the fragments one after another.
        self._offsets: NDArray[np.int32] | None = None
        if self.size < sum(rows.values()):
            scanner = dataset.scanner(columns=[], with_row_address=True, scan_in_order=True)
            positions = [np.zeros(0, np.int64), *map(self._row_positions, scanner.to_batches())]
            self._offsets = np.zeros(sum(rows.values()), np.int32)
            self._offsets[np.concatenate(positions)] = np.arange(self.size)

    def _row_positions(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        import numpy as np

        # An address is the number of a fragment and that of a row in it, 32 bits each.
        addresses = batch["_rowaddr"].to_numpy().view(np.int64)
        positions: NDArray[np.int64] = self._starts[addresses >> 32] + (addresses & 0xFFFFFFFF)
        return positions

    def offsets(self, batch: pa.RecordBatch) -> NDArray[np.int64] | NDArray[np.int32]:
        """(N,) offsets of the rows of a batch, by its column `_rowaddr`."""
        positions = self._row_positions(batch)
        return positions if self._offsets is None else self._offsets[positions]

    def row_mask(self, batches: Iterable[pa.RecordBatch]) -> NDArray[np.bool_]:
        """(size,) whether the row at each offset is in one of the batches."""
        import numpy as np

        row_mask = np.zeros(self.size, np.bool_)
        for batch in batches:
            check_deadline()
            row_mask[self.offsets(batch)] = True
        return row_mask


def scan_matching_rows(dataset: lance.LanceDataset, condition: str) -> Iterator[pa.RecordBatch]:
    """Row addresses, `_rowaddr`, of the rows of a version that match a condition as Lance reads it.

    Parts of the rows are read at once: a scan decodes texts by one processor. Raises QueryTimeout.
    """
    count = dataset.count_rows()
    parts = max(1, min(os.cpu_count() or 1, _MOST_PARTS, count // _PART_ROWS))
    read = carry_deadline_to_thread(partial(_scan_matching_part, dataset, condition, -(-count // parts)))
    with ThreadPoolExecutor(parts) as pool:
        yield from chain.from_iterable(pool.map(read, range(parts)))


def _scan_matching_part(
    dataset: lance.LanceDataset, condition: str, rows: int, number: int
) -> list[pa.RecordBatch]:
    """Matches in one part of a version, each of so many rows."""
    # As a filter it would give no batch, and so no chance to end it, before the first row that matches.
    scanner = dataset.scanner(
        columns={_MATCHES: f"({condition}\n)"},
        batch_size=_CHECKED_ROWS,
        with_row_address=True,
        offset=number * rows,
        limit=rows,
    )
    matching = []
    for batch in scanner.to_batches():
        check_deadline()
        matching.append(batch.filter(batch[_MATCHES]).select(["_rowaddr"]))
    return matching


class RowMaskCache:
    """Rows that the last filters matched, one bit for each row: a page uses one filter several times."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._masks: dict[tuple[int, str], tuple[int, NDArray[np.uint8]]] = {}

    def get(self, version: int, where: str) -> NDArray[np.bool_] | None:
        """(N,) whether the row at each offset matches, or None when it is not cached."""
        import numpy as np

        with self._lock:
            if (version, where) not in self._masks:
                return None
            size, bits = self._masks[version, where] = self._masks.pop((version, where))
        return np.unpackbits(bits, count=size).view(np.bool_)

    def put(self, version: int, where: str, row_mask: NDArray[np.bool_]) -> None:
        """Keep the result of a filter, in place of the one that was used least recently."""
        import numpy as np

        bits = np.packbits(row_mask)
        with self._lock:
            self._masks[version, where] = len(row_mask), bits
            while len(self._masks) > _MAX_MASKS:
                del self._masks[next(iter(self._masks))]


class EpisodeIdArray(Collection[str]):
    """Ids of episodes in Arrow, a quarter of the memory of Python strings.

    Args:
        array: The ids, without repetition.
    """

    def __init__(self, array: pa.ChunkedArray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        return (episode_id for chunk in self.array.chunks for episode_id in chunk.to_pylist())

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.ChunkedArray:
        return self.array if type is None else self.array.cast(type)

    def __contains__(self, episode_id: object) -> bool:
        import pyarrow as pa
        import pyarrow.compute as pc

        return bool(isinstance(episode_id, str) and pc.index(self.array, pa.scalar(episode_id)).as_py() >= 0)


class RowSelection:
    """Rows of one version of a table.

    Args:
        row_ids: (N,) uint64 Lance row ids.
        offsets: (N,) int64 offsets in a scan.
    """

    def __init__(self, row_ids: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        self.row_ids = row_ids
        self.offsets = offsets

    @cached_property
    def allowlist(self) -> bytes:
        """The rows as an option of a search, see `ares.store.lance.lance_api.allowlist_options`."""
        return row_allowlist(self.row_ids)

    def batches(self, size: int) -> Iterator[RowSelection]:
        """The rows, `size` at a time."""
        for start in range(0, len(self.row_ids), size):
            rows = slice(start, start + size)
            yield RowSelection(self.row_ids[rows], self.offsets[rows])


class RowIndex:
    """Runs of neighbouring rows of one episode, in one version of a table: 16 bytes and an id for each run.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np
        import pyarrow as pa

        ids, starts, lengths = [], [], []
        scanner = dataset.scanner(columns=["episode_id"], with_row_id=True, scan_in_order=True)
        for batch in scanner.to_batches():
            names, row_ids, ends = _find_runs(batch)
            ids.append(names)
            begins = np.concatenate(([0], ends[:-1]))
            starts.append(row_ids[begins])
            lengths.append(ends - begins)
        # In one piece: of many it takes ten times as long to pick some.
        self.episode_ids: pa.ChunkedArray = pa.chunked_array(
            [pa.concat_arrays(ids)] if ids else [], pa.string()
        )
        self.starts = np.concatenate(starts) if starts else np.zeros(0, np.uint64)
        self.lengths: NDArray[np.int64] = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        self.offsets = np.cumsum(self.lengths) - self.lengths
        self.count = int(self.lengths.sum())
        self._lock = Lock()
        self._last_selection: tuple[Collection[str], NDArray[np.bool_], RowSelection | None] | None = None
        self._last_runs: tuple[RowIndex, NDArray[np.int64]] | None = None

    def select(self, episode_ids: Collection[str]) -> RowSelection:
        """The rows of some episodes; cached like `run_mask`."""
        with self._lock:
            run_mask, selection = self._cached_selection(episode_ids)
            selection = selection or self.select_runs(run_mask)
            if isinstance(episode_ids, (frozenset, EpisodeIdArray)):
                self._last_selection = (episode_ids, run_mask, selection)
            return selection

    def run_mask(self, episode_ids: Collection[str]) -> NDArray[np.bool_]:
        """(R,) whether each run belongs to one of the episodes.

        The last result is cached for a frozenset or EpisodeIdArray: several rankers of a search use the same one.
        """
        with self._lock:
            return self._cached_selection(episode_ids)[0]

    def _cached_selection(
        self, episode_ids: Collection[str]
    ) -> tuple[NDArray[np.bool_], RowSelection | None]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._last_selection is not None and self._last_selection[0] is episode_ids:
            return self._last_selection[1:]
        value_set = pa.array(episode_ids, pa.string())
        run_mask: NDArray[np.bool_] = pc.is_in(self.episode_ids, value_set=value_set).to_numpy()
        if isinstance(episode_ids, (frozenset, EpisodeIdArray)):
            self._last_selection = (episode_ids, run_mask, None)
        return run_mask, None

    def select_runs(self, run_mask: NDArray[np.bool_]) -> RowSelection:
        """The rows of the runs that are True in a mask, (R,)."""
        import numpy as np

        lengths = self.lengths[run_mask]
        position_in_run = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        row_ids = np.repeat(self.starts[run_mask], lengths) + position_in_run.astype(np.uint64)
        return RowSelection(row_ids, np.repeat(self.offsets[run_mask], lengths) + position_in_run)

    def locate(self, row_ids: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Runs and scan offsets, (N,) int64 each, of the rows with (N,) row ids."""
        import numpy as np

        order, starts = self._by_start
        runs = order[np.searchsorted(starts, row_ids, side="right") - 1]
        return runs, self.offsets[runs] + (row_ids - self.starts[runs]).astype(np.int64)

    def runs_at(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """(N,) runs of the rows at (N,) scan offsets."""
        import numpy as np

        return np.searchsorted(self.offsets, offsets, side="right") - 1

    def runs_of(self, ids: pa.ChunkedArray) -> NDArray[np.int64]:
        """(M,) run of each of some ids, which may be repeated; -1 for none. For an index with one run for each id."""
        import numpy as np
        import pyarrow.compute as pc

        encoded = ids.dictionary_encode().combine_chunks()
        # The ids that are asked for are few as a rule: it is their hashes that are compared with.
        numbers = pc.index_in(self.episode_ids, value_set=encoded.dictionary).fill_null(-1).to_numpy()
        runs = np.full(len(encoded.dictionary), -1, np.int64)
        runs[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
        runs_of_ids: NDArray[np.int64] = runs[encoded.indices.to_numpy()]
        return runs_of_ids

    def runs_in(self, episodes: RowIndex) -> NDArray[np.int64]:
        """(R,) run that the episode of each run has in another index, see `runs_of`; the last result is cached."""
        import numpy as np

        if episodes is self:
            return np.arange(len(self.starts))
        with self._lock:
            if self._last_runs is None or self._last_runs[0] is not episodes:
                self._last_runs = episodes, episodes.runs_of(self.episode_ids)
            return self._last_runs[1]

    @cached_property
    def _by_start(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        import numpy as np

        # Compaction leaves fragments in an order that is not that of their numbers.
        order = np.argsort(self.starts, kind="stable")
        return order, self.starts[order]


class EpisodeRowRuns(NamedTuple):
    """Episodes as runs of rows of some tables: to find them in the table of episodes, no ids are compared.

    Attributes:
        parts: The row index of each table, and (M,) int64 runs in it.
    """

    parts: Sequence[tuple[RowIndex, NDArray[np.int64]]]

    def runs_in(self, episodes: RowIndex) -> NDArray[np.int64]:
        """(N,) runs of these episodes, part after part, in an index with one run for each; -1 for none."""
        import numpy as np

        runs = [row_index.runs_in(episodes)[part] for row_index, part in self.parts]
        return np.concatenate([np.zeros(0, np.int64), *runs])


def _find_runs(batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.uint64], NDArray[np.int64]]:
    """Ids of the runs of a batch, (R,), its row ids, (N,), and ends of the runs, (R,). A gap in row ids ends a run."""
    import numpy as np
    import pyarrow.compute as pc

    row_ids = batch["_rowid"].to_numpy()
    encoded = pc.run_end_encode(batch["episode_id"])
    ends = encoded.run_ends.to_numpy().astype(np.int64)
    gaps = np.flatnonzero(np.diff(row_ids) != 1) + 1
    if len(gaps):
        ends = np.union1d(ends, gaps)
    return batch["episode_id"].take(ends - 1), row_ids, ends


def best_rows_per_episode(rows: pa.Table, limit: int) -> tuple[pa.Table, int]:
    """The rows with the highest score of each of the best episodes, and how many episodes they are.

    Args:
        rows: Columns episode_id and score, and any others.
        limit: Maximum number of episodes; of those with equal scores the first by id.
    """
    import pyarrow.compute as pc

    count = _ROWS_PER_EPISODE * limit
    while True:
        keys = [("score", "descending"), ("episode_id", "ascending")]
        head = rows.take(pc.select_k_unstable(rows, k=min(count, len(rows)), sort_keys=keys))
        best, num_episodes = _first_rows_per_episode(head, limit)
        # An episode more than the limit means that no further row belongs to the episodes before it.
        if num_episodes > limit or len(head) == len(rows):
            return best, min(num_episodes, limit)
        count *= _ROWS_PER_EPISODE


def _first_rows_per_episode(rows: pa.Table, limit: int) -> tuple[pa.Table, int]:
    """Of sorted rows, those with the first score of each of the first episodes, and the number of episodes."""
    import numpy as np

    episode_numbers = (
        rows["episode_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    )
    _, first_rows = np.unique(episode_numbers, return_index=True)  # numbers count up as episodes appear
    scores = rows["score"].to_numpy()
    row_mask = (episode_numbers < limit) & (scores == scores[first_rows][episode_numbers])
    return rows.filter(row_mask), len(first_rows)
