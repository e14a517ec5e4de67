"""The scores of all episodes of one table version: ranked, cut, filtered and counted without a text per episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.search.query import AUTO, MinScore
from ares.search.relevance.cut import SCORE_DIGITS
from ares.store.lance import EpisodeIds, SelectedRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.lance import EpisodeSnapshot

# Bars of a histogram of scores.
SCORE_BINS = 50
# A score is a whole number of these steps from 0 to 1; an episode that is not searched has another number.
SCORE_STEPS, NOT_SEARCHED = 10**SCORE_DIGITS, -1
# Bits of a sort key that a score needs; the others are those of the id.
_SCORE_BITS = 14


class EpisodeScores:
    """What a search says of every episode: two bytes for each.

    Args:
        episodes: The version of the table that was searched.
        scores: (N,) int16 steps of each episode in the order of a scan, 0 to `SCORE_STEPS`; `NOT_SEARCHED` for an
            episode that is not searched, as the query itself.
        cut: The default cut, see `default_cut`.

    Attributes:
        version: Number of that version.
        cut: As the argument.
    """

    def __init__(self, episodes: EpisodeSnapshot, scores: NDArray[np.int16], cut: float) -> None:
        self.version, self.cut = episodes.version, cut
        self._episodes, self._scores = episodes, scores
        # Later versions replace them in the caches of the table.
        self._ids, self._positions = episodes.row_index().episode_ids, episodes.positions()

    def __len__(self) -> int:
        return len(self._scores)

    def resolve_cut(self, min_score: MinScore | None) -> float:
        """The number of a cut: the default one for "auto" and None."""
        return self.cut if min_score in (None, AUTO) else float(min_score or 0.0)

    def count(self, min_score: float, where: str = "") -> int:
        """Number of episodes that pass a cut and match a filter. Raises RequestError for an invalid filter."""
        import numpy as np

        return int(np.count_nonzero(self._passing(min_score, where)))

    def ranked_ids(
        self, min_score: float, where: str = "", first: int = 0, limit: int | None = None
    ) -> tuple[EpisodeIds, NDArray[np.float64]]:
        """Ids and scores of the episodes that pass a cut, best first; ties by id.

        Args:
            min_score: The cut.
            where: SQL filter.
            first: Episodes to skip.
            limit: Maximum number of episodes.

        Raises:
            RequestError: The filter is invalid.
        """
        import numpy as np

        offsets = np.flatnonzero(self._passing(min_score, where))
        last = len(offsets) if limit is None else min(first + limit, len(offsets))
        offsets = self._ranked(offsets, first, last) if first < last else offsets[:0]
        return EpisodeIds(self._ids.take(offsets)), self._scores[offsets] / SCORE_STEPS

    def rows(self, min_score: float) -> SelectedRows:
        """The rows of the episodes that pass a cut, for facets."""
        import numpy as np

        row_mask = np.zeros(self._episodes.row_numbering().size, np.bool_)
        row_mask[self._positions] = self._passing(min_score, "")
        return SelectedRows(self._episodes, row_mask)

    def histogram(self, where: str = "") -> list[int]:
        """Episodes in each of 50 bars of equal width from 0 to 1. Raises RequestError for an invalid filter."""
        import numpy as np

        counts = np.bincount(self._scores[self._passing(0.0, where)], minlength=SCORE_STEPS + 1)
        bars = (np.arange(SCORE_STEPS + 1) / SCORE_STEPS * SCORE_BINS).astype(np.int64)
        starts = np.searchsorted(bars, np.arange(SCORE_BINS))
        bar_counts: list[int] = np.add.reduceat(counts, starts).tolist()
        return bar_counts

    def _passing(self, min_score: float, where: str) -> NDArray[np.bool_]:
        """(N,) whether each episode passes; an episode that is not searched passes no cut."""
        import numpy as np

        least = np.searchsorted(np.arange(SCORE_STEPS + 1) / SCORE_STEPS, min_score)
        passing: NDArray[np.bool_] = self._scores >= np.int16(least)
        if where.strip():
            passing &= self._episodes.row_mask(where)[self._positions]
        return passing

    def _ranked(self, offsets: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
        """The offsets at the places from `first` to `last` - 1 of the order: only ids near them are compared in full.

        Args:
            offsets: (N,) scan offsets of episodes.
            first: At least 0 and below `last`.
            last: At most N.
        """
        import numpy as np

        count = last - first
        if count < len(offsets):
            offsets, first = _near(offsets, self._steps_below_best(offsets), first, count)
        if count < len(offsets):
            key = self._steps_below_best(offsets).astype(np.uint64) << np.uint64(64 - _SCORE_BITS)
            key |= self._id_halves(offsets)[:, 0] >> np.uint64(_SCORE_BITS)
            offsets, first = _near(offsets, key, first, count)
        halves = self._id_halves(offsets)
        order = np.lexsort((halves[:, 1], halves[:, 0], self._steps_below_best(offsets)))
        return offsets[order[first : first + count]]

    def _steps_below_best(self, offsets: NDArray[np.int64]) -> NDArray[np.int16]:
        below: NDArray[np.int16] = SCORE_STEPS - self._scores[offsets]
        return below

    def _id_halves(self, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        """(N, 2) the 16 digits of each id as two numbers, which sort a hundred times faster than texts."""
        import numpy as np

        ids = np.array(self._ids.take(offsets).to_numpy(), "S16")
        return ids.view(">u8").astype(np.uint64).reshape(len(ids), 2)


def _near(
    offsets: NDArray[np.int64], keys: NDArray[np.int16] | NDArray[np.uint64], first: int, count: int
) -> tuple[NDArray[np.int64], int]:
    """Of offsets that are sorted by (N,) keys, those that may be among `count` from the place `first` on.

    Returns:
        These offsets, with all of equal keys, and the place among them where the first one is.
    """
    import numpy as np

    low, high = np.partition(keys, (first, first + count - 1))[[first, first + count - 1]]
    near = (keys >= low) & (keys <= high)
    return offsets[near], first - int(np.count_nonzero(keys < low))
