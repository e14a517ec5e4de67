"""VectorTable: the frame vectors of one embedding space, searched by cosine similarity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ares.errors import StoreError
from ares.store import filters
from ares.store.words import Row, best

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.table import Table
    from numpy.typing import NDArray

    from ares.store.tables import Tables

_TIES = ("episode_id", "camera", "seconds")


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
                raise self._another_length(table, row.vectors.shape[1])
        with filters.failures(self._name):
            _forget(table, given)
            table.add(_to_arrow(given, length))

    def count(self) -> int:
        """Number of frames with a vector."""
        dataset = self._tables.dataset(self._name)
        with filters.failures(self._name):
            return 0 if dataset is None else int(dataset.count_rows())

    def search(
        self, query: NDArray[np.float32], limit: int, episode_ids: Collection[str] | None = None
    ) -> list[Moment]:
        """Frames nearest to a vector; exact, equal scores in order of episode, camera and second.

        Args:
            query: (D,) vector of any length but zero.
            limit: Most frames.
            episode_ids: Only frames of these, or None for all.

        Raises:
            StoreError: The query has another length than the vectors.
        """
        table = self._table()
        if table is None or limit <= 0 or (episode_ids is not None and not episode_ids):
            return []
        where = None if episode_ids is None else filters.among("episode_id", episode_ids)

        def fetch(count: int) -> list[Row]:
            asked = table.search(query, query_type="vector")
            asked = asked.distance_type("cosine").bypass_vector_index()  # type: ignore[attr-defined]
            asked = asked.select([*_TIES, "_distance"]).limit(count)
            rows: list[Row] = (asked if where is None else asked.where(where, prefilter=True)).to_list()
            return rows

        if len(query) != table.schema.field("vector").type.list_size:
            raise self._another_length(table, len(query))
        with filters.failures(self._name):
            rows = best(fetch, limit, "_distance", _TIES, sign=1)
        return [Moment(**{name: row[name] for name in _TIES}, score=1.0 - row["_distance"]) for row in rows]

    def of(self, episode_id: str) -> Embedded:
        """The vectors of one episode in order of camera and second; empty when it has none."""
        import numpy as np

        found = self._read(filters.among("episode_id", [episode_id]))
        if found is None or not found.num_rows:
            return Embedded([], np.zeros(0), np.zeros((0, 0), np.float32))
        found = found.sort_by([("camera", "ascending"), ("seconds", "ascending")])
        return Embedded(found["camera"].to_pylist(), found["seconds"].to_numpy(), _matrix(found))

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
        sums = np.add.reduceat(_matrix(found)[order], starts, axis=0, dtype=np.float32)
        means = sums / np.diff(starts, append=len(numbers))[:, None]
        return dict(zip(rows.dictionary.to_pylist(), means.astype(np.float32), strict=True))

    def keep_only(self, done: Collection[str]) -> int:
        """Remove vectors of episodes that the log does not know as embedded, left by a crash. Returns how many rows."""
        table = self._table()
        if table is None:
            return 0
        with filters.failures(self._name):
            batches = table.to_lance().scanner(columns=["episode_id"]).to_batches()
            strangers: set[str] = set()
            for batch in batches:
                strangers.update(
                    each for each in batch["episode_id"].unique().to_pylist() if each not in done
                )
            before = table.count_rows()
            for chunk in filters.chunks(strangers, 10_000):
                table.delete(filters.among("episode_id", chunk))
            return int(before - table.count_rows())

    def _another_length(self, table: Table, length: int) -> StoreError:
        there = table.schema.field("vector").type.list_size
        return StoreError("vectors have another length", f"{self._name} holds {there}, but got {length}")

    def _table(self) -> Table | None:
        return self._tables.find(self._name)

    def _read(self, where: str) -> pa.Table | None:
        table = self._table()
        if table is None:
            return None
        with filters.failures(self._name):
            return table.to_lance().to_table(columns=[*_TIES, "vector"], filter=where)


def _matrix(rows: pa.Table) -> NDArray[np.float32]:
    """(N, D) vectors of some rows."""
    import pyarrow as pa

    column = rows["vector"].combine_chunks()
    values = column.flatten() if isinstance(column, pa.FixedSizeListArray) else column.values
    matrix: NDArray[np.float32] = values.to_numpy().reshape(rows.num_rows, -1)
    return matrix


def _schema(length: int) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("episode_id", pa.string()),
            ("camera", pa.string()),
            ("seconds", pa.float64()),
            ("vector", pa.list_(pa.float32(), length)),
        ]
    )


def _to_arrow(rows: Sequence[Vectors], length: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    flat = np.concatenate([np.ravel(row.vectors) for row in rows], dtype=np.float32)
    columns = [
        pa.array(_repeated((row.episode_id, len(row.vectors)) for row in rows), pa.string()),
        pa.array(_repeated((row.camera, len(row.vectors)) for row in rows), pa.string()),
        pa.array(np.concatenate([row.seconds for row in rows]), pa.float64()),
        pa.FixedSizeListArray.from_arrays(pa.array(flat), length),
    ]
    return pa.Table.from_arrays(columns, schema=_schema(length))


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
