"""Sorted orders of all rows, kept for paging, because Lance sorts the table again for every page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from ares.deadline import exclusive, limit_time
from ares.errors import RequestError
from ares.store.temp_db import TempDatabase

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lance.dataset import ColumnOrdering
    from numpy.typing import NDArray

    from ares.store.lance.snapshot import RowNumbering

# From this offset on, sorting all rows costs little more than finding those before the page.
DEEP_OFFSET = 10_000
_MAX_ORDERS = 4


def parse_order(order_by: str) -> list[ColumnOrdering]:
    """Columns such as "dataset, key DESC" as Lance takes them, ties by episode_id; none for "".

    Raises RequestError when they cannot be read.
    """
    from lance.dataset import ColumnOrdering

    parts = [part.split() for part in order_by.split(",")] if order_by.strip() else []
    if any(len(part) not in (1, 2) or part[1:] not in ([], ["ASC"], ["DESC"]) for part in parts):
        raise RequestError(
            "the order cannot be read", f"{order_by!r}; give columns such as 'dataset, key DESC'"
        )
    if parts and "episode_id" not in (name for name, *_ in parts):
        parts.append(["episode_id"])
    return [
        ColumnOrdering(name, ascending=direction != ["DESC"], nulls_first=False) for name, *direction in parts
    ]


class SortedRows:
    """All rows of one version of a table in an order, four bytes for each.

    Args:
        rows: The columns of the order, and `_rowaddr`, of every row.
        order: The order; missing values last.
        numbering: Positions of the rows.
    """

    def __init__(
        self, rows: pa.RecordBatchReader, order: Sequence[ColumnOrdering], numbering: RowNumbering
    ) -> None:
        import numpy as np

        terms = [
            term for item in order for term in _duckdb_order(item, rows.schema.field(item.column_name).type)
        ]
        positions, exists = [np.zeros(0, np.uint32)], np.zeros(numbering.size, np.bool_)
        with TempDatabase() as temp_db:
            temp_db.insert("rows", rows.schema, rows)
            for batch in temp_db.stream(f"SELECT _rowaddr FROM rows ORDER BY {', '.join(terms)}"):
                positions.append(numbering.positions(batch).astype(np.uint32))
                exists[positions[-1]] = True
        self._positions, self._deleted = np.concatenate(positions), np.flatnonzero(~exists)

    def page_offsets(self, row_mask: NDArray[np.bool_] | None, offset: int, limit: int) -> NDArray[np.int64]:
        """Scan offsets, at most (limit,), of one page of the sorted rows.

        Args:
            row_mask: (P,) whether the row at each position is in the result; None is all.
            offset: Sorted rows to skip.
            limit: Maximum number of rows.
        """
        import numpy as np

        positions = self._positions if row_mask is None else self._positions[row_mask[self._positions]]
        page = positions[offset : offset + limit].astype(np.int64)
        return page - np.searchsorted(self._deleted, page)


class SortedRowsCache:
    """The orders of the newest version that are worth keeping: those used before, or with a far offset."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._version = 0
        # None for an order that was used once.
        self._sorted: dict[str, SortedRows | None] = {}

    def get(
        self, version: int, order: Sequence[ColumnOrdering], offset: int, sort: Callable[[], SortedRows]
    ) -> SortedRows | None:
        """The rows of one version in an order, or None when a page is faster to compute without them.

        Args:
            version: The version.
            order: The order.
            offset: Where the page begins.
            sort: Sorts the rows of that version.
        """
        name = ", ".join(f"{item.column_name} {item.ascending}" for item in order)
        # Concurrent threads wait for one sort instead of each doing its own; once begun it goes to its end.
        with exclusive(self._lock), limit_time(None):
            if self._version != version:
                self._version, self._sorted = version, {}
            is_known = name in self._sorted
            rows = self._sorted.pop(name, None)
            if rows is None and (is_known or offset >= DEEP_OFFSET):
                rows = sort()
            self._sorted[name] = rows
            while len(self._sorted) > _MAX_ORDERS:
                del self._sorted[next(iter(self._sorted))]
            return rows


def _duckdb_order(ordering: ColumnOrdering, column_type: pa.DataType) -> list[str]:
    """Terms of DuckDB that order a column like Lance, for which -0.0 comes before 0.0."""
    import pyarrow as pa

    name, direction = f'"{ordering.column_name}"', "ASC" if ordering.ascending else "DESC"
    signs = [f"NOT signbit({name}) {direction}"] if pa.types.is_floating(column_type) else []
    return [f"{name} {direction} NULLS LAST", *signs]
