"""Runs a search: filters the episodes, ranks them in several ways, fuses the rankings into hits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ares.deadline import carry_deadline_to_thread
from ares.episode import Json
from ares.search.query import Query
from ares.search.rankers.base import MomentRanker, load_ranker
from ares.store import Moment, ids_filter

if TYPE_CHECKING:
    from ares.store import Stores


_T = TypeVar("_T")

# The constant of reciprocal-rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).
_RRF_K = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """The best moment of one episode.

    Attributes:
        episode_id: Id of the episode.
        dataset: Its dataset.
        camera: Camera of the moment; "" when only words or motion matched.
        seconds: The moment, from the start of the episode.
        score: How much of the query the episode fulfils, 0 to 1, see `ares.search.score_episodes`; None where nothing
            was ranked, and for a text by frames alone, where a model has no scale. A filter changes no score.
        instruction: Task instruction of the episode.
        caption: Its caption, or None.
        acceptable: Whether the caption passed its rubric; None when it is not graded or not decided.
        grade: "acceptable", "not_acceptable", "unsure", "error", or None when it is not graded.
        grade_refuted: True where the judge is refuted, so that the grade does not count; else None.
        split: Split of the source, or "".
        key: What the source calls the episode: a record, a file, or the episode number of LeRobot.
        rank_value: What the order follows: cosine similarity by frames, meaning, state or action, BM25 by captions;
            several rankings, and captions together with instructions, are fused by reciprocal rank.
        ranks: (way, rank) for each ranker that lists the episode, such as ("frames", 3); ranks count from 1.
        moments: (camera, seconds, cosine similarity) of its three best frames, best first, more than a second apart;
            empty when frames were not compared.
    """

    episode_id: str
    dataset: str
    camera: str
    seconds: float
    score: float | None
    instruction: str
    caption: str | None
    acceptable: bool | None
    grade: str | None
    split: str = ""
    key: str = ""
    rank_value: float = 0.0
    ranks: tuple[tuple[str, int], ...] = ()
    moments: tuple[tuple[str, float, float], ...] = ()
    grade_refuted: bool | None = None

    def to_json(self) -> dict[str, Json]:
        """One element of `ares search --json`."""
        return {**asdict(self), "ranks": dict(self.ranks)}


def keep_best_moment_per_episode(moments: Iterable[Moment]) -> list[Moment]:
    """The best moment of each episode, best first; of equal scores the first by `moment_order`."""
    best: dict[str, Moment] = {}
    for moment in sorted(moments, key=moment_order):
        best.setdefault(moment.episode_id, moment)
    return list(best.values())


@dataclass(frozen=True, slots=True)
class Ranking:
    """The result of one ranker.

    Attributes:
        moments: Best first, one per episode.
        weight: Its weight in the fusion, above 0.
    """

    moments: Sequence[Moment]
    weight: float = 1.0


def fuse_rankings(rankings: Sequence[Ranking]) -> list[Moment]:
    """Fuse rankings by reciprocal rank: score = sum over rankings of weight / (60 + rank).

    An episode is represented by the moment of the first ranking that names a camera, else of its first ranking.
    """
    summands: dict[str, list[float]] = {}
    representatives: dict[str, Moment] = {}
    for ranking in rankings:
        for rank, moment in enumerate(ranking.moments, start=1):
            summands.setdefault(moment.episode_id, []).append(ranking.weight / (_RRF_K + rank))
            if not representatives.setdefault(moment.episode_id, moment).camera:
                representatives[moment.episode_id] = moment
    # fsum: the sum does not depend on the order of the rankings, so that equal scores stay equal.
    fused = [
        replace(moment, score=math.fsum(summands[episode_id]))
        for episode_id, moment in representatives.items()
    ]
    return sorted(fused, key=moment_order)


def moment_order(moment: Moment) -> tuple[float, str, float, str]:
    """Sort key: best score first, ties by episode, second and camera."""
    return (-moment.score, moment.episode_id, moment.seconds, moment.camera)


def run_concurrently(functions: Sequence[Callable[[], _T]]) -> list[_T]:
    """Call functions in parallel threads and return their results in order: as slow as the slowest of them."""
    if len(functions) < 2:
        return [function() for function in functions]
    with ThreadPoolExecutor(len(functions)) as pool:
        return [
            future.result()
            for future in [pool.submit(carry_deadline_to_thread(function)) for function in functions]
        ]


# Episodes that each ranker returns per episode of the answer, and at least: fusion needs more than what is shown, or an
# episode with all words, which pictures rank low, is missing from a short answer.
_RANKED_PER_HIT, _LEAST_RANKED = 2, 100
_HIT_COLUMNS = (
    "episode_id",
    "dataset",
    "split",
    "key",
    "instruction",
    "caption",
    "acceptable",
    "grade",
    "grade_refuted",
)


class EncodedQuery:
    """A query, and its parts as its rankers compare them: models compute them once, when they are first read.

    Args:
        stores: Stores of the workspace.
        query: The query; ids of its episodes may be shortened.

    Attributes:
        query: The query with the ids of its episodes in full.
        rankers: Its rankers by name.

    Raises:
        RequestError: A ranker is unknown, or the id of an episode is unknown or ambiguous.
        PluginError: A ranker cannot be imported or made.
    """

    def __init__(self, stores: Stores, query: Query) -> None:
        self.query = _complete_query_ids(stores, query)
        self.rankers = {name: load_ranker(name, stores) for name in query.weights}

    @cached_property
    def parts(self) -> Mapping[str, Sequence[Any]]:
        """What each ranker made of the query, by its name. Raises as `Ranker.encode`."""
        return {name: ranker.encode(self.query) for name, ranker in self.rankers.items()}


def search_moments(stores: Stores, encoded: EncodedQuery, where: str, limit: int) -> list[Hit]:
    """The best moment of each of the best episodes.

    Args:
        stores: Stores of the workspace.
        encoded: The query; its own filter and limit do not matter.
        where: SQL filter over the episodes.
        limit: Most episodes in the answer.

    Raises:
        RequestError: The filter is invalid, or the workspace lacks what a ranker needs.
        ModelError: The model of the embedding space cannot be loaded.
        PluginError: A ranker or an encoder raised another exception.
    """
    # Vectors of removed episodes stay where they are: they must not be ranked.
    is_limited = bool(where.strip()) or stores.tables.removed.count() > 0
    candidates = stores.tables.episodes.arrow_ids(where) if is_limited else None
    if candidates is not None and not len(candidates):
        return []  # no model is loaded for nothing
    query, rankers, weights = encoded.query, encoded.rankers, encoded.query.weights
    parts = [(name, part) for name, encoded_parts in encoded.parts.items() for part in encoded_parts]
    # The episodes of the query itself are dropped below: two more are ranked in their place.
    most = max(limit * _RANKED_PER_HIT, _LEAST_RANKED) + 2
    results = run_concurrently([partial(rankers[name].rank, part, candidates, most) for name, part in parts])
    ranked = [(name, moments) for (name, _), moments in zip(parts, results, strict=True) if moments]
    rankings = [Ranking(moments, weights[name]) for name, moments in ranked]
    fused = fuse_rankings(rankings) if len(rankings) > 1 else rankings[0].moments if rankings else ()
    moments = [moment for moment in fused if moment.episode_id not in query.named_episodes][:limit]
    if not moments:
        return []
    return _to_hits(
        stores, moments, _best_moments(rankers, encoded.parts, moments), _ranks_by_episode(ranked, moments)
    )


def _complete_query_ids(stores: Stores, query: Query) -> Query:
    """The query with the ids of its episodes in full. Raises RequestError when one is unknown or ambiguous."""
    episodes, frame = stores.tables.episodes, query.frame
    if query.like.strip():
        query = replace(query, like=episodes.resolve_id(query.like))
    if frame:
        full = frame._replace(episode_id=episodes.resolve_id(frame.episode_id))
        query = replace(query, image=f"{full.episode_id}/{full.camera}@{full.seconds}")
    return query


def list_episodes(stores: Stores, where: str, limit: int) -> list[Hit]:
    """Episodes that a filter selects, in the order of the sources, as hits that nothing ranks.

    Raises RequestError for an invalid filter.
    """
    rows = stores.tables.episodes.scan(["episode_id"], where, limit, order_by="dataset, version, split, key")
    moments = [
        Moment(episode_id=id, camera="", seconds=0.0, score=0.0)
        for batch in rows
        for id in batch["episode_id"].to_pylist()
    ]
    return _to_hits(stores, moments, {}, {moment.episode_id: {} for moment in moments})


def find_best_moments_of(
    stores: Stores, encoded: EncodedQuery, ids: Sequence[str], scores: Sequence[float]
) -> list[Hit]:
    """The best moment of each of some episodes, in their order.

    Args:
        stores: Stores of the workspace.
        encoded: The query; its filter and its limit do not matter.
        ids: Ids of the episodes.
        scores: The score that each has, from 0 to 1.
    """
    if not ids:
        return []
    hits = {hit.episode_id: hit for hit in search_moments(stores, encoded, ids_filter(ids), len(ids))}
    unmatched = [Moment(episode_id=id, camera="", seconds=0.0, score=0.0) for id in ids if id not in hits]
    hits |= {hit.episode_id: hit for hit in _to_hits(stores, unmatched, {}, {id: {} for id in ids})}
    return [replace(hits[id], score=score) for id, score in zip(ids, scores, strict=True) if id in hits]


def _ranks_by_episode(
    ranked: Sequence[tuple[str, Sequence[Moment]]], moments: Sequence[Moment]
) -> dict[str, dict[str, int]]:
    """By episode its rank, from 1, in each way that lists it: the best one where a way has several rankings."""
    ranks: dict[str, dict[str, int]] = {moment.episode_id: {} for moment in moments}
    for name, listed in ranked:
        for rank, moment in enumerate(listed, start=1):
            if moment.episode_id in ranks:
                episode_ranks = ranks[moment.episode_id]
                episode_ranks[name] = min(rank, episode_ranks.get(name, rank))
    return ranks


def _best_moments(
    rankers: Mapping[str, Any], encoded: Mapping[str, Sequence[Any]], moments: Sequence[Moment]
) -> dict[str, list[Moment]]:
    """Further moments of each episode, from the first ranker that can name some."""
    episode_ids = [moment.episode_id for moment in moments]
    for name, ranker in rankers.items():
        if isinstance(ranker, MomentRanker):
            return ranker.best_moments(encoded[name], episode_ids)
    return {}


def _to_hits(
    stores: Stores,
    moments: Sequence[Moment],
    best_moments: Mapping[str, Sequence[Moment]],
    ranks: Mapping[str, Mapping[str, int]],
) -> list[Hit]:
    columns = [column for column in _HIT_COLUMNS if column in stores.tables.episodes.columns()]
    # Trusted: the parser of filters takes a tenth of a second to import.
    where = ids_filter([moment.episode_id for moment in moments])
    rows = stores.tables.episodes.read_columns(columns, where).to_pylist()
    row_by_id = {row["episode_id"]: row for row in rows}
    return [
        _to_hit(
            moment,
            row_by_id[moment.episode_id],
            best_moments.get(moment.episode_id, ()),
            ranks[moment.episode_id],
        )
        for moment in moments
        if moment.episode_id in row_by_id
    ]


def _to_hit(
    moment: Moment, row: dict[str, object], best_moments: Sequence[Moment], ranks: Mapping[str, int]
) -> Hit:
    acceptable, caption, grade = row.get("acceptable"), row.get("caption"), row.get("grade")
    return Hit(
        episode_id=moment.episode_id,
        dataset=str(row["dataset"]),
        camera=moment.camera,
        seconds=float(moment.seconds),
        score=None,
        split=str(row["split"] or ""),
        key=str(row["key"]),
        rank_value=float(moment.score),
        instruction=str(row["instruction"] or ""),
        caption=None if caption is None else str(caption),
        acceptable=None if acceptable is None else bool(acceptable),
        grade=None if grade is None else str(grade),
        grade_refuted=row.get("grade_refuted") is True or None,
        moments=tuple((best.camera, best.seconds, best.score) for best in best_moments),
        ranks=tuple(ranks.items()),
    )
