"""Scratch: streams of rows side by side in a database that is thrown away, sorted and compared in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

# What does not fit goes to disk, but each thread needs a share that stays: 1.5 million texts of 48 letters cannot be
# sorted in 64 MB by four threads, by two they can; 12 million in 512 MB.
_MEMORY, _THREADS = "512MB", 2
_ROWS = 10_000


class Scratch:
    """A DuckDB database in memory that spills to a temporary folder; closed, nothing is left of it."""

    def __init__(self) -> None:
        import duckdb

        self._folder = tempfile.TemporaryDirectory(prefix="ares-scratch-", ignore_cleanup_errors=True)
        self._connection = duckdb.connect(
            config={
                "memory_limit": _MEMORY,
                "threads": _THREADS,
                "temp_directory": self._folder.name,
                "preserve_insertion_order": False,
            }
        )
        self._there: set[str] = set()

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.cleanup()

    def put(
        self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], where: str = "true"
    ) -> None:
        """Add rows to a table, made by the first call. What the batches raise is raised as it is.

        Args:
            name: The table.
            schema: Its columns.
            batches: The rows.
            where: Which of them; may name tables that are there.
        """
        import pyarrow as pa

        failed: list[BaseException] = []
        rows = pa.RecordBatchReader.from_batches(schema, _kept(batches, failed))
        self._connection.register("given", rows)
        made = name in self._there
        how = f'INSERT INTO "{name}"' if made else f'CREATE TABLE "{name}" AS'
        try:
            self._connection.execute(f"{how} SELECT * FROM given WHERE {where}")
        except Exception:
            if failed:  # DuckDB would tell of it in words of its own
                raise failed[0] from None
            raise
        finally:
            self._connection.unregister("given")
        self._there.add(name)

    def make(self, name: str, query: str) -> int:
        """Keep the answer to a query as a table, in place of an older one. Returns its number of rows."""
        self._connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS {query}')
        self._there.add(name)
        return int(self.ask(f'SELECT count(*) AS rows FROM "{name}"')["rows"][0].as_py())

    def has(self, name: str) -> bool:
        """Whether a table was put or made."""
        return name in self._there

    def drop(self, *names: str) -> None:
        """Forget tables."""
        for name in names:
            self._connection.execute(f'DROP TABLE IF EXISTS "{name}"')
            self._there.discard(name)

    def ask(self, query: str) -> pa.Table:
        """The answer to an SQL query that has few rows."""
        return self._connection.sql(query).to_arrow_table()

    def stream(self, query: str, rows: int = 0) -> Iterator[pa.RecordBatch]:
        """The answer to an SQL query with any number of rows, so many at a time; other queries may run meanwhile."""
        with self._connection.cursor() as cursor:
            yield from (batch for batch in cursor.sql(query).to_arrow_reader(rows or _ROWS) if batch.num_rows)


def _kept(batches: Iterable[pa.RecordBatch], failed: list[BaseException]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except BaseException as error:
        failed.append(error)
        raise
