"""Which episodes are relevant to a query: the score of each, where to cut, and the best as answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ares.search.engine import EncodedQuery, Hit, find_best_moments_of, run_concurrently, search_moments
from ares.search.query import AUTO, MinScore, Query
from ares.search.rankers.base import RankerScores
from ares.store import EpisodeIdArray, EpisodeRowRuns, SelectedRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import EpisodeSnapshot, RowIndex, Stores


# Below this no gap is looked for: with words compared, and where only vectors say what is alike. See
# docs/why/030-where-a-search-ends.md.
_LEAST_WITH_WORDS, _LEAST_BY_VECTORS = 0.3, 0.7
# Digits of a score: those of the URL and of the recipe of a set, so that a cut means the same everywhere.
SCORE_DIGITS = 4


def choose_relevance_threshold(
    scores: NDArray[np.float64], complete: NDArray[np.bool_] | None, *, has_words: bool
) -> float:
    """The score from which on episodes are relevant, when nobody says another.

    Args:
        scores: (N,) score of each episode, 0 to 1.
        complete: (N,) whether a text of the episode has all words of the query, or None without words. Such an
            episode is never below the cut.
        has_words: Whether words were compared.

    Returns:
        A score of an episode, or the least score that counts where no episode reaches it.
    """
    import numpy as np

    least = _LEAST_WITH_WORDS if has_words else _LEAST_BY_VECTORS
    values = np.unique(scores[scores >= least])
    cut = least
    if len(values):
        gaps = np.diff(values, prepend=least)
        # Of equal gaps the highest: fewer episodes pass.
        cut = float(values[len(gaps) - 1 - int(np.argmax(gaps[::-1]))])
    if complete is not None and complete.any():
        cut = min(cut, float(scores[complete].min()))
    return round(cut, SCORE_DIGITS)


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
        cut: The default cut, see `choose_relevance_threshold`.
        has_scale: Whether a score of 1 means something of itself, and not just the best of this search.

    Attributes:
        version: Number of that version.
        cut, has_scale: As the arguments.
    """

    def __init__(
        self, episodes: EpisodeSnapshot, scores: NDArray[np.int16], cut: float, has_scale: bool = True
    ) -> None:
        self.version, self.cut, self.has_scale = episodes.version, cut, has_scale
        self._episodes, self._scores = episodes, scores
        # Later versions replace them in the caches of the table.
        self._ids = episodes.row_index().episode_ids

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
    ) -> tuple[EpisodeIdArray, NDArray[np.float64]]:
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
        return EpisodeIdArray(self._ids.take(offsets)), self._scores[offsets] / SCORE_STEPS

    def scores_of(self, episode_ids: Sequence[str]) -> list[float]:
        """The score of each of some episodes; 0 for one that is not searched."""
        import numpy as np
        import pyarrow as pa

        offsets = self._episodes.row_index().runs_of(pa.chunked_array([list(episode_ids)], pa.string()))
        scores: list[float] = (np.maximum(self._scores[offsets], 0) / SCORE_STEPS).tolist()
        return scores

    def rows(self, min_score: float) -> SelectedRows:
        """The rows of the episodes that pass a cut, for facets."""
        return SelectedRows(self._episodes, self._passing(min_score, ""))

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
            passing &= self._episodes.row_mask(where)
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
            offsets, first = _narrow_to_ranks(offsets, self._steps_below_best(offsets), first, count)
        if count < len(offsets):
            key = self._steps_below_best(offsets).astype(np.uint64) << np.uint64(64 - _SCORE_BITS)
            key |= self._id_halves(offsets)[:, 0] >> np.uint64(_SCORE_BITS)
            offsets, first = _narrow_to_ranks(offsets, key, first, count)
        halves = self._id_halves(offsets)
        order = np.lexsort((halves[:, 1], halves[:, 0], self._steps_below_best(offsets)))
        return offsets[order[first : first + count]]

    def _steps_below_best(self, offsets: NDArray[np.int64]) -> NDArray[np.int16]:
        below: NDArray[np.int16] = SCORE_STEPS - self._scores[offsets]
        return below

    def _id_halves(self, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        """(N, 2) the 16 digits of each id as two numbers, which sort a hundred times faster than texts."""
        import numpy as np
        import pyarrow as pa

        # As bytes of one length they need not become objects of Python.
        ids = self._ids.take(offsets).cast(pa.binary(16)).combine_chunks()
        digits = np.frombuffer(ids.buffers()[1], ">u8").astype(np.uint64)
        return digits.reshape(-1, 2)[ids.offset : ids.offset + len(ids)]


def _narrow_to_ranks(
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


# What the rankers say counts so much, times the weight of the query; 1 for all others. Chosen on half of the queries
# of docs/why/030-where-a-search-ends.md.
_IMPORTANCE = {"captions": 3.0, "meaning": 1.0, "frames": 0.5}
# Episodes that a ranker scores which has an index, or which cannot score all of them.
_SCORED_BY_INDEX = 5_000


class _WayScores(NamedTuple):
    """What one ranker says of each episode: (N,) from 0 to 1, its weight, and the (N,) that fulfil all of the query."""

    scores: NDArray[np.float64]
    weight: float
    complete: NDArray[np.bool_] | None
    has_scale: bool = True


def score_episodes(stores: Stores, encoded: EncodedQuery) -> EpisodeScores:
    """Score every episode of a workspace; the filter and the limit of the query do not matter.

    The score is the weighted mean of what the rankers say: words 3, meaning 1, looks 0.5, all others 1, each times
    its weight in the query. Words say the share of the query's words; meaning and looks say how far an episode is
    from the median of all towards the same text, or towards the best frame.

    Raises:
        RequestError, ModelError, PluginError: As `search`.
    """
    import numpy as np
    import pyarrow as pa

    episodes = stores.tables.episodes.snapshot()
    row_index = episodes.row_index()
    ways = _way_scores(encoded, row_index)
    total = np.zeros(len(row_index.starts))
    for way in ways:
        total += way.weight * way.scores
    scores = np.rint(total / max(sum(way.weight for way in ways), 1e-9) * SCORE_STEPS).astype(np.int16)
    complete = [way.complete for way in ways if way.complete is not None]
    every_word = np.logical_or.reduce(complete) if complete else None
    if named_episodes := encoded.query.named_episodes:
        excluded = row_index.runs_of(pa.chunked_array([named_episodes], pa.string()))
        scores[excluded[excluded >= 0]] = NOT_SEARCHED
    others = scores != NOT_SEARCHED
    every_word = None if every_word is None else every_word[others]
    # Where only vectors speak, near is what is near the best of the others: how near that is depends on the model.
    best = 1.0 if complete else max(1, int(scores.max(initial=0))) / SCORE_STEPS
    shares = scores[others] / SCORE_STEPS / best
    cut = round(best * choose_relevance_threshold(shares, every_word, has_words=bool(complete)), SCORE_DIGITS)
    return EpisodeScores(episodes, scores, cut, any(way.has_scale for way in ways))


def search_by_score(stores: Stores, query: Query) -> list[Hit]:
    """The episodes that reach `query.min_score`, best first, at most `query.limit`; `score` is from 0 to 1.

    Raises:
        RequestError, ModelError, PluginError: As `search`.
    """
    encoded = EncodedQuery(stores, query)
    scores = score_episodes(stores, encoded)
    cut = scores.resolve_cut(query.min_score)
    ids, values = scores.ranked_ids(cut, query.where, limit=query.limit)
    return find_best_moments_of(stores, encoded, list(ids), values.tolist())


def _way_scores(encoded: EncodedQuery, episodes: RowIndex) -> list[_WayScores]:
    weights = encoded.query.weights
    parts = [(name, part) for name, encoded_parts in encoded.parts.items() for part in encoded_parts]
    evidence = run_concurrently(
        [partial(encoded.rankers[name].score_episodes, part, _SCORED_BY_INDEX) for name, part in parts]
    )
    return [
        _to_way_scores(part_evidence, episodes, weights[name] * _IMPORTANCE.get(name, 1.0))
        for (name, _), part_evidence in zip(parts, evidence, strict=True)
        if len(part_evidence.scores) or part_evidence.scale == "share"
    ]


def _to_way_scores(evidence: RankerScores, episodes: RowIndex, weight: float) -> _WayScores:
    import numpy as np

    best, ids = np.full(len(episodes.starts), -np.inf), evidence.episode_ids
    offsets = ids.runs_in(episodes) if isinstance(ids, EpisodeRowRuns) else episodes.runs_of(ids)
    np.maximum.at(best, offsets[offsets >= 0], evidence.scores[offsets >= 0])
    is_scored = np.isfinite(best)
    if evidence.scale == "share":
        return _WayScores(np.where(is_scored, best, 0.0), weight, is_scored & (best >= 1.0))
    values = best[is_scored]
    if not len(values):
        return _WayScores(np.zeros(len(best)), weight, None)
    low, high = float(np.median(values)), 1.0 if evidence.scale == "absolute" else float(values.max())
    # Where all are alike, they are as like the query as can be told.
    shares = np.clip((best - low) / (high - low), 0.0, 1.0) if high > low else (best >= high).astype(float)
    has_scale = evidence.scale == "absolute"
    return _WayScores(np.where(is_scored, shares, 0.0), weight, None, has_scale)


def search(stores: Stores, query: Query) -> list[Hit]:
    """The best moment of each of the best episodes, at most `query.limit`.

    Each has its score from 0 to 1. With `query.min_score` they are ordered by it, else by their fused ranks.

    Raises:
        RequestError: The filter is invalid, a ranker is unknown, or the workspace lacks what a ranker needs.
        ModelError: The model of the embedding space cannot be loaded.
        PluginError: A ranker or an encoder raised another exception.
    """
    if query.min_score is not None:
        return search_by_score(stores, query)
    encoded = EncodedQuery(stores, query)
    hits = search_moments(stores, encoded, query.where, query.limit)
    if not hits or not (scores := score_episodes(stores, encoded)).has_scale:
        return hits
    values = scores.scores_of([hit.episode_id for hit in hits])
    return [replace(hit, score=value) for hit, value in zip(hits, values, strict=True)]
