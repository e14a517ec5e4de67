"""The trajectories table: the signals of every episode, one row each, float32 row-major."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

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
        return self._lance_table.writer()

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
