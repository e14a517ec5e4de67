"""TextTable: the vector of each different text that was said of episodes, in one embedding space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.errors import StoreError
from ares.store import filters
from ares.store.known import Known, Numbers
from ares.store.latest import Latest, TableState, state_of
from ares.store.nearest import Nearest
from ares.store.newest import Newest
from ares.store.recall import TARGET
from ares.store.refresh import FLAT_ROWS, refresh
from ares.store.tuning import Tuning

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from ares.store.tables import Tables

_SAID = (("episodes", "instruction"), ("segments", "text"))


class TextTable:
    """Different texts with their vectors; a robot is told the same thousand times, so they are few.

    Args:
        tables: The tables of the workspace.
        name: Name of this one, made when the first vectors tell their length.
    """

    def __init__(self, tables: Tables, name: str) -> None:
        self._tables = tables
        self._name = name
        self._latest = Latest(lambda: tables.dataset(name), lambda there: Nearest(there, ("_rowid",), "text"))
        self._newest = Newest(Numbers)

    def missing(self, count: int) -> Iterator[list[str]]:
        """Captions and instructions that have no vector yet, each once, at most that many at a time."""
        import duckdb

        with filters.failures(self._name), duckdb.connect() as connection:
            there = [
                f"SELECT {column} AS text FROM {table}"
                for table, column in _SAID
                if self._register(connection, table, table, column)
            ]
            if not there:
                return
            known = self._register(connection, "known", self._name, "text")
            new = f"({' UNION ALL '.join(there)}) {'ANTI JOIN known USING (text)' if known else ''}"
            said = connection.sql(f"SELECT DISTINCT text FROM {new} ORDER BY text")
            for batch in said.to_arrow_reader(count):
                if texts := [text for text in batch["text"].to_pylist() if text and text.strip()]:
                    yield texts

    def _register(self, connection: DuckDBPyConnection, name: str, table: str, column: str) -> bool:
        """Let DuckDB read a column of a table, where there is one."""
        dataset = self._tables.dataset(table)
        if dataset is not None:
            connection.register(name, dataset.scanner(columns=[column]).to_reader())
        return dataset is not None

    def add(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Write vectors (N, D) of texts that are not there yet. Raises StoreError."""
        import pyarrow as pa

        # Not halves: texts lie close together, and beside halves Lance rounds the query to halves too.
        schema = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32(), vectors.shape[1]))])
        table = self._tables.open(self._name, schema)
        kind = table.schema.field("vector").type
        if kind.list_size != vectors.shape[1]:
            raise self._another_length(kind.list_size, vectors.shape[1])
        flat = pa.array(vectors.ravel(), kind.value_type)
        rows = [pa.array(texts, pa.string()), pa.FixedSizeListArray.from_arrays(flat, kind.list_size)]
        with filters.failures(self._name):
            table.add(pa.Table.from_arrays(rows, schema=table.schema))

    def look(self, length: int) -> Known | None:
        """The newest version, for a query of its length; None when there is none. Raises StoreError for another."""
        with filters.failures(self._name):
            near = self._latest.look()
            if near is None or not near.rows:
                return None
            if length != near.length:
                raise self._another_length(near.length, length)
            return Known(near, self._newest.of(near.dataset))

    def refresh(self, flat_rows: int = FLAT_ROWS, target: float = TARGET) -> Tuning | None:
        """Build or extend the index and measure its recall, as `VectorTable.refresh`. Raises StoreError."""
        table = self._tables.find(self._name)
        if table is None:
            return None
        with filters.failures(self._name):
            return refresh(table, self._latest.there, flat_rows, target)

    def state(self) -> TableState:
        """Texts, how many of them the index covers, and what was measured of it."""
        with filters.failures(self._name):
            return state_of(self._latest.look())

    def _another_length(self, there: int, given: int) -> StoreError:
        return StoreError("vectors have another length", f"{self._name} holds {there}, but got {given}")
