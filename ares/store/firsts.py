"""Firsts: of rows that have a rank, those of the best few episodes, without putting all of them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

# Rows put in order for each episode wanted; neighbouring rows are often of one episode.
_PER_EPISODE = 8


def firsts(
    found: pa.Table, by: str, order: Literal["ascending", "descending"], limit: int
) -> tuple[pa.Table, int]:
    """The rows with which each of the best episodes has its best value, and how many episodes they are.

    Args:
        found: Column episode_id, the column of the value, and any others.
        by: The column of the value.
        order: "descending" if the highest value is the best.
        limit: Most episodes; of those with equal values the first by id.
    """
    import pyarrow.compute as pc

    count = _PER_EPISODE * limit
    while True:
        keys = [(by, order), ("episode_id", "ascending")]
        part = found.take(pc.select_k_unstable(found, k=min(count, len(found)), sort_keys=keys))
        kept, episodes = _best(part, by, limit)
        # An episode beyond those wanted says that they have no rows beyond it.
        if episodes > limit or len(part) == len(found):
            return kept, min(episodes, limit)
        count *= _PER_EPISODE


def _best(part: pa.Table, by: str, limit: int) -> tuple[pa.Table, int]:
    """Of rows in order, those with the first value of each of the first episodes, and how many episodes there are."""
    import numpy as np

    numbers = part["episode_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first = np.unique(numbers, return_index=True)  # numbers count up as episodes appear
    values = part[by].to_numpy()
    kept = (numbers < limit) & (values == values[first][numbers])
    return part.filter(kept), len(first)
