"""Scratch: streams of rows laid side by side in a database on disk that is thrown away, compared in bounded memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Scratch:
    """A DuckDB database of a check; what does not fit into a gigabyte goes to disk."""

    def __init__(self) -> None:
        import duckdb

        self._folder = tempfile.mkdtemp(prefix="ares-doctor-")
        self._connection = duckdb.connect(f"{self._folder}/scratch.duckdb")
        self._connection.execute("SET memory_limit = '1GB'")
        self._connection.execute("SET preserve_insertion_order = false")
        self._there: set[str] = set()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def put(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows to a table, made by the first call."""
        import pyarrow as pa

        self._connection.register("given", pa.RecordBatchReader.from_batches(schema, iter(batches)))
        made = name in self._there
        how = f'INSERT INTO "{name}"' if made else f'CREATE TABLE "{name}" AS'
        self._connection.execute(f"{how} SELECT * FROM given")
        self._connection.unregister("given")
        self._there.add(name)

    def has(self, name: str) -> bool:
        """Whether a table was put."""
        return name in self._there

    def ask(self, query: str) -> pa.Table:
        """The answer to an SQL query."""
        return self._connection.sql(query).to_arrow_table()
