"""The scores of all episodes of one table version: ranked, cut, filtered and counted without a text per episode."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ares.search.query import AUTO, MinScore
from ares.store.lance import EpisodeIds, SelectedRows

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance import EpisodeSnapshot

# Bars of a histogram of scores.
SCORE_BINS = 50


class EpisodeScores:
    """What a search says of every episode.

    Args:
        episodes: The version of the table that was searched.
        ids: (N,) ids of its episodes, in the order of a scan.
        positions: (N,) positions of their rows, see `RowNumbering`.
        scores: (N,) float64 from 0 to 1, to four digits; NaN for an episode that is not searched, as the query itself.
        cut: The default cut, see `default_cut`.

    Attributes:
        version: Number of that version.
        cut: As the argument.
    """

    def __init__(
        self,
        episodes: EpisodeSnapshot,
        ids: pa.ChunkedArray,
        positions: NDArray[np.int64],
        scores: NDArray[np.float64],
        cut: float,
    ) -> None:
        self.version, self.cut = episodes.version, cut
        self._episodes, self._ids, self._positions, self._scores = episodes, ids, positions, scores

    def __len__(self) -> int:
        return len(self._scores)

    def resolve_cut(self, min_score: MinScore | None) -> float:
        """The number of a cut: the default one for "auto" and None."""
        return self.cut if min_score in (None, AUTO) else float(min_score or 0.0)

    def count(self, min_score: float, where: str = "") -> int:
        """Number of episodes that pass a cut and match a filter. Raises RequestError for an invalid filter."""
        return int(self._passing(min_score, where).sum())

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
        offsets = self._order[self._passing(min_score, where)[self._order]]
        offsets = offsets[first:] if limit is None else offsets[first : first + limit]
        return EpisodeIds(self._ids.take(offsets)), self._scores[offsets]

    def rows(self, min_score: float) -> SelectedRows:
        """The rows of the episodes that pass a cut, for facets."""
        import numpy as np

        row_mask = np.zeros(self._episodes.row_numbering().size, np.bool_)
        row_mask[self._positions] = self._scores >= min_score
        return SelectedRows(self._episodes, row_mask)

    def histogram(self, where: str = "") -> list[int]:
        """Episodes in each of 50 bars of equal width from 0 to 1. Raises RequestError for an invalid filter."""
        import numpy as np

        scores = self._scores[self._passing(0.0, where)]
        bars = (scores * SCORE_BINS).astype(np.int64).clip(max=SCORE_BINS - 1)
        counts: list[int] = np.bincount(bars, minlength=SCORE_BINS).tolist()
        return counts

    def _passing(self, min_score: float, where: str) -> NDArray[np.bool_]:
        """(N,) whether each episode passes; an episode that is not searched passes no cut."""
        passing: NDArray[np.bool_] = self._scores >= min_score
        if where.strip():
            passing = passing & self._episodes.row_mask(where)[self._positions]
        return passing

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """(N,) scan offsets, best score first, ties by id."""
        import numpy as np

        ids = np.array(self._ids.to_numpy(), "S16")
        # Ids are 16 hexadecimal digits: as two numbers they sort a hundred times faster than as texts.
        halves = ids.view(">u8").reshape(len(ids), 2)
        return np.lexsort((halves[:, 1], halves[:, 0], -self._scores))
