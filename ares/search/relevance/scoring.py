"""Scores every episode for a query: each ranker says how like it is, and the weighted mean is the score."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ares.search.engine import describe_ranked, with_full_ids
from ares.search.fusion import run_concurrently
from ares.search.query import Hit, Query
from ares.search.rankers import RankerEvidence, load_ranker
from ares.search.relevance.cut import default_cut
from ares.search.relevance.scores import NOT_SEARCHED, SCORE_STEPS, EpisodeScores
from ares.store.lance import EpisodeRuns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Stores
    from ares.store.lance import RowIndex

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


def score_episodes(stores: Stores, query: Query) -> EpisodeScores:
    """Score every episode of a workspace; the filter and the limit of the query do not matter.

    The score is the weighted mean of what the rankers say: words 3, meaning 1, looks 0.5, all others 1, each times
    its weight in the query. Words say the share of the query's words; meaning and looks say how far an episode is
    from the median of all towards the same text, or towards the best frame.

    Raises:
        RequestError, ModelError, PluginError: As `search`.
    """
    import numpy as np
    import pyarrow as pa

    query = with_full_ids(stores, query)
    episodes = stores.tables.episodes.snapshot()
    row_index = episodes.row_index()
    ways = _way_scores(stores, query, row_index)
    total = np.zeros(len(row_index.starts))
    for way in ways:
        total += way.weight * way.scores
    scores = np.rint(total / max(sum(way.weight for way in ways), 1e-9) * SCORE_STEPS).astype(np.int16)
    complete = [way.complete for way in ways if way.complete is not None]
    every_word = np.logical_or.reduce(complete) if complete else None
    cut = default_cut(scores / SCORE_STEPS, every_word, has_words=bool(complete))
    if query.own_episodes:
        own = row_index.runs_of(pa.chunked_array([query.own_episodes], pa.string()))
        scores[own[own >= 0]] = NOT_SEARCHED
    return EpisodeScores(episodes, scores, cut)


def search_by_score(stores: Stores, query: Query) -> list[Hit]:
    """The episodes that reach `query.min_score`, best first, at most `query.limit`; `score` is from 0 to 1.

    Raises:
        RequestError, ModelError, PluginError: As `search`.
    """
    scores = score_episodes(stores, query)
    cut = scores.resolve_cut(query.min_score)
    ids, values = scores.ranked_ids(cut, query.where, limit=query.limit)
    return describe_ranked(stores, query, list(ids), values.tolist())


def _way_scores(stores: Stores, query: Query, episodes: RowIndex) -> list[_WayScores]:
    weights = query.weights
    rankers = {name: load_ranker(name, stores) for name in weights}
    parts = [(name, part) for name, ranker in rankers.items() for part in ranker.encode(query)]
    evidence = run_concurrently(
        [partial(rankers[name].score_episodes, part, _SCORED_BY_INDEX) for name, part in parts]
    )
    return [
        _to_way_scores(part_evidence, episodes, weights[name] * _IMPORTANCE.get(name, 1.0))
        for (name, _), part_evidence in zip(parts, evidence, strict=True)
        if len(part_evidence.scores) or part_evidence.scale == "share"
    ]


def _to_way_scores(evidence: RankerEvidence, episodes: RowIndex, weight: float) -> _WayScores:
    import numpy as np

    best, ids = np.full(len(episodes.starts), -np.inf), evidence.episode_ids
    offsets = ids.runs_in(episodes) if isinstance(ids, EpisodeRuns) else episodes.runs_of(ids)
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
    return _WayScores(np.where(is_scored, shares, 0.0), weight, None)
