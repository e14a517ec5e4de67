"""Searches a text column of a Lance table by words (BM25), and hashes the text of every row."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import RequestError
from ares.store.lance.lance_api import allowlist_options, make_fulltext_query, plan_filter, row_allowlist
from ares.store.lance.row_index import (
    RowIndex,
    RowNumbering,
    VersionCache,
    best_rows_per_episode,
    scan_matching_rows,
)
from ares.store.lance.table import TableWriter
from ares.store.sql import in_condition

if TYPE_CHECKING:
    import lance
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


# Rows requested per episode, and the factor by which more are requested when these were not enough.
_ROWS_PER_EPISODE, _GROWTH = 4, 4
# A smaller table is searched as fast by its own index. In each batch of rows a text has so many of them on average,
# beyond a few texts, and a table has at most so many texts: with more, its own index is as fast again.
LEAST_SHARED_ROWS, _BATCH_ROWS = 50_000, 65_536
_ROWS_PER_TEXT, _FEW_TEXTS, _MAX_DISTINCT_TEXTS = 4, 1_000, 50_000
# Up to so many rows are searched without the filter and filtered afterwards; beyond, the filter is applied first.
_MAX_SCANNED_ROWS = 30_000
# The rows of so many episodes are found by the index of their ids, and not by a look at the id of each row.
_FEW_EPISODES = 256


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
    run_mask, num_candidates, options = None, row_index.count, dict[str, Any]()
    if episode_ids and len(episode_ids) <= _FEW_EPISODES and row_index.count > _MAX_SCANNED_ROWS:
        options = allowlist_options(_find_rows_of(dataset, episode_ids))
    elif episode_ids is not None:
        run_mask = row_index.run_mask(episode_ids)
        num_candidates = int(row_index.lengths[run_mask].sum())
    if limit <= 0 or not num_candidates:
        return _matches_table(row_index, *_no_matches(), None)
    # A search of all rows is fast; a search of selected rows is slower.
    count = -(-_ROWS_PER_EPISODE * limit * row_index.count // num_candidates)
    while True:
        if not options and count > _MAX_SCANNED_ROWS and episode_ids is not None:
            count = _ROWS_PER_EPISODE * limit
            options = allowlist_options(row_index.select(episode_ids).allowlist)
        row_ids, scores = _scan_matches(dataset, column, text, count, options)
        exhausted = len(row_ids) < count
        # Rows with the lowest score may be cut off arbitrarily among equals, so they are not final.
        final = slice(None) if exhausted else scores > scores.min()
        matches = _matches_table(row_index, row_ids[final], scores[final], run_mask)
        best, num_episodes = best_rows_per_episode(matches, limit)
        if exhausted or num_episodes == limit:
            return best
        count *= _GROWTH


def _find_rows_of(dataset: lance.LanceDataset, episode_ids: Collection[str]) -> bytes:
    """The rows of some episodes as an allowlist. As a filter of the search they would change its statistics."""
    where = in_condition("episode_id", episode_ids)
    rows = dataset.scanner(columns=[], filter=where, with_row_id=True).to_table()
    return row_allowlist(rows["_rowid"].to_numpy())


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


class DistinctTexts:
    """The different texts of one version of a table, with a full-text index of their own in memory.

    Episodes share instructions: a word is looked up among hundreds of texts in place of a million rows.

    Args:
        column: Name of the column.
        texts: (T,) the different texts, without null.
        codes: (N,) int32 number of the text of each row in the order of a scan, -1 for null.
    """

    def __init__(self, column: str, texts: pa.Array, codes: NDArray[np.int32]) -> None:
        import lance
        import pyarrow as pa

        self._column, self._codes = column, codes
        # The last row is for null.
        rows = pa.table({column: pa.concat_arrays([texts, pa.nulls(1, texts.type)])})
        self._table = lance.write_dataset(rows, f"memory://{uuid.uuid4().hex}")
        self._count = len(rows)

    @cached_property
    def _indexed(self) -> lance.LanceDataset:
        create_fulltext_index(TableWriter(self._column, lambda: self._table), self._column)
        return self._table

    def rows_with_words(self, words: Sequence[str]) -> list[NDArray[np.int64]]:
        """As `rows_with_words`, for the rows of the table that the texts are of."""
        import numpy as np

        offsets = []
        for word in words:
            has_word = np.zeros(self._count, np.bool_)
            text_ids, _ = _scan_matches(self._indexed, self._column, word, self._count, {})
            has_word[text_ids.view(np.int64)] = True
            offsets.append(np.flatnonzero(has_word[self._codes]))
        return offsets

    def matching_rows(self, where: str) -> NDArray[np.bool_] | None:
        """(N,) whether each row matches a filter; None for a filter with other columns."""
        try:
            condition = plan_filter(self._table, where, {self._column: "string"})
        except RequestError:
            return None
        has_match = RowNumbering(self._table).row_mask(scan_matching_rows(self._table, condition or "true"))
        matching: NDArray[np.bool_] = has_match[self._codes]
        return matching


def find_distinct_texts(dataset: lance.LanceDataset, column: str) -> DistinctTexts | None:
    """The different texts of a column of many rows, or None where too many rows have a text of their own."""
    import numpy as np
    import pyarrow as pa

    parts = []
    for batch in dataset.scanner(columns=[column], batch_size=_BATCH_ROWS, scan_in_order=True).to_batches():
        parts.append(batch[column].dictionary_encode())
        if len(parts[-1].dictionary) > len(batch) // _ROWS_PER_TEXT + _FEW_TEXTS:
            return None
    shared = pa.chunked_array(parts).unify_dictionaries()
    texts = shared.chunk(0).dictionary
    if not 0 < len(texts) <= _MAX_DISTINCT_TEXTS:
        return None
    codes = [part.indices.fill_null(-1).to_numpy() for part in shared.chunks]
    return DistinctTexts(column, texts, np.concatenate(codes))


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
