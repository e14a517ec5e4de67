"""The vector table of captions and instructions: distinct texts, their ids in one version, and their ranking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from ares.store.lance.episodes import delete_rows
from ares.store.lance.lance_api import lance_errors
from ares.store.lance.row_index import RowSelection, VersionCache
from ares.store.lance.text import hash_texts
from ares.store.sql import batched, in_condition
from ares.store.vectors.index import FLAT_ROWS, refresh_index
from ares.store.vectors.knn import (
    BRUTE_FORCE_ROWS,
    IndexRecord,
    VectorSnapshot,
    VectorSnapshots,
    VectorTableState,
    count_table_vectors,
    dimension_error,
    to_matrix,
)

if TYPE_CHECKING:
    import duckdb
    import lance
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from ares.store.lance.table import CreateOnWriteTable


# Texts requested at first, and the factor by which that grows until enough were read.
_FIRST_COUNT, _GROWTH = 256, 4
# Up to this many text vectors are cached, 32 MB at 512 dimensions: reading them takes longer than comparing.
_MAX_CACHED_VECTORS = 16_384
# Tables whose text ids are cached: captions and instructions.
_MAX_CACHED_TABLES = 2


class TextIds:
    """Maps text hashes and row ids to text ids; a text id is the offset of the text in a scan, from 0 to T - 1.

    Args:
        dataset: One version of a text table, with T texts; 16 bytes per text stay in memory.
    """

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self.hashes = hash_texts(dataset, "text")
        self.row_ids: NDArray[np.uint64] = (
            dataset.scanner(columns=[], with_row_id=True, scan_in_order=True).to_table()["_rowid"].to_numpy()
        )
        self._dataset = dataset
        self._lock = Lock()
        self._cache: list[tuple[NDArray[np.uint64], NDArray[np.int32]]] = []

    def ids_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Text ids (N,) of the rows of another table, -1 for a text without a vector.

        Args:
            hashes: (N,) text hashes of those rows. The ids are cached by the identity of this array, which the table
                keeps for each of its versions.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        with self._lock:
            for cached_hashes, cached_ids in self._cache:
                if cached_hashes is hashes:
                    return cached_ids
            positions = pc.index_in(pa.array(hashes), value_set=pa.array(self.hashes)).fill_null(-1)
            ids: NDArray[np.int32] = positions.to_numpy(zero_copy_only=False).astype(np.int32)
            self._cache = [*self._cache, (hashes, ids)][-_MAX_CACHED_TABLES:]
            return ids

    def ids_at_rows(self, row_ids: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Text ids of the rows with these Lance row ids."""
        import numpy as np

        order, sorted_row_ids = self._sorted_row_ids
        return order[np.searchsorted(sorted_row_ids, row_ids)]

    @cached_property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors (T, D) of all texts; only read for tables of few texts."""
        import numpy as np

        batches = self._dataset.scanner(columns=["vector"], scan_in_order=True).to_batches()
        vectors = np.concatenate([to_matrix(batch["vector"]) for batch in batches])
        unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    @cached_property
    def _sorted_row_ids(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        import numpy as np

        order = np.argsort(self.row_ids, kind="stable")
        return order, self.row_ids[order]


@dataclass(frozen=True, slots=True, eq=False)
class TextSnapshot:
    """One version of a text table.

    Attributes:
        vectors: Searches the vectors of the texts.
        text_ids: Ids of the texts.
    """

    vectors: VectorSnapshot
    text_ids: TextIds

    def rank(
        self, query: NDArray[np.float32], text_mask: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """Texts by falling similarity: a cosine similarity to six digits, and the ids of all texts that have it.

        Args:
            query: (D,) float32.
            text_mask: (T,) whether a text takes part.
        """
        import numpy as np

        if len(text_mask) <= _MAX_CACHED_VECTORS and not self.vectors.segments:
            yield from self._rank_in_memory(query, text_mask)
            return
        remaining, total = text_mask.copy(), int(text_mask.sum())
        # So few texts are all compared anyway.
        count = total if total <= BRUTE_FORCE_ROWS else _FIRST_COUNT
        rows = None
        if total != len(text_mask):
            rows = RowSelection(self.text_ids.row_ids[text_mask], np.flatnonzero(text_mask))
        params = self.vectors.params_for(rows)
        while total:
            neighbours = self.vectors.search(query, min(count, total), rows, params)
            is_last = len(neighbours) < min(count, total) or count >= total
            scores, ids = (
                neighbours["score"].to_numpy(),
                self.text_ids.ids_at_rows(neighbours["_rowid"].to_numpy()),
            )
            # More texts may share the lowest score: they come with the next request.
            is_new = remaining[ids] & (is_last | (scores > scores[-1]))
            scores, ids = scores[is_new], ids[is_new]
            remaining[ids] = False
            for start, stop in _tie_ranges(scores):
                yield float(scores[start]), ids[start:stop]
            if is_last:
                return
            count *= _GROWTH

    def score_all(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Cosine similarity (T,) of every text with a vector (D,), to six digits."""
        import numpy as np

        if len(self.text_ids.row_ids) > _MAX_CACHED_VECTORS:
            return np.round(self.vectors.score_all(query), 6)
        return np.round(self._score_in_memory(query), 6)

    def _score_in_memory(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        """Cosine similarity (T,) of every cached vector, whatever is filtered, so that no filter changes a digit."""
        import numpy as np

        # Not by BLAS, whose threads block each other while the other rankers of a search need the cores.
        scores: NDArray[np.float64] = np.einsum(
            "td,d->t", self.text_ids.vectors, query / np.linalg.norm(query)
        ).astype(np.float64)
        return scores

    def _rank_in_memory(
        self, query: NDArray[np.float32], text_mask: NDArray[np.bool_]
    ) -> Iterator[tuple[float, NDArray[np.int64]]]:
        """The result of `rank` by comparing every cached vector."""
        import numpy as np

        scores = self._score_in_memory(query)
        ids = np.flatnonzero(text_mask)
        ids = ids[np.argsort(-np.round(scores[ids], 6), kind="stable")]
        rounded = np.round(scores[ids], 6)
        for start, stop in _tie_ranges(rounded):
            yield float(rounded[start]), ids[start:stop]


def _tie_ranges(scores: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Half-open ranges [start, stop) of equal scores in a sorted array."""
    import numpy as np

    ends = np.flatnonzero(np.diff(scores, append=np.nan)) + 1
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    return zip(starts.tolist(), ends.tolist(), strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A text column of another table whose texts get vectors.

    Attributes:
        table: Name of that table.
        column: Name of the column.
        dataset: Opens the newest version of the table; returns None while it does not exist.
    """

    table: str
    column: str
    dataset: Callable[[], lance.LanceDataset | None]


class TextVectorTable:
    """Vectors of distinct texts, one row per text: thousands of episodes share an instruction, so they are few.

    Args:
        table: The table; created when the first vectors determine their dimension.
        sources: The columns whose texts get vectors.
    """

    def __init__(self, table: CreateOnWriteTable, sources: Sequence[TextColumn]) -> None:
        self._table = table
        self._sources = sources
        self._snapshots = VectorSnapshots(table.dataset, lambda dataset: VectorSnapshot(dataset, ("_rowid",)))
        self._text_ids = VersionCache(TextIds)

    def texts_without_vectors(self, batch_size: int) -> Iterator[list[str]]:
        """Distinct texts of the source columns that have no vector yet, sorted, in batches."""
        import duckdb

        with lance_errors(self._table.name), duckdb.connect() as connection:
            selects = self._select_sources(connection)
            if not selects:
                return
            has_vectors = _register_column(connection, "embedded", self._table.dataset(), "text")
            missing = (
                f"({' UNION ALL '.join(selects)}) {'ANTI JOIN embedded USING (text)' if has_vectors else ''}"
            )
            texts = connection.sql(f"SELECT DISTINCT text FROM {missing} ORDER BY text")
            for batch in texts.to_arrow_reader(batch_size):
                if nonblank := [text for text in batch["text"].to_pylist() if text and text.strip()]:
                    yield nonblank

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (N, D) of texts that have none yet. Raises StoreError."""
        import pyarrow as pa

        # Not float16: texts lie close together, and against float16 vectors Lance rounds the query to float16 too.
        schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32(), vectors.shape[1]))])
        table = self._table.create(schema)
        vector_type = table.schema.field("vector").type
        if vector_type.list_size != vectors.shape[1]:
            raise dimension_error(self._table.name, vector_type.list_size, vectors.shape[1])
        flat = pa.array(vectors.ravel(), vector_type.value_type)
        columns = [
            pa.array(texts, pa.string()),
            pa.FixedSizeListArray.from_arrays(flat, vector_type.list_size),
        ]
        with lance_errors(self._table.name):
            table.add(pa.Table.from_arrays(columns, schema=table.schema))

    def read(self, texts: Collection[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors (D,) of those of some texts that have one."""
        dataset = self._table.dataset()
        vectors: dict[str, NDArray[np.float32]] = {}
        if dataset is None:
            return vectors
        with lance_errors(self._table.name):
            for chunk in batched(texts, 10_000):
                rows = dataset.to_table(filter=in_condition("text", chunk))
                vectors.update(zip(rows["text"].to_pylist(), to_matrix(rows["vector"]), strict=True))
        return vectors

    def _select_sources(self, connection: duckdb.DuckDBPyConnection) -> list[str]:
        """A SELECT of the texts of each source column that there is."""
        return [
            f"SELECT {source.column} AS text FROM {source.table}"
            for source in self._sources
            if _register_column(connection, source.table, source.dataset(), source.column)
        ]

    def delete_unused(self, kept_texts: Sequence[str]) -> int:
        """Delete the vectors of texts that stand in no source column any more. Returns their number.

        Args:
            kept_texts: Texts that are kept in any case.
        """
        import duckdb
        import pyarrow as pa

        table = self._table.writer()
        if table is None:
            return 0
        with lance_errors(self._table.name), duckdb.connect() as connection:
            connection.register("kept", pa.table({"text": pa.array(kept_texts, pa.string())}))
            selects = self._select_sources(connection)
            _register_column(connection, "embedded", self._table.dataset(), "text")
            used = " UNION ALL ".join(["SELECT text FROM kept", *selects])
            unused = connection.sql(f"SELECT text FROM embedded ANTI JOIN ({used}) USING (text)").fetchall()
        texts = [str(row[0]) for row in unused]
        delete_rows(table, "text", texts)
        return len(texts)

    def snapshot(self, dimension: int) -> TextSnapshot | None:
        """The newest version, or None without texts. Raises StoreError for queries of another dimension."""
        with lance_errors(self._table.name):
            vectors = self._snapshots.current()
            if vectors is None or not vectors.row_count:
                return None
            if dimension != vectors.dimension:
                raise dimension_error(self._table.name, vectors.dimension, dimension)
            return TextSnapshot(vectors, self._text_ids.get(vectors.dataset))

    def refresh(self, flat_rows: int = FLAT_ROWS) -> IndexRecord | None:
        """Build or extend the index and measure its recall, as `VectorTable.refresh`. Raises StoreError."""
        table = self._table.writer()
        if table is None:
            return None
        with lance_errors(self._table.name):
            return refresh_index(table, self._snapshots.require, flat_rows)

    def state(self) -> VectorTableState:
        """Number of texts and of those that the index covers, and what was measured of it."""
        with lance_errors(self._table.name):
            return count_table_vectors(self._snapshots.current())


def _register_column(
    connection: DuckDBPyConnection, name: str, dataset: lance.LanceDataset | None, column: str
) -> bool:
    """Let DuckDB read a column of a dataset under a name; False when there is no dataset."""
    if dataset is not None:
        connection.register(name, dataset.scanner(columns=[column]).to_reader())
    return dataset is not None
