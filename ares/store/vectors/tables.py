"""The vector table of the frames of an embedding space."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ares.store.lance.lance_api import lance_errors
from ares.store.sql import batched, in_condition, quote_literal
from ares.store.vectors.index import FLAT_ROWS, refresh_index
from ares.store.vectors.knn import (
    FRAME_KEY,
    IndexRecord,
    VectorSnapshot,
    VectorSnapshots,
    VectorTableState,
    count_table_vectors,
    dimension_error,
    to_matrix,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance.table import CreateOnWriteTable, TableWriter


_BATCH_FRAMES = 8_192


class CameraVectors(Protocol):
    """Vectors of frames of one camera of one episode."""

    @property
    def episode_id(self) -> str:
        """Id of the episode."""

    @property
    def camera(self) -> str:
        """Camera name."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Times (N,) of the frames, in seconds from the start of the episode."""

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors (N, D)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A frame that matches a query.

    Attributes:
        episode_id: Id of the episode.
        camera: Camera name.
        seconds: Seconds from the start of the episode.
        score: Cosine similarity, -1 to 1.
    """

    episode_id: str
    camera: str
    seconds: float
    score: float


class EpisodeVectors(NamedTuple):
    """The frame vectors of one episode, sorted by camera and second.

    Attributes:
        cameras: N camera names.
        seconds: (N,) float64 seconds from the start of the episode.
        vectors: (N, D) float32.
    """

    cameras: list[str]
    seconds: NDArray[np.float64]
    vectors: NDArray[np.float32]


class VectorTable:
    """Frame vectors of one embedding space; one row per frame.

    Args:
        table: The table; created when the first vectors determine their dimension.
    """

    def __init__(self, table: CreateOnWriteTable) -> None:
        self._table = table
        self._snapshots = VectorSnapshots(table.dataset, VectorSnapshot)

    def add(self, rows: Sequence[CameraVectors]) -> None:
        """Write vectors of frames, replacing those of the same episodes and cameras.

        Raises:
            StoreError: The vectors have another dimension than the stored ones, or the table cannot be written.
        """
        nonempty = [row for row in rows if len(row.vectors)]
        if not nonempty:
            return
        table, vector_type = self._open_for(nonempty)
        with lance_errors(self._table.name):
            _delete_existing(table, nonempty)
            table.add(_to_arrow(nonempty, vector_type))

    def _open_for(self, rows: Sequence[CameraVectors]) -> tuple[TableWriter, pa.FixedSizeListType]:
        """The table, created where it does not exist, and the type of its vectors. Raises StoreError as `add`."""
        width = rows[0].vectors.shape[1]
        table = self._table.create(_frame_schema(width))
        # Vectors that were all removed leave a table that takes those of another length.
        if table.schema.field("vector").type.list_size != width and not table.newest().count_rows():
            table.overwrite(_frame_schema(width))
        vector_type = table.schema.field("vector").type
        for row in rows:
            if row.vectors.shape[1] != vector_type.list_size:
                raise dimension_error(self._table.name, vector_type.list_size, row.vectors.shape[1])
        return table, vector_type

    def count(self) -> int:
        """Number of frames with a vector."""
        dataset = self._table.dataset()
        with lance_errors(self._table.name):
            return 0 if dataset is None else int(dataset.count_rows())

    def search(
        self, query: NDArray[np.float32], limit: int, episode_ids: Collection[str] | None = None
    ) -> list[Moment]:
        """The frames nearest to a vector, best first; equal scores by episode, camera and second.

        Exact, unless the table has an index: then approximate, but for rows newer than the index.

        Args:
            query: (D,) vector of any length but zero.
            limit: Maximum number of frames.
            episode_ids: Only frames of these episodes, or None for all.

        Raises:
            StoreError: The query has another dimension than the vectors.
        """
        return self._search(query, limit, episode_ids, per_episode=False)

    def search_episodes(
        self, query: NDArray[np.float32], limit: int, episode_ids: Collection[str] | None = None
    ) -> list[Moment]:
        """The best frame of each of the best `limit` episodes; otherwise as `search`."""
        return self._search(query, limit, episode_ids, per_episode=True)

    def score_episodes(
        self, query: NDArray[np.float32], limit: int
    ) -> tuple[pa.ChunkedArray, NDArray[np.float64]]:
        """Ids (N,) of the episodes and the score (N,) of the best frame of each, in no order.

        Args:
            query: (D,) vector of any length but zero.
            limit: With an index only the best `limit` episodes are scored; without one all of them.

        Raises:
            StoreError: The query has another dimension than the vectors.
        """
        import numpy as np
        import pyarrow as pa

        with lance_errors(self._table.name):
            snapshot = self._snapshot_for(query)
            if snapshot is None:
                return pa.chunked_array([], pa.string()), np.zeros(0)
            params = snapshot.params_for(None)
            if params is not None:
                rows = snapshot.search_episodes(query, limit, None, params)
                return rows["episode_id"], rows["score"].to_numpy()
            return snapshot.score_all_episodes(query)

    def _search(
        self,
        query: NDArray[np.float32],
        limit: int,
        episode_ids: Collection[str] | None,
        per_episode: bool,
    ) -> list[Moment]:
        if limit <= 0 or (episode_ids is not None and not episode_ids):
            return []
        with lance_errors(self._table.name):
            snapshot = self._snapshot_for(query)
            if snapshot is None:
                return []
            rows = None if episode_ids is None else snapshot.row_index.select(episode_ids)
            if rows is not None and not len(rows.row_ids):
                return []
            search = snapshot.search_episodes if per_episode else snapshot.search
            neighbours = search(query, limit, rows, snapshot.params_for(rows))
        return [Moment(**row) for row in neighbours.to_pylist()]

    def score_frames(self, query: NDArray[np.float32], episode_ids: Collection[str]) -> Iterator[Moment]:
        """Every frame of a few episodes with its exact score, sorted within batches of some thousand; see `search`."""
        with lance_errors(self._table.name):
            snapshot = self._snapshot_for(query)
            if snapshot is None:
                return
            for batch in snapshot.row_index.select(episode_ids).batches(_BATCH_FRAMES):
                yield from (Moment(**row) for row in snapshot.score_rows(query, batch).to_pylist())

    def _snapshot_for(self, query: NDArray[np.float32]) -> VectorSnapshot | None:
        """The newest version, or None without vectors. Raises StoreError when the query has another dimension."""
        snapshot = self._snapshots.current()
        if snapshot is None or not snapshot.row_count:
            return None
        if len(query) != snapshot.dimension:
            raise dimension_error(self._table.name, snapshot.dimension, len(query))
        return snapshot

    def refresh(self, flat_rows: int = FLAT_ROWS) -> IndexRecord | None:
        """Build or extend the index and measure its recall, at the end of a job; see `refresh_index`.

        Raises:
            StoreError: The table cannot be written.
        """
        table = self._table.writer()
        if table is None:
            return None
        with lance_errors(self._table.name):
            return refresh_index(table, self._snapshots.require, flat_rows)

    def state(self) -> VectorTableState:
        """Number of rows and of those that the index covers, and what was measured of it."""
        with lance_errors(self._table.name):
            return count_table_vectors(self._snapshots.current())

    def read(self, episode_id: str) -> EpisodeVectors:
        """The vectors of one episode, sorted by camera and second; empty when it has none."""
        import numpy as np

        none = EpisodeVectors([], np.zeros(0), np.zeros((0, 0), np.float32))
        return self.read_episodes([episode_id]).get(episode_id, none)

    def read_episodes(self, episode_ids: Collection[str]) -> dict[str, EpisodeVectors]:
        """The vectors of some hundred episodes, each as `read`; episodes without vectors are left out."""
        import numpy as np

        rows = self._read_rows(episode_ids)
        if rows is None or not rows.num_rows:
            return {}
        order = [("episode_id", "ascending"), ("camera", "ascending"), ("seconds", "ascending")]
        rows = rows.sort_by(order)
        ids, cameras = (rows[name].to_pylist() for name in ("episode_id", "camera"))
        seconds, vectors = rows["seconds"].to_numpy(), to_matrix(rows["vector"])
        codes = rows["episode_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        return {
            ids[start]: EpisodeVectors(cameras[start:stop], seconds[start:stop], vectors[start:stop])
            for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True)
        }

    def mean_vectors(self, episode_ids: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """The mean (D,) over all frame vectors of each episode; episodes without vectors are left out."""
        import numpy as np

        rows = self._read_rows(episode_ids)
        if rows is None or not rows.num_rows:
            return {}
        encoded = rows["episode_id"].combine_chunks().dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        sums = np.add.reduceat(to_matrix(rows["vector"])[order], starts, axis=0, dtype=np.float32)
        means = sums / np.diff(starts, append=len(codes))[:, None]
        return dict(zip(encoded.dictionary.to_pylist(), means.astype(np.float32), strict=True))

    def scan(self) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """The episodes of all frames, B at a time, with the vectors (B, D) of these frames."""
        dataset = self._table.dataset()
        with lance_errors(self._table.name):
            for batch in (
                dataset.to_batches(["episode_id", "vector"], batch_size=_BATCH_FRAMES) if dataset else ()
            ):
                yield batch["episode_id"].to_pylist(), to_matrix(batch["vector"])

    def delete_unknown(self, existing_ids: Callable[[Sequence[str]], Collection[str]]) -> int:
        """Delete the vectors of episodes that are not to have any. Returns the number of rows.

        Args:
            existing_ids: Returns those of some episode ids that keep theirs, such as those that the log records.
        """
        table = self._table.writer()
        if table is None:
            return 0
        with lance_errors(self._table.name):
            batches = table.newest().scanner(columns=["episode_id"]).to_batches()
            unknown: set[str] = set()
            for batch in batches:
                ids = batch["episode_id"].unique().to_pylist()
                unknown |= set(ids).difference(existing_ids(ids))
            row_count = table.newest().count_rows()
            for chunk in batched(unknown, 10_000):
                table.delete(in_condition("episode_id", chunk))
            return int(row_count - table.newest().count_rows())

    def _read_rows(self, episode_ids: Collection[str]) -> pa.Table | None:
        dataset = self._table.dataset()
        if dataset is None:
            return None
        where = in_condition("episode_id", episode_ids)
        with lance_errors(self._table.name):
            return dataset.to_table(columns=[*FRAME_KEY, "vector"], filter=where)


def _frame_schema(dimension: int) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("episode_id", pa.string()),
            ("camera", pa.string()),
            ("seconds", pa.float64()),
            # Half precision costs no recall: docs/why/009-vector-index.md.
            ("vector", pa.list_(pa.float16(), dimension)),
        ]
    )


def _to_arrow(rows: Sequence[CameraVectors], vector_type: pa.FixedSizeListType) -> pa.Table:
    """Rows in the types of the table; tables of an older version store float32."""
    import numpy as np
    import pyarrow as pa

    dtype = vector_type.value_type.to_pandas_dtype()
    flat = np.concatenate([np.ravel(row.vectors) for row in rows], dtype=dtype, casting="same_kind")
    columns = [
        pa.array(_repeat_values((row.episode_id, len(row.vectors)) for row in rows), pa.string()),
        pa.array(_repeat_values((row.camera, len(row.vectors)) for row in rows), pa.string()),
        pa.array(np.concatenate([row.seconds for row in rows]), pa.float64()),
        pa.FixedSizeListArray.from_arrays(pa.array(flat), vector_type.list_size),
    ]
    return pa.Table.from_arrays(columns, names=[*FRAME_KEY, "vector"])


def _repeat_values(values: Iterable[tuple[str, int]]) -> list[str]:
    return [value for value, count in values for _ in range(count)]


def _delete_existing(table: TableWriter, rows: Sequence[CameraVectors]) -> None:
    for where in _existing_filters(table, rows):
        table.delete(where)


def _existing_filters(table: TableWriter, rows: Sequence[CameraVectors]) -> Iterator[str]:
    """Filters of the vectors that the table has of the same episodes and cameras."""
    cameras: dict[str, list[str]] = {}
    for row in rows:
        cameras.setdefault(row.camera, []).append(row.episode_id)
    for camera, ids in cameras.items():
        where = f"camera = {quote_literal(camera)} AND {in_condition('episode_id', ids)}"
        if table.newest().count_rows(where):
            yield where
