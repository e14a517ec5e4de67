"""Words: full-text search (BM25) over one column of a Lance table, with an order that never changes by chance."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from ares.store.firsts import firsts

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from lancedb.table import Table
    from numpy.typing import NDArray

    from ares.store.rows import Rows

# Rows asked for per episode wanted, and how many times more when they were not enough.
_PER_EPISODE, _GROWTH = 4, 4
# More rows than these are not gone through for those of a filter; the filter goes before the search instead.
_BEYOND = 30_000


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
    rows: Rows,
    column: str,
    text: str,
    limit: int,
    episode_ids: Collection[str] | None,
) -> pa.Table:
    """The rows with which the best episodes share words with a text.

    Args:
        dataset: A table whose column has a word index; rows newer than the index are searched too.
        rows: Where the rows of each episode lie in it.
        column: The column.
        text: Any text; nothing in it is an operator.
        limit: Most episodes.
        episode_ids: Only these, or None for all.

    Returns:
        Columns episode_id, offset (int64, place in the order of a scan) and score (BM25 to five digits): of each
        episode the rows with its best score, best episode first, those with equal scores by id.
    """
    runs = None if episode_ids is None else rows.runs(episode_ids)
    kept = rows.count if runs is None else int(rows.lengths[runs].sum())
    if limit <= 0 or not kept:
        return _matches(rows, *_nothing(), None)
    # What the words have in common with all rows is known in no time; to say which rows are wanted takes longer.
    count, within = -(-_PER_EPISODE * limit * rows.count // kept), None
    while True:
        if within is None and count > _BEYOND and episode_ids is not None:
            count, within = _PER_EPISODE * limit, rows.of(episode_ids).allowlist
        row_ids, scores = _ask(dataset, column, text, count, within)
        whole = len(row_ids) < count
        # The cut must not fall among equals, or chance would choose which of them are seen.
        sure = slice(None) if whole else scores > scores.min()
        found = _matches(rows, row_ids[sure], scores[sure], runs)
        best, episodes = firsts(found, "score", "descending", limit)
        if whole or episodes == limit:
            return best
        count *= _GROWTH


def _ask(
    dataset: lance.LanceDataset, column: str, text: str, count: int, within: bytes | None
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Row ids and scores of the best rows, in no promised order."""
    import numpy as np
    from lance.query import MatchQuery

    # A lone surrogate is no word and cannot be sent.
    words = MatchQuery(text.encode("utf-8", "replace").decode(), column)
    kept: dict[str, Any] = {} if within is None else {"row_addr_allowlist": within, "prefilter": True}
    # Only numbers: to read the columns of a row takes longer than to find it.
    scanner = dataset.scanner(columns=["_rowid", "_score"], full_text_query=words, limit=count, **kept)
    found = scanner.to_table()
    # The last digits of one and the same score differ between the parts of an index.
    return found["_rowid"].to_numpy(), np.round(found["_score"].to_numpy().astype(np.float64), 5)


def _nothing() -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    import numpy as np

    return np.zeros(0, np.uint64), np.zeros(0)


def _matches(
    rows: Rows,
    row_ids: NDArray[np.uint64],
    scores: NDArray[np.float64],
    runs: NDArray[np.bool_] | None,
) -> pa.Table:
    import pyarrow as pa

    run, offsets = rows.locate(row_ids)
    if runs is not None:
        inside = runs[run]
        run, offsets, scores = run[inside], offsets[inside], scores[inside]
    columns = {"episode_id": rows.episode_ids.take(run), "offset": offsets, "score": scores}
    return pa.table(columns)
