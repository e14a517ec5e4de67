"""Many: a column with more values than can be kept, counted by DuckDB as Lance streams it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ares.search.codes import TOP_VALUES, Counted
from ares.store import filters

if TYPE_CHECKING:
    from ares.store.episodes import EpisodeTable


def count_many(episodes: EpisodeTable, where: str, column: str, kind: str) -> Counted:
    """The most frequent values, found by approximation and then counted exactly.

    Args:
        episodes: One version of the table.
        where: SQL condition; "" is all.
        column: A column of texts or of lists of texts.
        kind: Its type, "string" or "list<string>".

    Raises:
        RequestError: The filter cannot be read.
    """
    item = f'unnest(list_distinct("{column}"))' if kind.startswith("list") else f'"{column}"'
    items = f"(SELECT {item} AS item FROM episodes)"
    likely = f"SELECT approx_top_k(item, {TOP_VALUES}), approx_count_distinct(item) FROM {items}"
    ((top, distinct),) = _ask(episodes, column, where, likely)
    among = filters.among("item", [value for value in top or () if value is not None])
    exact = f"SELECT item, count(*) FROM {items} WHERE {among} GROUP BY item"
    pairs = sorted(_ask(episodes, column, where, exact), key=lambda pair: (-pair[1], pair[0]))
    missing = episodes.count(f"({where.strip() or 'true'}\n) AND {column} IS NULL")
    return Counted(values=tuple(pairs), distinct=distinct, missing=missing)


def _ask(episodes: EpisodeTable, column: str, where: str, sql: str) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection, filters.failures("episodes", where, episodes.columns()):
        connection.register("episodes", episodes.reader([column], where))
        try:
            return connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # What Lance met while DuckDB was reading.
            raise RuntimeError(str(error)) from error
