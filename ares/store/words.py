"""Words: full-text search (BM25) over one column of a Lance table, with an order that never changes by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import lance
    from lancedb.table import Table

    from ares.store.rows import Chosen

Row = dict[str, Any]


def index_words(table: Table, column: str) -> None:
    """Give a column its word index; without one a search would find nothing, and say nothing."""
    from lancedb.index import FTS

    # Without stop words: an episode that shares only "in the" with a query is no answer, yet a fusion of ranks
    # would count it as one.
    table.create_index(column, config=FTS(remove_stop_words=True))


def has_words(table: Table) -> bool:
    """Whether a column of the table has a word index."""
    return any(index.index_type == "FTS" for index in table.list_indices())


def has_word_index(dataset: lance.LanceDataset) -> bool:
    """The same, asked without LanceDB."""
    return any(index.index_type == "Inverted" for index in dataset.describe_indices())


def search_words(
    dataset: lance.LanceDataset,
    column: str,
    text: str,
    columns: Sequence[str],
    limit: int,
    chosen: Chosen | None,
) -> list[Row]:
    """Rows whose column shares words with a text.

    Args:
        dataset: A table whose column has a word index; rows newer than the index are searched too.
        column: The column.
        text: Any text; nothing in it is an operator.
        columns: Columns to return; rows with equal scores stand in the order of these.
        limit: Most rows.
        chosen: Only these rows, or None for all; a hundred thousand of them cost little.

    Returns:
        Rows with these columns and "_score" (BM25), best first.
    """
    from lance.query import MatchQuery

    if chosen is not None and not len(chosen.row_ids):
        return []
    # A lone surrogate is no word and cannot be sent.
    words = MatchQuery(text.encode("utf-8", "replace").decode(), column)
    kept: dict[str, Any] = (
        {} if chosen is None else {"row_addr_allowlist": chosen.allowlist, "prefilter": True}
    )

    def fetch(count: int) -> list[Row]:
        scanner = dataset.scanner(columns=[*columns, "_score"], full_text_query=words, limit=count, **kept)
        found: list[Row] = scanner.to_table().to_pylist()
        return found

    return best(fetch, limit, "_score", columns)


def best(
    fetch: Callable[[int], list[Row]], limit: int, score: str, ties: Sequence[str], sign: int = -1
) -> list[Row]:
    """The best rows, where rows with equal scores are ordered, and chosen, by further columns.

    Args:
        fetch: Gives that many of the best rows, those with equal scores in any order.
        limit: Most rows.
        score: Name of the score column.
        ties: Columns that order rows with equal scores.
        sign: -1 if the highest score is best, 1 if the lowest is.
    """
    count = limit + 1
    rows = fetch(count) if limit > 0 else []
    # The cut must not fall among equals, or chance would choose which of them are seen.
    while len(rows) == count and _worst(rows, score, sign) == _nth(rows, score, sign, limit):
        count *= 4
        rows = fetch(count)
    return sorted(rows, key=lambda row: (sign * row[score], *(row[name] for name in ties)))[:limit]


def _worst(rows: list[Row], score: str, sign: int) -> float:
    return max(sign * float(row[score]) for row in rows)


def _nth(rows: list[Row], score: str, sign: int, limit: int) -> float:
    return sorted(sign * float(row[score]) for row in rows)[limit - 1]
