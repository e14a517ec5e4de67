"""The trajectories table: the signals of every episode, one row each, float32 row-major."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ares.episode import Trajectory
from ares.errors import RequestError
from ares.store.filters import batched, in_list
from ares.store.lance import schema as arrow
from ares.store.lance.lance_api import lance_errors
from ares.store.lance.table import LanceTable

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.lance.table import TableWriter

# Rows that are read at once: a hundred long trajectories are some tens of megabytes.
_CHUNK = 100


class TrajectoryTable:
    """Signals by episode.

    Args:
        lance_table: The Lance table "trajectories".
    """

    def __init__(self, lance_table: LanceTable) -> None:
        self._lance_table = lance_table

    @property
    def _table(self) -> TableWriter:
        return self._lance_table.writer

    def write(self, rows: Sequence[pa.Table]) -> None:
        """Write rows of `EpisodeBatch.trajectories`. Raises StoreError when the table cannot be written."""
        import pyarrow as pa

        with lance_errors("trajectories"):
            self._table.add(pa.concat_tables(rows))

    def delete(self, ids: Collection[str]) -> None:
        """Remove the signals of some episodes, which an interrupted run may have written. Raises StoreError."""
        where = in_list("episode_id", ids)
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
            trajectories = dict(self._read_batch(chunk))
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
                self._table.delete(in_list("episode_id", chunk))
        return len(orphans)

    def _read_batch(self, ids: Sequence[str]) -> Iterator[tuple[str, Trajectory]]:
        with lance_errors("trajectories"):
            dataset = self._lance_table.dataset()
            for batch in dataset.scanner(filter=in_list("episode_id", ids)).to_batches():
                yield from arrow.trajectories_from_arrow(batch)
