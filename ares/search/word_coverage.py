"""How much of the words of a text the instruction or a caption of each episode has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ares.store import EpisodeRowRuns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores, WordRows


_WORD = re.compile(r"[^\W_]+")
# The words that the full-text index leaves out (the English list of Tantivy): no text has a row for them.
_STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip
# Words of a longer text beyond these add little to what is compared, and each costs a search.
_MAX_WORDS = 24


def query_words(text: str) -> list[str]:
    """The distinct words of a text that the index knows, lower case, at most 24."""
    words = dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)
    return list(words)[:_MAX_WORDS]


def word_coverage(stores: Stores, text: str) -> tuple[EpisodeRowRuns, NDArray[np.float64]]:
    """How much of a text the instruction or a caption of each episode has.

    Each word weighs log(1 + (R - r + 0.5) / (r + 0.5)), as in BM25, of R texts of which r have it. A word that no
    text has weighs most: without it no episode reaches 1.

    Args:
        stores: Stores of the workspace.
        text: Words to look for.

    Returns:
        N episodes, which may be repeated, and the (N,) share of the weights, above 0 and at most 1.
    """
    import numpy as np

    words = query_words(text)
    tables = [
        stores.tables.episodes.snapshot().instructions_with_words(words),
        stores.tables.segments.texts_with_words(words),
    ]
    total = sum(table.row_index.count for table in tables)
    counts = np.array([sum(len(table.offsets[number]) for table in tables) for number in range(len(words))])
    weights = np.log1p((total - counts + 0.5) / (counts + 0.5))
    covered = [_covered_runs(table, weights / weights.sum()) for table in tables]
    parts = [(table.row_index, runs) for table, (runs, _) in zip(tables, covered, strict=True)]
    return EpisodeRowRuns(parts), np.concatenate([shares for _, shares in covered])


def _covered_runs(
    table: WordRows, weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Numbers and best shares of the runs of rows of which some row has a word."""
    import numpy as np

    shares = np.zeros(table.row_index.count)
    for offsets, weight in zip(table.offsets, weights, strict=True):
        shares[offsets] += weight
    best = np.maximum.reduceat(shares, table.row_index.offsets) if len(shares) else shares
    runs = np.flatnonzero(best > 0)
    return runs, np.minimum(np.round(best[runs], 6), 1.0)
