"""Hybrid: looks, words and meaning asked at once among a tenth of the episodes, against the slowest of them alone."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.timing import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.vectors import Moment, VectorTable
    from ares.workspace import Workspace

_LIMIT = 40
_KEPT = 10
_VERBS, _THINGS = 40, 400
# A robot does the same over and over: this part of the captions is different.
_DIFFERENT = 0.01

Way = Callable[[int], "list[Moment]"]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Frame vectors that are there, and what to ask of them.

    Attributes:
        ws: Where they are; captions are written here.
        table: Their table.
        ids: The episodes.
        queries: (Q, D) float32 unit vectors.
    """

    ws: Workspace
    table: VectorTable
    ids: Sequence[str]
    queries: NDArray[np.float32]


def fused(asked: Asked) -> Iterator[Row]:
    """Benchmark 8: two and three ways at once; a caption for every second of every episode is written first."""
    rows = asked.table.count()
    texts = _captions(asked, rows)
    few = frozenset(asked.ids[::_KEPT])
    ways: dict[str, Way] = {
        "looks": lambda number: asked.table.search_episodes(asked.queries[number], _LIMIT, few),
        "words": partial(_words, asked, texts, few),
        "meaning": partial(_meaning, asked, few),
    }
    for names in (("looks", "words"), ("looks", "words", "meaning")):
        yield _row(rows, {name: ways[name] for name in names}, range(len(asked.queries)))


def _row(rows: int, ways: dict[str, Way], numbers: range) -> Row:
    from ares.search.rank import Ranking, fuse, together

    def hybrid(number: int) -> object:
        return fuse([Ranking(found) for found in together([partial(way, number) for way in ways.values()])])

    asks: list[Callable[[int], object]] = [hybrid, *ways.values()]
    seconds: list[list[float]] = [[] for _ in asks]
    for number in [0, 1, *numbers]:
        for ask, one in zip(asks, seconds, strict=True):
            start = time.perf_counter()
            ask(number)
            one.append(time.perf_counter() - start)
    both, *alone = (statistics.median(one[2:]) for one in seconds)
    parts = ", ".join(f"{name} {one * 1e3:.0f} ms" for name, one in zip(ways, alone, strict=True))
    return Row(
        number=8,
        work=f"{' and '.join(ways)} among 10 % of the episodes, {rows:,} frames and captions, fused",
        ours_seconds=both,
        peer=f"the slowest part alone ({parts})",
        peer_seconds=max(alone),
        target="ratio <= 1.5",
    )


def _words(asked: Asked, texts: Sequence[str], few: frozenset[str], number: int) -> list[Moment]:
    from ares.store.vectors import Moment

    hits = asked.ws.tables.segments.search_text(texts[number], _LIMIT, few)
    return [
        Moment(episode_id=hit.episode_id, camera="", seconds=hit.start_seconds, score=hit.score)
        for hit in hits
    ]


def _meaning(asked: Asked, few: frozenset[str], number: int) -> list[Moment]:
    from ares.search.meaning import said_like
    from ares.store.space import Space

    query = asked.queries[number]
    space = Space(name="bench", encoder="none", model="none", dim=len(query))
    return said_like(asked.ws, space, query, _LIMIT, among=few)


def _captions(asked: Asked, rows: int) -> list[str]:
    """Write a caption for every second of every episode, and vectors of the different ones; returns texts to ask."""
    import numpy as np
    import pyarrow as pa

    chance, each = np.random.default_rng(2), rows // len(asked.ids)
    different = _different(chance, max(len(asked.queries), round(rows * _DIFFERENT)))
    texts = [different[number] for number in chance.integers(0, len(different), rows).tolist()]
    for start in range(0, len(asked.ids), 1_000):
        ids = asked.ids[start : start + 1_000]
        first, count = start * each, len(ids) * each
        begin = np.tile(np.arange(float(each)), len(ids))
        columns = {
            "annotation_id": [f"c{number}" for number in range(first, first + count)],
            "episode_id": np.repeat(ids, each),
            "start_seconds": begin,
            "stop_seconds": begin + 1,
            "camera": ["front"] * count,
            "text": texts[first : first + count],
            "maker_id": ["bench"] * count,
        }
        asked.ws.tables.segments.upsert(pa.table(columns))
    _embed(asked, different, chance)
    asked.ws.tables.optimize()
    return different[: len(asked.queries)]


def _different(chance: np.random.Generator, count: int) -> list[str]:
    drawn = chance.choice(_VERBS * _THINGS * _THINGS, count, replace=False)
    parts = ((one // _THINGS**2, one // _THINGS % _THINGS, one % _THINGS) for one in drawn.tolist())
    return [f"do{verb} the it{thing} in the it{place}" for verb, thing, place in parts]


def _embed(asked: Asked, texts: Sequence[str], chance: np.random.Generator) -> None:
    import numpy as np

    vectors = chance.standard_normal((len(texts), asked.queries.shape[1]), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked.ws.tables.texts("bench").add(texts, vectors)
