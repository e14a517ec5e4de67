"""Distinct episode ids in a temporary database, to count, sort and compare them before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType

from ares.store import TempDatabase
from ares.store.filters import batched

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
