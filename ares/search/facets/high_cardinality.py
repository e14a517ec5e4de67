"""Counts the most frequent values of a column with too many values to encode, by DuckDB over a stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ares.deadline import interruptible
from ares.search.facets.encodings import TOP_VALUES, FacetCounts
from ares.store.filters import in_list
from ares.store.lance import lance_errors

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance import EpisodeSnapshot


def count_frequent_values(
    episodes: EpisodeSnapshot,
    where: str,
    column: str,
    type_name: str,
    selected: NDArray[np.bool_] | None = None,
) -> FacetCounts:
    """The most frequent values: selected by an approximate method, then counted exactly.

    Args:
        episodes: One version of the table.
        where: SQL condition; "" is all.
        column: A column of texts or of lists of texts.
        type_name: Its type, "string" or "list<string>".
        selected: (P,) whether the row at each position counts; None for all.

    Raises:
        RequestError: The filter is invalid.
    """
    item = f'unnest(list_distinct("{column}"))' if type_name.startswith("list") else f'"{column}"'
    items = f"(SELECT {item} AS item FROM episodes)"
    approximate = f"SELECT approx_top_k(item, {TOP_VALUES}), approx_count_distinct(item) FROM {items}"
    query = partial(_query, episodes, column, where, selected)
    ((top, distinct),) = query(approximate)
    is_top = in_list("item", [value for value in top or () if value is not None])
    exact = f"SELECT item, count(*) FROM {items} WHERE {is_top} GROUP BY item"
    pairs = sorted(query(exact), key=lambda pair: (-pair[1], pair[0]))
    ((missing,),) = query(f'SELECT count(*) FROM episodes WHERE "{column}" IS NULL')
    return FacetCounts(values=tuple(pairs), distinct=distinct, missing=missing)


def _query(
    episodes: EpisodeSnapshot, column: str, where: str, selected: NDArray[np.bool_] | None, sql: str
) -> list[tuple[Any, ...]]:
    import duckdb

    with duckdb.connect() as connection, lance_errors("episodes", where):
        connection.register("episodes", _read(episodes, column, where, selected))
        try:
            with interruptible(connection.interrupt, duckdb.Error):
                return connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # An error of Lance while DuckDB reads from it.
            raise RuntimeError(str(error)) from error


def _read(
    episodes: EpisodeSnapshot, column: str, where: str, selected: NDArray[np.bool_] | None
) -> pa.RecordBatchReader:
    import pyarrow as pa

    if selected is None:
        return episodes.reader([column], where)
    batches, numbering = episodes.reader([column], where, with_row_address=True), episodes.row_numbering()
    return pa.RecordBatchReader.from_batches(
        batches.schema, (batch.filter(pa.array(selected[numbering.positions(batch)])) for batch in batches)
    )
