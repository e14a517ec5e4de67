"""TrajectoryTable: the signals of every episode, one row each, float32 row-major."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ares.episode import Trajectory
from ares.errors import RequestError
from ares.store import arrow, filters
from ares.store.stored import Stored

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import Table

# Rows read at once: a hundred long trajectories are some tens of megabytes.
_CHUNK = 100


class TrajectoryTable:
    """Signals by episode.

    Args:
        stored: The Lance table "trajectories".
    """

    def __init__(self, stored: Stored) -> None:
        self._stored = stored

    @property
    def _table(self) -> Table:
        return self._stored.writer()

    def write(self, rows: Sequence[pa.Table]) -> None:
        """Write rows of `ares.store.packed.Packed`. Raises StoreError when the table cannot be written."""
        import pyarrow as pa

        with filters.failures("trajectories"):
            self._table.add(pa.concat_tables(rows))

    def forget(self, ids: Collection[str]) -> None:
        """Remove what an interrupted run may have left of some episodes. Raises StoreError."""
        where = filters.among("episode_id", ids)
        with filters.failures("trajectories"):
            if self._table.count_rows(where):
                self._table.delete(where)

    def get(self, episode_id: str) -> Trajectory:
        """The signals of one episode. Raises RequestError for an unknown id."""
        for _, trajectory in self.read([episode_id]):
            return trajectory
        raise RequestError(
            f"no trajectory of episode {episode_id!r}", "`ares search` and the dashboard show ids"
        )

    def read(self, ids: Collection[str]) -> Iterator[tuple[str, Trajectory]]:
        """Signals of these episodes in the order asked, streamed; unknown ids are left out."""
        for chunk in filters.chunks(ids, _CHUNK):
            found = dict(self._rows(chunk))
            for episode_id in chunk:
                if episode_id in found:
                    yield episode_id, found[episode_id]

    def count(self) -> int:
        """Number of trajectories."""
        with filters.failures("trajectories"):
            return int(self._stored.dataset().count_rows())

    def keep_only(self, known: Callable[[Sequence[str]], Collection[str]]) -> int:
        """Remove the signals of episodes that are not known. Returns how many.

        Args:
            known: Which of some ids are.
        """
        orphans: list[str] = []
        with filters.failures("trajectories"):
            for batch in self._stored.dataset().scanner(columns=["episode_id"]).to_batches():
                ids = batch["episode_id"].to_pylist()
                there = known(ids)
                orphans += [each for each in ids if each not in there]
            for chunk in filters.chunks(orphans, 10_000):
                self._table.delete(filters.among("episode_id", chunk))
        return len(orphans)

    def _rows(self, ids: Sequence[str]) -> Iterator[tuple[str, Trajectory]]:
        with filters.failures("trajectories"):
            dataset = self._stored.dataset()
            for batch in dataset.scanner(filter=filters.among("episode_id", ids)).to_batches():
                yield from arrow.trajectories_from_arrow(batch)
