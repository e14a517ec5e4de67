"""The vectors of the distinct captions and instructions in one embedding space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.store.lance import VersionCache, delete_rows, lance_errors
from ares.store.vectors.knn import VectorSnapshot
from ares.store.vectors.maintenance import FLAT_ROWS, refresh_index
from ares.store.vectors.recall import TARGET
from ares.store.vectors.snapshots import VectorSnapshots, VectorTableState, dimension_error, table_state
from ares.store.vectors.text_ids import TextIds, TextSnapshot
from ares.store.vectors.tuning import IndexTuning

if TYPE_CHECKING:
    import lance
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from ares.store.lance import LazyLanceTable


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


class TextTable:
    """Vectors of distinct texts, one row per text: thousands of episodes share an instruction, so they are few.

    Args:
        table: The table; created when the first vectors determine their dimension.
        sources: The columns whose texts get vectors.
    """

    def __init__(self, table: LazyLanceTable, sources: Sequence[TextColumn]) -> None:
        self._table = table
        self._sources = sources
        self._snapshots = VectorSnapshots(
            table.dataset, lambda dataset: VectorSnapshot(dataset, ("_rowid",), "text")
        )
        self._text_ids = VersionCache(TextIds)

    def texts_without_vectors(self, batch_size: int) -> Iterator[list[str]]:
        """Distinct texts of the source columns that have no vector yet, sorted, in batches."""
        import duckdb

        with lance_errors(self._table.name), duckdb.connect() as connection:
            selects = [
                f"SELECT {source.column} AS text FROM {source.table}"
                for source in self._sources
                if _register(connection, source.table, source.dataset(), source.column)
            ]
            if not selects:
                return
            has_vectors = _register(connection, "embedded", self._table.dataset(), "text")
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
            selects = [
                f"SELECT {source.column} AS text FROM {source.table}"
                for source in self._sources
                if _register(connection, source.table, source.dataset(), source.column)
            ]
            _register(connection, "embedded", self._table.dataset(), "text")
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

    def refresh(self, flat_rows: int = FLAT_ROWS, target: float = TARGET) -> IndexTuning | None:
        """Build or extend the index and measure its recall, as `VectorTable.refresh`. Raises StoreError."""
        table = self._table.writer()
        if table is None:
            return None
        with lance_errors(self._table.name):
            return refresh_index(table, self._snapshots.require, flat_rows, target)

    def state(self) -> VectorTableState:
        """Number of texts and of those that the index covers, and the measured index parameters."""
        with lance_errors(self._table.name):
            return table_state(self._snapshots.current())


def _register(
    connection: DuckDBPyConnection, name: str, dataset: lance.LanceDataset | None, column: str
) -> bool:
    """Let DuckDB read a column of a dataset under a name; False when there is no dataset."""
    if dataset is not None:
        connection.register(name, dataset.scanner(columns=[column]).to_reader())
    return dataset is not None
