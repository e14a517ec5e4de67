"""Benchmark 8: visual, keyword and semantic search at once in a tenth of the episodes, against the slowest alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.timing import BenchmarkResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import Moment, VectorTable
    from ares.workspace import Workspace

_LIMIT = 40
_FILTER_STEP = 10
_VERBS, _OBJECTS = 40, 400
# Share of distinct captions: robots repeat the same tasks.
_DISTINCT_SHARE = 0.01

RankerCall = Callable[[int], "list[Moment]"]


@dataclass(frozen=True, slots=True, eq=False)
class HybridWorkload:
    """Frame vectors of a workspace, and queries for them.

    Attributes:
        ws: Workspace of the vectors, to which captions are written.
        table: Table of the vectors.
        ids: Ids of the episodes.
        queries: (Q, D) float32 unit vectors.
    """

    ws: Workspace
    table: VectorTable
    ids: Sequence[str]
    queries: NDArray[np.float32]


def benchmark_hybrid_search(workload: HybridWorkload) -> Iterator[BenchmarkResult]:
    """Time two and three rankers at once, after writing a caption for every second of every episode."""
    rows = workload.table.count()
    texts = _write_captions(workload, rows)
    candidates = frozenset(workload.ids[::_FILTER_STEP])
    rankers: dict[str, RankerCall] = {
        "looks": lambda number: workload.table.search_episodes(workload.queries[number], _LIMIT, candidates),
        "words": partial(_rank_by_keywords, workload, texts, candidates),
        "meaning": partial(_rank_by_meaning, workload, candidates),
    }
    for names in (("looks", "words"), ("looks", "words", "meaning")):
        yield _measure_rankers(rows, {name: rankers[name] for name in names}, range(len(workload.queries)))


def _measure_rankers(rows: int, rankers: dict[str, RankerCall], numbers: range) -> BenchmarkResult:
    from ares.search import Ranking, fuse_rankings, run_concurrently

    def search_hybrid(number: int) -> object:
        return fuse_rankings(
            [
                Ranking(matches)
                for matches in run_concurrently([partial(ranker, number) for ranker in rankers.values()])
            ]
        )

    searches: list[Callable[[int], object]] = [search_hybrid, *rankers.values()]
    seconds: list[list[float]] = [[] for _ in searches]
    for number in [0, 1, *numbers]:
        for search, times in zip(searches, seconds, strict=True):
            start = time.perf_counter()
            search(number)
            times.append(time.perf_counter() - start)
    hybrid_seconds, *single_seconds = (statistics.median(times[2:]) for times in seconds)
    parts = ", ".join(
        f"{name} {times * 1e3:.0f} ms" for name, times in zip(rankers, single_seconds, strict=True)
    )
    return BenchmarkResult(
        number=8,
        work=f"{' and '.join(rankers)} among 10 % of the episodes, {rows:,} frames and captions, fused",
        ours_seconds=hybrid_seconds,
        peer=f"the slowest part alone ({parts})",
        peer_seconds=max(single_seconds),
        target="ratio <= 1.5",
    )


def _rank_by_keywords(
    workload: HybridWorkload, texts: Sequence[str], candidates: frozenset[str], number: int
) -> list[Moment]:
    from ares.store import Moment

    hits = workload.ws.stores.tables.segments.search_text(texts[number], _LIMIT, candidates)
    return [
        Moment(episode_id=hit.episode_id, camera="", seconds=hit.start_seconds, score=hit.score)
        for hit in hits
    ]


def _rank_by_meaning(workload: HybridWorkload, candidates: frozenset[str], number: int) -> list[Moment]:
    from ares.search import rank_by_text

    query = workload.queries[number]
    return rank_by_text(workload.ws.stores, "bench", query, _LIMIT, candidates=candidates)


def _write_captions(workload: HybridWorkload, rows: int) -> list[str]:
    """Write a caption for every second of every episode and vectors of the distinct ones; returns query texts."""
    import numpy as np
    import pyarrow as pa

    rng, rows_per_episode = np.random.default_rng(2), rows // len(workload.ids)
    distinct_texts = _distinct_texts(rng, max(len(workload.queries), round(rows * _DISTINCT_SHARE)))
    texts = [distinct_texts[number] for number in rng.integers(0, len(distinct_texts), rows).tolist()]
    for start in range(0, len(workload.ids), 1_000):
        ids = workload.ids[start : start + 1_000]
        first, count = start * rows_per_episode, len(ids) * rows_per_episode
        begin = np.tile(np.arange(float(rows_per_episode)), len(ids))
        columns = {
            "annotation_id": [f"c{number}" for number in range(first, first + count)],
            "episode_id": np.repeat(ids, rows_per_episode),
            "annotator": ["caption"] * count,
            "segment_id": [f"s{number}" for number in range(first, first + count)],
            "start_seconds": begin,
            "stop_seconds": begin + 1,
            "camera": ["front"] * count,
            "text": texts[first : first + count],
            "maker_id": ["bench"] * count,
        }
        workload.ws.stores.tables.segments.upsert(pa.table(columns))
    _add_text_vectors(workload, distinct_texts, rng)
    workload.ws.stores.tables.optimize()
    return distinct_texts[: len(workload.queries)]


def _distinct_texts(rng: np.random.Generator, count: int) -> list[str]:
    numbers = rng.choice(_VERBS * _OBJECTS * _OBJECTS, count, replace=False)
    parts = (
        (number // _OBJECTS**2, number // _OBJECTS % _OBJECTS, number % _OBJECTS)
        for number in numbers.tolist()
    )
    return [
        f"do{verb_number} the it{object_number} in the it{place_number}"
        for verb_number, object_number, place_number in parts
    ]


def _add_text_vectors(workload: HybridWorkload, texts: Sequence[str], rng: np.random.Generator) -> None:
    import numpy as np

    vectors = rng.standard_normal((len(texts), workload.queries.shape[1]), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    workload.ws.stores.tables.texts("bench").add(texts, vectors)
