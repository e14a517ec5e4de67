"""VectorTable: the frame vectors of one embedding space, searched by cosine similarity."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ares.errors import StoreError
from ares.store import filters
from ares.store.latest import Latest, TableState, state_of
from ares.store.nearest import PLACE, Asked, Nearest, matrix
from ares.store.recall import TARGET
from ares.store.refresh import FLAT_ROWS, refresh
from ares.store.rows import Chosen
from ares.store.tuning import Tuning

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.table import Table
    from numpy.typing import NDArray

    from ares.store.tables import Tables

_FRAMES_AT_ONCE = 8_192


class Vectors(Protocol):
    """Embedded frames of one camera of one episode."""

    @property
    def episode_id(self) -> str:
        """The episode."""

    @property
    def camera(self) -> str:
        """Camera name."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """(N,) seconds from the start of the episode."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(N, D) of unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A frame that fits a query.

    Attributes:
        episode_id: The episode.
        camera: Camera name.
        seconds: Seconds from the start of the episode.
        score: Cosine similarity, -1 to 1.
    """

    episode_id: str
    camera: str
    seconds: float
    score: float


class Embedded(NamedTuple):
    """The vectors of one episode, by camera and second.

    Attributes:
        cameras: N camera names.
        seconds: (N,) float64 seconds from the start of the episode.
        vectors: (N, D) float32.
    """

    cameras: list[str]
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]


class VectorTable:
    """Frame vectors of one space; one row per frame.

    Args:
        tables: The tables of the workspace.
        name: Name of this one, made when the first vectors tell their length.
    """

    def __init__(self, tables: Tables, name: str) -> None:
        self._tables = tables
        self._name = name
        self._latest = Latest(lambda: tables.dataset(name), Nearest)

    def add(self, rows: Sequence[Vectors]) -> None:
        """Write vectors of frames, in place of those that the same episodes and cameras had.

        Raises:
            StoreError: Vectors of another length than those that are there, or the table cannot be written.
        """
        given = [row for row in rows if len(row.vectors)]
        if not given:
            return
        table = self._tables.open(self._name, _schema(given[0].vectors.shape[1]))
        length = table.schema.field("vector").type.list_size
        for row in given:
            if row.vectors.shape[1] != length:
                raise self._another_length(length, row.vectors.shape[1])
        with filters.failures(self._name):
            _forget(table, given)
            table.add(_to_arrow(given, table.schema.field("vector").type))

    def count(self) -> int:
        """Number of frames with a vector."""
        dataset = self._tables.dataset(self._name)
        with filters.failures(self._name):
            return 0 if dataset is None else int(dataset.count_rows())

    def search(
        self, query: NDArray[np.float32], limit: int, episode_ids: Collection[str] | None = None
    ) -> list[Moment]:
        """Frames nearest to a vector, equal scores in order of episode, camera and second.

        Exact, unless the table has an index: then as `Tuning` measured it, what is newer than the index exactly.

        Args:
            query: (D,) vector of any length but zero.
            limit: Most frames.
            episode_ids: Only frames of these, or None for all.

        Raises:
            StoreError: The query has another length than the vectors.
        """
        return self._ranked(Nearest.best, query, limit, episode_ids)

    def search_episodes(
        self, query: NDArray[np.float32], limit: int, episode_ids: Collection[str] | None = None
    ) -> list[Moment]:
        """The best frame of each of the best episodes, however many frames of one episode are alike; see `search`."""
        return self._ranked(Nearest.best_episodes, query, limit, episode_ids)

    def _ranked(
        self,
        rank: Callable[[Nearest, NDArray[np.float32], int, Chosen | None, Asked | None], pa.Table],
        query: NDArray[np.float32],
        limit: int,
        episode_ids: Collection[str] | None,
    ) -> list[Moment]:
        if limit <= 0 or (episode_ids is not None and not episode_ids):
            return []
        with filters.failures(self._name):
            near = self._latest.look()
            if near is None or not near.rows:
                return []
            if len(query) != near.length:
                raise self._another_length(near.length, len(query))
            chosen = None if episode_ids is None else near.places.of(episode_ids)
            if chosen is not None and not len(chosen.row_ids):
                return []
            found = rank(near, query, limit, chosen, near.asked(chosen, rank is Nearest.best_episodes))
        return [Moment(**row) for row in found.to_pylist()]

    def frames(self, query: NDArray[np.float32], episode_ids: Collection[str]) -> Iterator[Moment]:
        """Every frame of a few episodes with its exact score, best first among some thousands; see `search`."""
        with filters.failures(self._name):
            near = self._latest.look()
            if near is None or not near.rows:
                return
            if len(query) != near.length:
                raise self._another_length(near.length, len(query))
            for part in near.places.of(episode_ids).parts(_FRAMES_AT_ONCE):
                yield from (Moment(**row) for row in near.compared(query, part).to_pylist())

    def refresh(self, flat_rows: int = FLAT_ROWS, target: float = TARGET) -> Tuning | None:
        """Build or extend the index and measure its recall; a job calls this at its end. See `ares.store.refresh`.

        Raises:
            StoreError: The table cannot be written.
        """
        table = self._table()
        if table is None:
            return None
        with filters.failures(self._name):
            return refresh(table, self._look_again, flat_rows, target)

    def state(self) -> TableState:
        """Rows, how many of them the index covers, and what was measured of it."""
        with filters.failures(self._name):
            return state_of(self._latest.look())

    def _look_again(self) -> Nearest:
        return self._latest.there()

    def of(self, episode_id: str) -> Embedded:
        """The vectors of one episode in order of camera and second; empty when it has none."""
        import numpy as np

        found = self._read(filters.among("episode_id", [episode_id]))
        if found is None or not found.num_rows:
            return Embedded([], np.zeros(0), np.zeros((0, 0), np.float32))
        found = found.sort_by([("camera", "ascending"), ("seconds", "ascending")])
        return Embedded(found["camera"].to_pylist(), found["seconds"].to_numpy(), matrix(found["vector"]))

    def means(self, episode_ids: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """The mean vector (D,) of each of some episodes, over all their frames; those without any are left out."""
        import numpy as np

        found = self._read(filters.among("episode_id", episode_ids))
        if found is None or not found.num_rows:
            return {}
        rows = found["episode_id"].combine_chunks().dictionary_encode()
        numbers = rows.indices.to_numpy()
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        sums = np.add.reduceat(matrix(found["vector"])[order], starts, axis=0, dtype=np.float32)
        means = sums / np.diff(starts, append=len(numbers))[:, None]
        return dict(zip(rows.dictionary.to_pylist(), means.astype(np.float32), strict=True))

    def keep_only(self, known: Callable[[Sequence[str]], Collection[str]]) -> int:
        """Remove vectors of episodes that the log does not know as embedded, left by a crash. Returns how many rows.

        Args:
            known: Which of some episodes it knows.
        """
        table = self._table()
        if table is None:
            return 0
        with filters.failures(self._name):
            batches = table.to_lance().scanner(columns=["episode_id"]).to_batches()
            strangers: set[str] = set()
            for batch in batches:
                ids = batch["episode_id"].unique().to_pylist()
                strangers |= set(ids).difference(known(ids))
            before = table.count_rows()
            for chunk in filters.chunks(strangers, 10_000):
                table.delete(filters.among("episode_id", chunk))
            return int(before - table.count_rows())

    def _another_length(self, there: int, given: int) -> StoreError:
        return StoreError("vectors have another length", f"{self._name} holds {there}, but got {given}")

    def _table(self) -> Table | None:
        return self._tables.find(self._name)

    def _read(self, where: str) -> pa.Table | None:
        table = self._table()
        if table is None:
            return None
        with filters.failures(self._name):
            return table.to_lance().to_table(columns=[*PLACE, "vector"], filter=where)


def _schema(length: int) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("episode_id", pa.string()),
            ("camera", pa.string()),
            ("seconds", pa.float64()),
            # Half precision costs no recall: docs/why/009-vector-index.md.
            ("vector", pa.list_(pa.float16(), length)),
        ]
    )


def _to_arrow(rows: Sequence[Vectors], kind: pa.FixedSizeListType) -> pa.Table:
    """Rows as the table keeps them; one made by an older version keeps float32."""
    import numpy as np
    import pyarrow as pa

    number = kind.value_type.to_pandas_dtype()
    flat = np.concatenate([np.ravel(row.vectors) for row in rows], dtype=number, casting="same_kind")
    columns = [
        pa.array(_repeated((row.episode_id, len(row.vectors)) for row in rows), pa.string()),
        pa.array(_repeated((row.camera, len(row.vectors)) for row in rows), pa.string()),
        pa.array(np.concatenate([row.seconds for row in rows]), pa.float64()),
        pa.FixedSizeListArray.from_arrays(pa.array(flat), kind.list_size),
    ]
    return pa.Table.from_arrays(columns, names=[*PLACE, "vector"])


def _repeated(values: Iterable[tuple[str, int]]) -> list[str]:
    return [value for value, times in values for _ in range(times)]


def _forget(table: Table, rows: Sequence[Vectors]) -> None:
    cameras: dict[str, list[str]] = {}
    for row in rows:
        cameras.setdefault(row.camera, []).append(row.episode_id)
    for camera, ids in cameras.items():
        where = f"camera = {filters.literal(camera)} AND {filters.among('episode_id', ids)}"
        if table.count_rows(where):
            table.delete(where)
