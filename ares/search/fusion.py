"""Combines rankings: the best moment per episode, and reciprocal-rank fusion of several rankings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ares.deadline import with_deadline
from ares.store.vectors import Moment

_T = TypeVar("_T")

# The constant of reciprocal-rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).
_RRF_K = 60


def best_per_episode(moments: Iterable[Moment]) -> list[Moment]:
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


def fuse(rankings: Sequence[Ranking]) -> list[Moment]:
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
            future.result() for future in [pool.submit(with_deadline(function)) for function in functions]
        ]
