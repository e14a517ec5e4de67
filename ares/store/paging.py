"""Paging: stretches of the rows of a filter in an order that is kept, since Lance sorts anew for every page."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.store.scratch import Scratch

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.dataset import ColumnOrdering

    from ares.store.episodes import EpisodeTable

# From here on, to sort all rows costs little more than to find those before a stretch.
DEEP = 10_000
_MOST_ORDERS = 4


def ordering(order_by: str) -> list[ColumnOrdering]:
    """Columns such as "dataset, key DESC" as Lance takes them, ties by episode_id; none for "".

    Raises RequestError when they cannot be read.
    """
    from lance.dataset import ColumnOrdering

    wanted = [part.split() for part in order_by.split(",")] if order_by.strip() else []
    if any(len(part) not in (1, 2) or part[1:] not in ([], ["ASC"], ["DESC"]) for part in wanted):
        raise RequestError(
            "the order cannot be read", f"{order_by!r}; give columns such as 'dataset, key DESC'"
        )
    if wanted and "episode_id" not in (name for name, *_ in wanted):
        wanted.append(["episode_id"])
    return [ColumnOrdering(name, ascending=way != ["DESC"], nulls_first=False) for name, *way in wanted]


class Order:
    """All rows of one version of the table, ordered: four bytes each.

    Args:
        episodes: That version; see `EpisodeTable.pinned`.
        order: By what; missing values last.
    """

    def __init__(self, episodes: EpisodeTable, order: Sequence[ColumnOrdering]) -> None:
        import numpy as np

        self._episodes = episodes
        rows = episodes.reader([one.column_name for one in order], with_addresses=True)
        ways = (way for one in order for way in _ways(one, rows.schema.field(one.column_name).type))
        layout, places = episodes.layout(), [np.zeros(0, np.uint32)]
        there = np.zeros(layout.size, np.bool_)
        with Scratch() as scratch:
            scratch.put("rows", rows.schema, rows)
            for batch in scratch.stream(f"SELECT _rowaddr FROM rows ORDER BY {', '.join(ways)}"):
                places.append(layout.places(batch).astype(np.uint32))
                there[places[-1]] = True
        self._places, self._deleted = np.concatenate(places), np.flatnonzero(~there)

    def stretch(self, columns: Sequence[str], where: str, offset: int, limit: int) -> pa.Table:
        """Columns of the rows `offset` to `offset` + `limit` of those that a filter leaves."""
        import numpy as np

        found = self._places
        if where.strip():
            found = found[self._episodes.marks(where)[found]]
        places = found[offset : offset + limit].astype(np.int64)
        return self._episodes.take(columns, places - np.searchsorted(self._deleted, places))


class Orders:
    """The orders of the newest version that are worth keeping: those asked for twice, or far down."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._version = 0
        # None for an order asked for once.
        self._kept: dict[str, Order | None] = {}

    def of(self, episodes: EpisodeTable, order: Sequence[ColumnOrdering], offset: int) -> Order | None:
        """The order of this very version of the table, or None when the stretch is found sooner without it."""
        name = ", ".join(f"{one.column_name} {one.ascending}" for one in order)
        # Threads that meet here wait for one sorting instead of each doing its own.
        with self._lock:
            if self._version != episodes.version():
                self._version, self._kept = episodes.version(), {}
            again = name in self._kept
            kept = self._kept.pop(name, None)
            if kept is None and (again or offset >= DEEP):
                kept = Order(episodes, order)
            self._kept[name] = kept
            while len(self._kept) > _MOST_ORDERS:
                del self._kept[next(iter(self._kept))]
            return kept


def _ways(one: ColumnOrdering, kind: pa.DataType) -> list[str]:
    """How DuckDB has to order by a column to do it as Lance does, for which -0.0 stands before 0.0."""
    import pyarrow as pa

    name, way = f'"{one.column_name}"', "ASC" if one.ascending else "DESC"
    signs = [f"NOT signbit({name}) {way}"] if pa.types.is_floating(kind) else []
    return [f"{name} {way} NULLS LAST", *signs]
