"""Rank: the best moment of each episode, and the fusion of several rankings into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from ares.store.vectors import Moment

_T = TypeVar("_T")

# Constant of reciprocal-rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).
_RRF_K = 60


def best_per_episode(moments: Iterable[Moment]) -> list[Moment]:
    """One moment per episode, best first; ties go to the earlier second, then the camera, then the id."""
    best: dict[str, Moment] = {}
    for moment in sorted(moments, key=order):
        best.setdefault(moment.episode_id, moment)
    return list(best.values())


@dataclass(frozen=True, slots=True)
class Ranking:
    """One answer among several.

    Attributes:
        moments: Best first, one per episode.
        weight: How much it counts.
    """

    moments: Sequence[Moment]
    weight: float = 1.0


def fuse(rankings: Sequence[Ranking]) -> list[Moment]:
    """Reciprocal-rank fusion: score = sum over rankings of weight / (60 + rank).

    Of the moments of an episode that with a camera is shown, the first of them.
    """
    parts: dict[str, list[float]] = {}
    shown: dict[str, Moment] = {}
    for ranking in rankings:
        for rank, moment in enumerate(ranking.moments, start=1):
            parts.setdefault(moment.episode_id, []).append(ranking.weight / (_RRF_K + rank))
            if not shown.setdefault(moment.episode_id, moment).camera:
                shown[moment.episode_id] = moment
    # fsum: the same parts in another order are the same sum, so that equals stay equals.
    fused = [replace(moment, score=math.fsum(parts[episode_id])) for episode_id, moment in shown.items()]
    return sorted(fused, key=order)


def order(moment: Moment) -> tuple[float, str, float, str]:
    """Sort key: the best score first, ties by episode, second and camera."""
    return (-moment.score, moment.episode_id, moment.seconds, moment.camera)


def together(parts: Sequence[Callable[[], _T]]) -> list[_T]:
    """What each part gives, in their order, all asked at once: a hybrid search takes as long as its slowest part."""
    if len(parts) < 2:
        return [part() for part in parts]
    with ThreadPoolExecutor(len(parts)) as pool:
        return [future.result() for future in [pool.submit(part) for part in parts]]
