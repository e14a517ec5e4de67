"""Searches a text column of a Lance table by words (BM25), and hashes the text of every row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.store.lance.lance_api import allowlist_options, make_fulltext_query
from ares.store.lance.row_index import RowIndex, VersionCache, best_rows_per_episode

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance.table import TableWriter


# Rows requested per episode, and the factor by which more are requested when these were not enough.
_ROWS_PER_EPISODE, _GROWTH = 4, 4
# Up to so many rows are searched without the filter and filtered afterwards; beyond, the filter is applied first.
_MAX_SCANNED_ROWS = 30_000


class WordRows(NamedTuple):
    """Rows of one version of a table that have some words.

    Attributes:
        row_index: Rows by episode.
        offsets: For each word the scan offsets, (M,) int64, of the rows that have it.
    """

    row_index: RowIndex
    offsets: list[NDArray[np.int64]]


def create_fulltext_index(table: TableWriter, column: str) -> None:
    """Create the full-text index of a column; without it a search returns nothing, and no error."""
    # Without stop words: an episode that shares only "in the" with a query is not a match, but a fusion of ranks
    # would count it.
    table.create_index(column, "INVERTED", remove_stop_words=True)


def search_fulltext(
    dataset: lance.LanceDataset,
    row_index: RowIndex,
    column: str,
    text: str,
    limit: int,
    episode_ids: Collection[str] | None,
) -> pa.Table:
    """The best rows of the episodes that share most words with a text.

    Args:
        dataset: A table whose column has a full-text index; rows newer than the index are searched too.
        row_index: Its rows by episode.
        column: The column.
        text: Any text; nothing in it is an operator.
        limit: Maximum number of episodes.
        episode_ids: Only these, or None for all.

    Returns:
        Columns episode_id, offset (int64, in a scan) and score (BM25 to five digits): of each episode the rows with
        its best score, best episode first, episodes of equal scores by id.
    """
    run_mask = None if episode_ids is None else row_index.run_mask(episode_ids)
    num_candidates = row_index.count if run_mask is None else int(row_index.lengths[run_mask].sum())
    if limit <= 0 or not num_candidates:
        return _matches_table(row_index, *_no_matches(), None)
    # A search of all rows is fast; a search of selected rows is slower.
    count, allowlist = -(-_ROWS_PER_EPISODE * limit * row_index.count // num_candidates), None
    while True:
        if allowlist is None and count > _MAX_SCANNED_ROWS and episode_ids is not None:
            count, allowlist = _ROWS_PER_EPISODE * limit, row_index.select(episode_ids).allowlist
        row_ids, scores = _scan_matches(dataset, column, text, count, allowlist_options(allowlist))
        exhausted = len(row_ids) < count
        # Rows with the lowest score may be cut off arbitrarily among equals, so they are not final.
        final = slice(None) if exhausted else scores > scores.min()
        matches = _matches_table(row_index, row_ids[final], scores[final], run_mask)
        best, num_episodes = best_rows_per_episode(matches, "score", "descending", limit)
        if exhausted or num_episodes == limit:
            return best
        count *= _GROWTH


def rows_with_words(
    dataset: lance.LanceDataset, row_index: RowIndex, column: str, words: Sequence[str]
) -> list[NDArray[np.int64]]:
    """Scan offsets, (M,) int64, of all rows that have a word, for each word; stop words have no row.

    Args:
        dataset: A table whose column has a full-text index; rows newer than the index are searched too.
        row_index: Its rows by episode.
        column: The column.
        words: Single words; the index compares their stems.
    """
    import numpy as np

    if not row_index.count:
        return [np.zeros(0, np.int64) for _ in words]
    matches = [_scan_matches(dataset, column, word, row_index.count, {})[0] for word in words]
    return [row_index.locate(row_ids)[1] for row_ids in matches]


def find_rows_like_text(
    dataset: lance.LanceDataset, column: str, text: str, limit: int, condition: str | None
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Row ids and scores, (N,) each, in any order, of the rows that share most words with a text.

    Args:
        dataset: A table whose column has a full-text index; rows newer than the index are searched too.
        column: The column.
        text: Any text; nothing in it is an operator.
        limit: Number of rows, at least 1. All that score as the last of them are returned too: none of them is better.
        condition: Filter of the rows, as `plan_filter` returns it.
    """
    import numpy as np

    options = {} if condition is None else {"filter": condition, "prefilter": True}
    count = _ROWS_PER_EPISODE * limit
    row_ids, scores = _scan_matches(dataset, column, text, count, options)
    # Rows with the lowest score may be cut off arbitrarily among equals.
    if len(row_ids) == count and (scores > scores.min()).sum() < limit:
        row_ids, scores = _scan_matches(dataset, column, text, dataset.count_rows(), options)
    if len(row_ids) > limit:
        is_best = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
        row_ids, scores = row_ids[is_best], scores[is_best]
    return row_ids, scores


def _scan_matches(
    dataset: lance.LanceDataset, column: str, text: str, count: int, options: Mapping[str, Any]
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Row ids and scores, (N,) each, of the best rows, in any order; the options say which rows are searched."""
    import numpy as np

    # Only row ids: reading the columns of a row takes longer than the search.
    scanner = dataset.scanner(
        columns=["_rowid", "_score"],
        full_text_query=make_fulltext_query(text, column),
        limit=count,
        **options,
    )
    rows = scanner.to_table()
    # The last digits of one score differ between the parts of an index.
    return rows["_rowid"].to_numpy(), np.round(rows["_score"].to_numpy().astype(np.float64), 5)


def _no_matches() -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    import numpy as np

    return np.zeros(0, np.uint64), np.zeros(0)


def _matches_table(
    row_index: RowIndex,
    row_ids: NDArray[np.uint64],
    scores: NDArray[np.float64],
    run_mask: NDArray[np.bool_] | None,
) -> pa.Table:
    import pyarrow as pa

    runs, offsets = row_index.locate(row_ids)
    if run_mask is not None:
        is_candidate = run_mask[runs]
        runs, offsets, scores = runs[is_candidate], offsets[is_candidate], scores[is_candidate]
    columns = {"episode_id": row_index.episode_ids.take(runs), "offset": offsets, "score": scores}
    return pa.table(columns)


@dataclass(frozen=True, slots=True, eq=False)
class TextHashes:
    """Hashes of the texts of one version of a table.

    Attributes:
        dataset: That version.
        row_index: Rows of each episode.
        hashes: (N,) uint64 hash of the text of each row, in the order of a scan.
        second_column: Column of the second that a text describes; "" for texts of whole episodes.
    """

    dataset: lance.LanceDataset
    row_index: RowIndex
    hashes: NDArray[np.uint64]
    second_column: str

    def row_offsets(self, episode_ids: Collection[str] | None) -> NDArray[np.int64] | slice:
        """Scan offsets, int64 (N,), of the rows of some episodes; None means every row."""
        return slice(None) if episode_ids is None else self.row_index.select(episode_ids).offsets

    def seconds(self, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """(N,) seconds that the rows at (N,) scan offsets describe; 0 for texts of whole episodes."""
        import numpy as np

        if not self.second_column or not len(offsets):
            return np.zeros(len(offsets))
        rows = self.dataset.take(offsets, columns=[self.second_column])
        seconds: NDArray[np.float64] = rows[self.second_column].to_numpy()
        return seconds


class TextHashCache:
    """The hashes of the newest version of a table, eight bytes a row.

    Args:
        text_column: Column of the texts.
        second_column: Column of the second that they describe, or "".
    """

    def __init__(self, text_column: str, second_column: str = "") -> None:
        self._second_column = second_column
        self._cache = VersionCache(lambda dataset: hash_texts(dataset, text_column))

    def get(self, dataset: lance.LanceDataset, row_index: RowIndex) -> TextHashes:
        """Hashes of one version. Args: the version, and its rows by episode."""
        return TextHashes(dataset, row_index, self._cache.get(dataset), self._second_column)


def hash_texts(dataset: lance.LanceDataset, column: str) -> NDArray[np.uint64]:
    """(N,) hash of the text of each row, in the order of a scan: a million texts have no collision by chance."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("texts", dataset.scanner(columns=[column], scan_in_order=True).to_reader())
        rows = connection.sql(f'SELECT hash("{column}") AS text_hash FROM texts').fetchnumpy()
        hashes: NDArray[np.uint64] = rows["text_hash"]
        return hashes
