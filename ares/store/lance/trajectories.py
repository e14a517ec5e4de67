"""The trajectories table: the signals of every episode, one row each, float32 row-major."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ares.episode import Trajectory
from ares.errors import RequestError
from ares.store.lance.lance_api import lance_errors
from ares.store.lance.row_index import VersionCache
from ares.store.lance.schema import trajectories_from_arrow
from ares.store.lance.table import LanceTable
from ares.store.sql import batched, in_condition

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance.table import TableWriter


# Rows that are read at once: a hundred long trajectories are some tens of megabytes.
_CHUNK = 100
# To sort the ids of a million rows takes as long as some ten reads by a filter.
_READS_WITHOUT_INDEX = 20


# Rows of a scan: also of episodes of hours they are less than half a gigabyte.
_SCANNED = 32


class SignalPart(NamedTuple):
    """A signal of E episodes with N steps in all.

    Attributes:
        ids: (E,) ids of the episodes.
        values: (N, D) values, one episode after the other.
        starts: (E,) first step of each.
    """

    ids: Sequence[str]
    values: NDArray[np.float32]
    starts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SignalSpread:
    """How the values of a signal of D dimensions spread over episodes.

    Attributes:
        ends: (2, D) lowest and highest finite values; infinite where there is none.
        end_ids: Ids of the first episodes with them, two lists of D; "" where there is none.
        shares: (D, B) mean share of the steps in each of B equal bins between both; each episode counts the same.
    """

    ends: NDArray[np.float64]
    end_ids: Sequence[Sequence[str]]
    shares: NDArray[np.float64]


def measure_spread(parts: Callable[[], Iterable[SignalPart]], width: int, bins: int) -> SignalSpread:
    """Measure how a signal spreads, exactly, in two passes.

    Args:
        parts: Begins a pass over the episodes.
        width: Number of dimensions.
        bins: Number of bins of each.
    """
    import numpy as np

    ends, end_ids = np.full((2, width), np.inf), [[""] * width, [""] * width]
    for part in parts():
        for side, sign in enumerate((1.0, -1.0)):
            signed = np.where(np.isfinite(part.values), sign * part.values, np.inf)
            lowest = np.minimum.reduceat(signed, part.starts)
            owners = lowest.argmin(axis=0)
            values = lowest[owners, np.arange(width)]
            for dimension in np.flatnonzero(values < ends[side]):
                end_ids[side][dimension] = part.ids[owners[dimension]]
            ends[side] = np.minimum(ends[side], values)
    ends[1] *= -1.0
    shares, counts = np.zeros((width, bins)), np.zeros(width)
    for part in parts():
        own = _bin_shares(part, ends, bins)
        shares, counts = shares + own[0], counts + own[1]
    return SignalSpread(ends=ends, end_ids=end_ids, shares=shares / np.maximum(counts, 1)[:, None])


def _bin_shares(
    part: SignalPart, ends: NDArray[np.float64], bins: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(D, B) sums over the episodes of the shares of their steps in each bin, and (D,) how many have values."""
    import numpy as np

    low, high = np.where(np.isfinite(ends), ends, 0.0)
    is_flat = high <= low
    low, high = np.where(is_flat, low - 0.5, low), np.where(is_flat, high + 0.5, high)
    is_real = np.isfinite(part.values)
    positions = (np.where(is_real, part.values, low) - low) / (high - low) * bins
    numbers = np.clip(positions.astype(np.int64), 0, bins - 1)
    counts = np.add.reduceat(is_real.astype(np.int64), part.starts)
    lengths = np.diff([*part.starts, len(part.values)])
    weights = is_real / np.repeat(np.maximum(counts, 1), lengths, axis=0)
    sums = [
        np.bincount(numbers[:, dimension], weights[:, dimension], bins)
        for dimension in range(numbers.shape[1])
    ]
    return np.array(sums, np.float64), np.count_nonzero(counts, axis=0)


class TrajectoryTable:
    """Signals by episode.

    Args:
        lance_table: The Lance table "trajectories".
    """

    def __init__(self, lance_table: LanceTable) -> None:
        self._lance_table = lance_table
        self._reads = 0

    @cached_property
    def _offsets(self) -> VersionCache[_RowOffsets]:
        return VersionCache(_RowOffsets)

    @property
    def _table(self) -> TableWriter:
        return self._lance_table.writer

    def write(self, rows: Sequence[pa.Table]) -> None:
        """Write rows of `EpisodeTableRows.trajectories`. Raises StoreError when the table cannot be written."""
        import pyarrow as pa

        with lance_errors("trajectories"):
            self._table.add(pa.concat_tables(rows))

    def replace(self, rows: pa.Table) -> None:
        """Write rows in place of those of the same episodes, in one version. Raises StoreError."""
        with lance_errors("trajectories"):
            self._table.upsert("episode_id", rows)

    def delete(self, ids: Collection[str]) -> None:
        """Remove the signals of some episodes, which an interrupted run may have written. Raises StoreError."""
        where = in_condition("episode_id", ids)
        with lance_errors("trajectories"):
            if self._lance_table.dataset().count_rows(where):
                self._table.delete(where)

    def get(self, episode_id: str) -> Trajectory:
        """The signals of one episode. Raises RequestError for an unknown id."""
        for _, trajectory in self.read([episode_id]):
            return trajectory
        raise RequestError(
            f"no trajectory of episode {episode_id!r}", "`ares search` and the dashboard show ids"
        )

    def read(self, ids: Collection[str]) -> Iterator[tuple[str, Trajectory]]:
        """Signals of these episodes in the order of the ids, streamed; unknown ids are left out."""
        for chunk in batched(ids, _CHUNK):
            with lance_errors("trajectories"):
                dataset = self._lance_table.dataset()
                self._reads += 1
                if self._reads > _READS_WITHOUT_INDEX:
                    rows = self._offsets.get(dataset).find(chunk)
                    batches = dataset.take(rows.tolist()).to_batches() if len(rows) else []
                else:
                    batches = dataset.scanner(filter=in_condition("episode_id", chunk)).to_batches()
                trajectories = dict(pair for batch in batches for pair in trajectories_from_arrow(batch))
            for episode_id in chunk:
                if episode_id in trajectories:
                    yield episode_id, trajectories[episode_id]

    def scan_signal(self, signal: str, names: Sequence[str], ids: pa.Array) -> Iterator[SignalPart]:
        """Read a signal of all of some episodes that have these dimensions, in the order of the table.

        Args:
            signal: "state" or "action".
            names: Names of its dimensions, at least one.
            ids: Ids of the episodes.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        width, own_names = len(names), pa.array(names, pa.string())
        columns = ["episode_id", f"{signal}_names", signal]
        with lance_errors("trajectories"):
            scanner = self._lance_table.dataset().scanner(columns=columns, batch_size=_SCANNED)
            for batch in scanner.to_batches():
                is_alike = pc.and_(
                    pc.is_in(batch["episode_id"], value_set=ids),
                    pc.and_(
                        pc.equal(pc.list_value_length(batch[columns[1]]), width),
                        pc.greater(pc.list_value_length(batch[signal]), 0),
                    ),
                )
                rows = batch.filter(is_alike)
                same = pc.equal(
                    rows[columns[1]].flatten(),
                    pa.concat_arrays([own_names] * rows.num_rows or [own_names[:0]]),
                )
                rows = rows.filter(pa.array(np.asarray(same).reshape(-1, width).all(axis=1)))
                if rows.num_rows:
                    steps = np.asarray(pc.list_value_length(rows[signal])) // width
                    values = np.asarray(rows[signal].flatten()).reshape(-1, width)
                    yield SignalPart(rows["episode_id"].to_pylist(), values, np.cumsum(steps) - steps)

    def count(self) -> int:
        """Number of trajectories."""
        with lance_errors("trajectories"):
            return int(self._lance_table.dataset().count_rows())

    def delete_unknown(self, existing_ids: Callable[[Sequence[str]], Collection[str]]) -> int:
        """Remove the signals of episodes that do not exist. Returns how many.

        Args:
            existing_ids: Returns those of some ids that exist.
        """
        orphans: list[str] = []
        with lance_errors("trajectories"):
            for batch in self._lance_table.dataset().scanner(columns=["episode_id"]).to_batches():
                ids = batch["episode_id"].to_pylist()
                existing = existing_ids(ids)
                orphans += [episode_id for episode_id in ids if episode_id not in existing]
            for chunk in batched(orphans, 10_000):
                self._table.delete(in_condition("episode_id", chunk))
        return len(orphans)


class _RowOffsets:
    """Offsets of the rows of one version by hashes of their ids, 16 bytes a row: a filter compares every id.

    Args:
        dataset: That version.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        import numpy as np

        batches = dataset.scanner(columns=["episode_id"], scan_in_order=True).to_batches()
        parts = [_id_hashes(batch["episode_id"].to_pylist()) for batch in batches]
        hashes = np.concatenate(parts) if parts else np.empty(0, np.int64)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]

    def find(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """(N,) rising offsets of the rows with these ids, and rarely of others that have the same hash."""
        import numpy as np

        hashes = _id_hashes(ids)
        first, stop = (np.searchsorted(self._hashes, hashes, side=side) for side in ("left", "right"))
        parts = [self._order[start:end] for start, end in zip(first, stop, strict=True)]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _id_hashes(ids: Sequence[str]) -> NDArray[np.int64]:
    """(N,) hashes that hold within this process."""
    import numpy as np

    return np.fromiter(map(hash, ids), np.int64, len(ids))
