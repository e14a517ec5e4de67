"""Recall: an index for a vector table whose settings are measured against exact search until they keep the promise."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ares.store.nearest import FEW, Asked, Nearest
from ares.store.truth import Filtered, K, sample_queries, truths
from ares.store.tuning import Setting

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TARGET = 0.95
# What chooses a setting has to be better than what is promised: other queries will come.
_MARGIN = 0.02
# The 20 nearest often lie in one partition, so that a query finds all or nothing: few queries would be a lottery.
_PER_KIND = 48
_SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
# Never fewer: no sample is as far off as every question, and fewer save little time.
_PROBED = (0.05, 0.065, 0.08, 0.1, 0.12, 0.16, 0.2, 0.27, 0.35, 0.6, 1.0)
_CANDIDATES = (60, 100, 200, 400, 800)
# A different last digit is no other score.
_SAME = 1e-5

Step = TypeVar("Step")


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

    def frames(self, truth: Filtered, asked: Asked, half: int) -> float:
        """Recall of the worst kind of query over one half of the queries."""
        return self._recall(self.near.best, truth, truth.frames, truth.wanted[0], asked, half)

    def episodes(self, truth: Filtered, asked: Asked, half: int) -> float:
        """The same recall, of episodes."""
        return self._recall(self.near.best_episodes, truth, truth.episodes, truth.wanted[1], asked, half)

    def median_seconds(self, truth: Filtered, asked: Asked) -> float:
        """Of one query for rows, one after another."""
        seconds = []
        for query in self._half(self.queries, 1):
            start = time.perf_counter()
            self.near.best(query, K, truth.chosen, asked)
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def _recall(
        self,
        best: Callable[..., pa.Table],
        truth: Filtered,
        last: NDArray[np.floating],
        wanted: int,
        asked: Asked,
        half: int,
    ) -> float:
        def found(query: NDArray[np.float32], last: float) -> float:
            scores = best(query, K, truth.chosen, asked)["score"].to_numpy()
            return int((scores >= last - _SAME).sum()) / wanted

        with ThreadPoolExecutor() as threads:
            parts = list(threads.map(found, self._half(self.queries, half), self._half(last, half)))
        return min(statistics.mean(parts[kind::3]) for kind in range(3))

    def _half(self, values: NDArray[Any], half: int) -> NDArray[Any]:
        middle = len(values) // 2
        return values[:middle] if half == 0 else values[middle:]


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
    rung, depth = _chosen(measured, truth, probes, min(target + _MARGIN, 1.0))
    while True:
        asked = measured.asked(probes[rung], _CANDIDATES[depth])
        recall = measured.frames(truth, asked, 1)
        if recall >= target:
            break
        if rung == len(probes) - 1 and depth == len(_CANDIDATES) - 1:
            return None
        rung, depth = min(rung + 1, len(probes) - 1), min(depth + 1, len(_CANDIDATES) - 1)
    # Wider first; deeper only when every partition is looked into.
    steps = [(wide, _CANDIDATES[depth]) for wide in probes[rung:]]
    steps += [(probes[-1], deep) for deep in _CANDIDATES[depth + 1 :]]
    first = _first(steps, lambda step: measured.episodes(truth, measured.asked(*step), 1) >= target)
    if first == len(steps):
        return None
    wide, deep = steps[first]
    return Setting(
        share=truth.share,
        nprobes=probes[rung],
        candidates=_CANDIDATES[depth],
        wide=wide,
        deep=deep,
        recall=round(recall, 4),
        episodes=round(measured.episodes(truth, measured.asked(wide, deep), 1), 4),
        p50_ms=round(measured.median_seconds(truth, asked) * 1e3, 2),
    )


def _chosen(measured: Trial, truth: Filtered, probes: Sequence[int], wanted: float) -> tuple[int, int]:
    """The fewest partitions with which the most candidates are enough, then the fewest candidates for those."""

    def enough(asked: Asked) -> bool:
        return measured.frames(truth, asked, 0) >= wanted

    rung = _first(probes, lambda nprobes: enough(measured.asked(nprobes, _CANDIDATES[-1])))
    rung = min(rung, len(probes) - 1)
    depth = _first(_CANDIDATES, lambda candidates: enough(measured.asked(probes[rung], candidates)))
    return rung, min(depth, len(_CANDIDATES) - 1)


def _first(steps: Sequence[Step], enough: Callable[[Step], bool]) -> int:
    """Place of the first step that is enough, of steps that find more and more; their number when none is."""
    return bisect_left(range(len(steps)), True, key=lambda place: enough(steps[place]))


def now() -> str:
    """This moment, as a tuning keeps it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
