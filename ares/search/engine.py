"""Runs a search: filters the episodes, ranks them in several ways at the same time, fuses the rankings into hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ares.registry import rankers as registry
from ares.search.fusion import Ranking, fuse, run_concurrently
from ares.search.query import Hit, Query
from ares.search.rankers import MomentRanker, Ranker

if TYPE_CHECKING:
    from ares.store import Stores
    from ares.store.vectors import Moment

# Episodes that each ranker returns per episode of the answer: fusion needs more than what is shown.
_RANKED_PER_HIT = 2
_HIT_COLUMNS = ("episode_id", "dataset", "instruction", "caption", "acceptable", "grade")


def search(stores: Stores, query: Query) -> list[Hit]:
    """The best moment of each of the best episodes, at most `query.limit`.

    Raises:
        RequestError: The filter is invalid, a ranker is unknown, or the workspace lacks what a ranker needs.
        ModelError: The model of the embedding space cannot be loaded.
    """
    candidates = stores.tables.episodes.arrow_ids(query.where) if query.where.strip() else None
    weights = query.weights
    rankers: dict[str, Ranker[Any]] = {name: registry.get(name)(stores) for name in weights}
    encoded = {name: ranker.encode(query) for name, ranker in rankers.items()}
    parts = [(name, part) for name, encoded_parts in encoded.items() for part in encoded_parts]
    # The episodes of the query itself are dropped below: two more are ranked in their place.
    limit = query.limit * _RANKED_PER_HIT + 2
    results = run_concurrently([partial(rankers[name].rank, part, candidates, limit) for name, part in parts])
    rankings = [
        Ranking(moments, weights[name]) for (name, _), moments in zip(parts, results, strict=True) if moments
    ]
    moments = _without_query_episodes(_fuse(rankings), query)[: query.limit]
    return _to_hits(stores, moments, _best_moments(rankers, encoded, moments)) if moments else []


def _fuse(rankings: Sequence[Ranking]) -> Sequence[Moment]:
    if len(rankings) > 1:
        return fuse(rankings)
    return rankings[0].moments if rankings else []


def _without_query_episodes(moments: Sequence[Moment], query: Query) -> list[Moment]:
    query_ids = {query.like, query.frame.episode_id if query.frame else ""}
    return [moment for moment in moments if moment.episode_id not in query_ids]


def _best_moments(
    rankers: Mapping[str, Ranker[Any]], encoded: Mapping[str, Sequence[Any]], moments: Sequence[Moment]
) -> dict[str, list[Moment]]:
    """Further moments of each episode, from the first ranker that can name some."""
    episode_ids = [moment.episode_id for moment in moments]
    for name, ranker in rankers.items():
        if isinstance(ranker, MomentRanker):
            return ranker.best_moments(encoded[name], episode_ids)
    return {}


def _to_hits(
    stores: Stores, moments: Sequence[Moment], best_moments: Mapping[str, Sequence[Moment]]
) -> list[Hit]:
    columns = [column for column in _HIT_COLUMNS if column in stores.tables.episodes.columns()]
    ids = ", ".join(f"'{moment.episode_id}'" for moment in moments)
    rows = stores.tables.episodes.read_columns(columns, f"episode_id IN ({ids})").to_pylist()
    row_by_id = {row["episode_id"]: row for row in rows}
    return [
        _to_hit(moment, row_by_id[moment.episode_id], best_moments.get(moment.episode_id, ()))
        for moment in moments
        if moment.episode_id in row_by_id
    ]


def _to_hit(moment: Moment, row: dict[str, object], best_moments: Sequence[Moment]) -> Hit:
    acceptable, caption, grade = row.get("acceptable"), row.get("caption"), row.get("grade")
    return Hit(
        episode_id=moment.episode_id,
        dataset=str(row["dataset"]),
        camera=moment.camera,
        seconds=float(moment.seconds),
        score=float(moment.score),
        instruction=str(row["instruction"] or ""),
        caption=None if caption is None else str(caption),
        acceptable=None if acceptable is None else bool(acceptable),
        grade=None if grade is None else str(grade),
        moments=tuple((best.camera, best.seconds, best.score) for best in best_moments),
    )
