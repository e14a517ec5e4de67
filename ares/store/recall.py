"""Recall: an index for a vector table whose settings are measured against exact search until they keep the promise."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ares.store.nearest import FEW, Asked, Nearest
from ares.store.truth import Filtered, K, sample_queries, truths
from ares.store.tuning import Setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TARGET = 0.95
# What chooses a setting has to be better than what is promised: other queries will come.
_MARGIN = 0.02
_PER_KIND = 16
_SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
# Never fewer: no sample is as far off as every question, and fewer save little time.
_PROBED = (0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 1.0)
_CANDIDATES = (400, 800, 1_600, 3_200)
# A different last digit is no other score.
_SAME = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """An index to measure, and what exact search finds for queries that choose a setting and others that check it."""

    near: Nearest
    index: str
    partitions: int
    queries: NDArray[np.float32]
    truths: Sequence[Filtered]

    def asked(self, nprobes: int, candidates: int) -> Asked:
        """How the index is asked."""
        segments = self.near.segments_of(self.index)
        return Asked(segments=segments, nprobes=nprobes, candidates=candidates, partitions=self.partitions)

    def frames(self, truth: Filtered, asked: Asked, half: int) -> tuple[float, float]:
        """Recall of the worst kind of query over one half of the queries, and the median seconds of one."""
        found, seconds = [], []
        for query, last in self._half(truth.frames, half):
            start = time.perf_counter()
            rows = self.near.best(query, K, truth.chosen, asked)
            seconds.append(time.perf_counter() - start)
            found.append(_found(rows["score"].to_numpy(), last) / truth.wanted[0])
        return _worst_kind(found), statistics.median(seconds)

    def episodes(self, truth: Filtered, asked: Asked, half: int) -> float:
        """The same recall, of episodes."""
        best = self.near.best_episodes
        found = [
            _found(best(query, K, truth.chosen, asked)["score"].to_numpy(), last) / truth.wanted[1]
            for query, last in self._half(truth.episodes, half)
        ]
        return _worst_kind(found)

    def _half(self, last: NDArray[np.floating], half: int) -> Iterator[tuple[NDArray[np.float32], float]]:
        middle = len(self.queries) // 2
        part = slice(0, middle) if half == 0 else slice(middle, None)
        return zip(self.queries[part], last[part], strict=True)


def _found(scores: NDArray[np.float64], last: float) -> int:
    return int((scores >= last - _SAME).sum())


def _worst_kind(found: Sequence[float]) -> float:
    return min(statistics.mean(found[kind::3]) for kind in range(3))


def trial(near: Nearest, index: str, partitions: int, seed: int) -> Trial:
    """Draw queries and find their truth: one pass over the vectors."""
    shares = [share for share in _SHARES if share == 1 or share * near.rows > FEW]
    queries = sample_queries(near, 2 * _PER_KIND, seed)
    return Trial(near, index, partitions, queries, truths(near, queries, shares, seed))


def tune(measured: Trial, target: float) -> tuple[Setting, ...]:
    """The cheapest settings that keep the promise, by falling share; none when that of no filter cannot be kept.

    A filter for which nothing is good enough is left out: what was measured for a narrower one serves it too.
    """
    settings: list[Setting] = []
    for truth in measured.truths:
        found = _cheapest(measured, truth, target)
        if found is None and truth.chosen is None:
            return ()
        settings += [found] if found else []
    return tuple(settings)


def _cheapest(measured: Trial, truth: Filtered, target: float) -> Setting | None:
    """What satisfies the first half of the queries, raised until the second half finds enough too."""
    probes = sorted({max(1, round(part * measured.partitions)) for part in _PROBED})
    rung = _first_rung(measured, truth, probes, min(target + _MARGIN, 1.0))
    depth = _fewest(measured, truth, probes[rung], min(target + _MARGIN, 1.0))
    while True:
        recall, seconds = measured.frames(truth, measured.asked(probes[rung], _CANDIDATES[depth]), 1)
        if recall >= target:
            break
        if rung == len(probes) - 1 and depth == len(_CANDIDATES) - 1:
            return None
        rung, depth = min(rung + 1, len(probes) - 1), min(depth + 1, len(_CANDIDATES) - 1)
    # Wider first; deeper only when every partition is looked into.
    steps = [(wide, _CANDIDATES[depth]) for wide in probes[rung:]]
    steps += [(probes[-1], deep) for deep in _CANDIDATES[depth + 1 :]]
    for wide, deep in steps:
        episodes = measured.episodes(truth, measured.asked(wide, deep), 1)
        if episodes >= target:
            return Setting(
                share=truth.share,
                nprobes=probes[rung],
                candidates=_CANDIDATES[depth],
                wide=wide,
                deep=deep,
                recall=round(recall, 4),
                episodes=round(episodes, 4),
                p50_ms=round(seconds * 1e3, 2),
            )
    return None


def _first_rung(measured: Trial, truth: Filtered, probes: Sequence[int], wanted: float) -> int:
    """The fewest partitions with which the most candidates are enough; the last rung when nothing is."""
    low, high = 0, len(probes) - 1
    while low < high:
        middle = (low + high) // 2
        recall, _ = measured.frames(truth, measured.asked(probes[middle], _CANDIDATES[-1]), 0)
        low, high = (low, middle) if recall >= wanted else (middle + 1, high)
    return low


def _fewest(measured: Trial, truth: Filtered, nprobes: int, wanted: float) -> int:
    """The fewest candidates that are enough with so many partitions; the most when nothing is."""
    for depth, candidates in enumerate(_CANDIDATES):
        recall, _ = measured.frames(truth, measured.asked(nprobes, candidates), 0)
        if recall >= wanted:
            return depth
    return len(_CANDIDATES) - 1


def now() -> str:
    """This moment, as a tuning keeps it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
