"""Temporary DuckDB databases, which sort rows or hold distinct episode ids in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from ares.store.sql import batched

if TYPE_CHECKING:
    import pyarrow as pa


# DuckDB spills to disk, but each thread needs some memory that it cannot spill: with 64 MB, two threads can sort
# 1.5 million texts of 48 characters and four threads cannot; 512 MB are enough for 12 million.
_MEMORY, _THREADS = "512MB", 2
_BATCH_ROWS = 10_000


class TempDatabase:
    """A DuckDB database in memory that spills to a temporary folder; closing it deletes everything.

    On a full disk, where no folder can be made, it does not spill.
    """

    def __init__(self) -> None:
        import duckdb

        self._folder: tempfile.TemporaryDirectory[str] | None = None
        with suppress(OSError):
            self._folder = tempfile.TemporaryDirectory(prefix="ares-scratch-", ignore_cleanup_errors=True)
        self._connection = duckdb.connect(
            config={
                "memory_limit": _MEMORY,
                "threads": _THREADS,
                "temp_directory": self._folder.name if self._folder else "",
                "preserve_insertion_order": False,
            }
        )
        self._tables: set[str] = set()

    def __enter__(self) -> TempDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        if self._folder:
            self._folder.cleanup()

    def insert(
        self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], where: str = "true"
    ) -> None:
        """Add rows to a table, created by the first call. Errors raised by `batches` are passed on unchanged.

        Args:
            name: The table.
            schema: Its columns.
            batches: The rows.
            where: SQL condition on the rows; may name other tables of this database.
        """
        self.insert_query(name, f"SELECT * FROM new_rows WHERE {where}", schema, batches)

    def insert_query(
        self, name: str, query: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> None:
        """Add the result of a query over a stream to a table, created by the first call; the stream is not stored.

        Args:
            name: The table.
            query: SQL query of "new_rows", the stream; may name other tables of this database.
            schema: Columns of the stream.
            batches: The stream; its errors are passed on unchanged.
        """
        import pyarrow as pa

        errors: list[BaseException] = []
        rows = pa.RecordBatchReader.from_batches(schema, _record_errors(batches, errors))
        self._connection.register("new_rows", rows)
        statement = f'INSERT INTO "{name}"' if name in self._tables else f'CREATE TABLE "{name}" AS'
        try:
            self._connection.execute(f"{statement} {query}")
        except Exception:
            if errors:  # DuckDB would wrap it in another error
                raise errors[0] from None
            raise
        finally:
            self._connection.unregister("new_rows")
        self._tables.add(name)

    def create_table_as(self, name: str, query: str) -> int:
        """Store the result of a query as a table, replacing an older one. Returns its number of rows."""
        self._connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS {query}')
        self._tables.add(name)
        return int(self.query(f'SELECT count(*) AS rows FROM "{name}"')["rows"][0].as_py())

    def has_table(self, name: str) -> bool:
        """Return whether a table was created."""
        return name in self._tables

    def drop_tables(self, *names: str) -> None:
        """Delete tables; a table that does not exist is ignored."""
        for name in names:
            self._connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            self._tables.discard(name)

    def query(self, sql: str) -> pa.Table:
        """Return the result of an SQL query that has few rows."""
        return self._connection.sql(sql).to_arrow_table()

    def stream(self, sql: str, batch_rows: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the result of an SQL query in batches; other queries may run in between."""
        with self._connection.cursor() as cursor:
            batches = cursor.sql(sql).to_arrow_reader(batch_rows or _BATCH_ROWS)
            yield from (batch for batch in batches if batch.num_rows)


def _record_errors(
    batches: Iterable[pa.RecordBatch], errors: list[BaseException]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except BaseException as error:
        errors.append(error)
        raise


_BATCH = 10_000


class StagedIds(Iterable[str]):
    """Distinct ids, sorted when they are iterated; a context manager that deletes them at its end.

    Args:
        ids: Any ids, also repeated; read once, now.

    Attributes:
        database: Has them in the table "ids", column `id`.
        count: Number of distinct ids.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        import pyarrow as pa

        self.database = TempDatabase()
        schema = pa.schema([("id", pa.string())])
        batches = (
            pa.record_batch([pa.array(chunk, pa.string())], schema=schema) for chunk in batched(ids, _BATCH)
        )
        try:
            self.database.insert("listed_ids", schema, batches)
            self.count = self.database.create_table_as("ids", "SELECT DISTINCT id FROM listed_ids")
            self.database.drop_tables("listed_ids")
        except BaseException:
            self.database.__exit__(None, None, None)
            raise

    def __enter__(self) -> StagedIds:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.database.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[str]:
        for batch in self.database.stream("SELECT id FROM ids ORDER BY id"):
            yield from batch["id"].to_pylist()

    def batches(self) -> Iterator[list[str]]:
        """The ids some thousands at a time."""
        return batched(self, _BATCH)
