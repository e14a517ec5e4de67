"""The table of removed episodes: their rows as they were, so that they can be brought back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ares.store.filters import batched, in_list
from ares.store.lance.lance_api import lance_errors, plan_filter
from ares.store.lance.schema import add_columns, column_types
from ares.store.lance.table import LazyLanceTable

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from ares.store.lance.table import TableWriter

_ID_ROWS, _NAME = 10_000, "removed_episodes"


class RemovedTable:
    """Rows of the episodes table that were moved out of it; the first removal creates the table.

    Args:
        table: The Lance table "removed_episodes".
    """

    def __init__(self, table: LazyLanceTable) -> None:
        self._table = table

    @property
    def _dataset(self) -> lance.LanceDataset | None:
        return self._table.dataset()

    def count(self) -> int:
        """Number of removed episodes."""
        dataset = self._dataset
        with lance_errors(_NAME):
            return 0 if dataset is None else int(dataset.count_rows())

    def ids(self, where: str = "") -> pa.ChunkedArray:
        """Ids of the removed episodes that match a filter, (N,) strings in Arrow. Raises RequestError."""
        import pyarrow as pa

        batches = self.scan(["episode_id"], where)
        return pa.chunked_array([batch["episode_id"] for batch in batches], pa.string())

    def scan(self, columns: Sequence[str], where: str = "") -> Iterator[pa.RecordBatch]:
        """Columns of the removed episodes that match a filter. Raises RequestError for an invalid filter."""
        dataset = self._dataset
        if dataset is None:
            return
        condition = plan_filter(dataset, where, column_types(dataset.schema))
        with lance_errors(_NAME, where):
            for batch in dataset.scanner(columns=list(columns), filter=condition).to_batches():
                yield batch.select(list(columns))

    def column_names(self) -> list[str]:
        """Names of the columns; empty before the first removal."""
        dataset = self._dataset
        return [] if dataset is None else list(dataset.schema.names)

    def write(self, rows: pa.Table) -> None:
        """Write rows of the episodes table; existing ones are replaced. Raises StoreError."""
        table = self._table.create(rows.schema)
        dataset = self._dataset
        assert dataset is not None  # it has just been created
        add_columns(table, dataset.schema, rows.schema)
        with lance_errors(_NAME):
            table.upsert("episode_id", rows)

    def delete(self, ids: Collection[str]) -> None:
        """Delete the rows of some episodes. Raises StoreError."""
        table = self._table.writer()
        if table is not None:
            delete_rows(table, "episode_id", ids)


def delete_rows(table: TableWriter, key: str, values: Collection[str]) -> None:
    """Delete the rows of a table whose key is one of the values, however many they are. Raises StoreError."""
    with lance_errors(table.name):
        for chunk in batched(values, _ID_ROWS):
            table.delete(in_list(key, chunk))
