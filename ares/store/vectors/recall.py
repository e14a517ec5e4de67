"""Measures the recall of a vector index against exact search, and tunes its search settings to a target recall."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ares.store.vectors.ground_truth import GroundTruth, K, compute_ground_truths, sample_queries
from ares.store.vectors.knn import BRUTE_FORCE_ROWS, SearchParams, VectorSnapshot
from ares.store.vectors.tuning import SearchSetting

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TARGET = 0.95
# The queries that select a setting must exceed the target by this margin: other queries will come.
_MARGIN = 0.02
# The 20 nearest rows often share one partition, so recall per query is near 0 or 1: few queries measure nothing.
_QUERIES_PER_KIND = 48
_SHARES = (1.0, 0.1, 0.01, 0.001, 0.0001)
# Shares of the partitions to try. Real queries can lie farther off than any sample, and fewer save little time.
_PROBED_SHARES = (0.05, 0.065, 0.08, 0.1, 0.12, 0.16, 0.2, 0.27, 0.35, 0.6, 1.0)
_CANDIDATES = (60, 100, 200, 400, 800)
# Scores that differ by less are equal.
_SCORE_TOLERANCE = 1e-5

Step = TypeVar("Step")


@dataclass(frozen=True, slots=True, eq=False)
class IndexTrial:
    """An index to measure, with queries and their exact results.

    Attributes:
        snapshot: Version of the table.
        index: Name of the index.
        partitions: Its partitions.
        queries: (Q, D) unit vectors, three kinds in turn. The first half selects a setting, the second half checks it.
        truths: Exact results of all queries, one entry per share of the rows, by falling share.
    """

    snapshot: VectorSnapshot
    index: str
    partitions: int
    queries: NDArray[np.float32]
    truths: Sequence[GroundTruth]

    def params(self, nprobes: int, candidates: int) -> SearchParams:
        """Search parameters for this index."""
        segments = self.snapshot.segments_of(self.index)
        return SearchParams(
            segments=segments, nprobes=nprobes, candidates=candidates, partitions=self.partitions
        )

    def frame_recall(self, truth: GroundTruth, params: SearchParams, half: int) -> float:
        """Mean recall of rows over one half of the queries (0 or 1), for the kind of query where it is lowest."""
        search, thresholds = self.snapshot.search, truth.frame_thresholds
        return self._recall(search, truth, thresholds, truth.expected[0], params, half)

    def episode_recall(self, truth: GroundTruth, params: SearchParams, half: int) -> float:
        """Mean recall of episodes, in the form of `frame_recall`."""
        search, thresholds = self.snapshot.search_episodes, truth.episode_thresholds
        return self._recall(search, truth, thresholds, truth.expected[1], params, half)

    def median_seconds(self, truth: GroundTruth, params: SearchParams) -> float:
        """Median duration of one query for rows, run one after another."""
        seconds = []
        for query in self._half(self.queries, 1):
            start = time.perf_counter()
            self.snapshot.search(query, K, truth.rows, params)
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def _recall(
        self,
        search: Callable[..., pa.Table],
        truth: GroundTruth,
        thresholds: NDArray[np.floating],
        expected: int,
        params: SearchParams,
        half: int,
    ) -> float:
        def query_recall(query: NDArray[np.float32], threshold: float) -> float:
            scores = search(query, K, truth.rows, params)["score"].to_numpy()
            return int((scores >= threshold - _SCORE_TOLERANCE).sum()) / expected

        queries, thresholds = self._half(self.queries, half), self._half(thresholds, half)
        with ThreadPoolExecutor() as threads:
            recalls = list(threads.map(query_recall, queries, thresholds))
        return min(statistics.mean(recalls[kind::3]) for kind in range(3))

    def _half(self, values: NDArray[Any], half: int) -> NDArray[Any]:
        middle = len(values) // 2
        return values[:middle] if half == 0 else values[middle:]


def make_trial(snapshot: VectorSnapshot, index: str, partitions: int, seed: int) -> IndexTrial:
    """Sample queries and compute their exact results in one pass over the vectors."""
    shares = [share for share in _SHARES if share == 1 or share * snapshot.row_count > BRUTE_FORCE_ROWS]
    queries = sample_queries(snapshot, 2 * _QUERIES_PER_KIND, seed)
    truths = compute_ground_truths(snapshot, queries, shares, seed)
    return IndexTrial(snapshot, index, partitions, queries, truths)


def tune(trial: IndexTrial, target: float) -> tuple[SearchSetting, ...]:
    """The cheapest settings that reach the target recall, by falling share; empty when unfiltered search cannot.

    A share for which no setting reaches it is left out: the setting measured for a smaller share serves it too.
    """
    settings: list[SearchSetting] = []
    for truth in trial.truths:
        setting = _cheapest_setting(trial, truth, target)
        if setting is None and truth.rows is None:
            return ()
        settings += [setting] if setting else []
    return tuple(settings)


def _cheapest_setting(trial: IndexTrial, truth: GroundTruth, target: float) -> SearchSetting | None:
    """The setting that the first half of the queries selects, raised until the second half reaches the target."""
    probes = sorted({max(1, round(share * trial.partitions)) for share in _PROBED_SHARES})
    last_probe, last_depth = len(probes) - 1, len(_CANDIDATES) - 1
    probe, depth = _select_setting(trial, truth, probes, min(target + _MARGIN, 1.0))
    while True:
        params = trial.params(probes[probe], _CANDIDATES[depth])
        recall = trial.frame_recall(truth, params, 1)
        if recall >= target:
            break
        if probe == last_probe and depth == last_depth:
            return None
        probe, depth = min(probe + 1, last_probe), min(depth + 1, last_depth)
    episode_setting = _cheapest_episode_setting(trial, truth, target, probes[probe:], _CANDIDATES[depth:])
    if episode_setting is None:
        return None
    wide, deep = episode_setting
    return SearchSetting(
        share=truth.share,
        nprobes=probes[probe],
        candidates=_CANDIDATES[depth],
        wide=wide,
        deep=deep,
        recall=round(recall, 4),
        episodes=round(trial.episode_recall(truth, trial.params(wide, deep), 1), 4),
        p50_ms=round(trial.median_seconds(truth, params) * 1e3, 2),
    )


def _select_setting(
    trial: IndexTrial, truth: GroundTruth, probes: Sequence[int], target: float
) -> tuple[int, int]:
    """Positions in `probes` and `_CANDIDATES`: the fewest probes that suffice, then the fewest candidates for them."""

    def reaches_target(params: SearchParams) -> bool:
        return trial.frame_recall(truth, params, 0) >= target

    probe = _first_sufficient(probes, lambda nprobes: reaches_target(trial.params(nprobes, _CANDIDATES[-1])))
    probe = min(probe, len(probes) - 1)
    depth = _first_sufficient(
        _CANDIDATES, lambda candidates: reaches_target(trial.params(probes[probe], candidates))
    )
    return probe, min(depth, len(_CANDIDATES) - 1)


def _cheapest_episode_setting(
    trial: IndexTrial, truth: GroundTruth, target: float, probes: Sequence[int], candidates: Sequence[int]
) -> tuple[int, int] | None:
    """The cheapest (nprobes, candidates) with which enough episodes are found; None when none suffices."""
    # More probes first, and more candidates only when every partition is probed.
    steps = [(nprobes, candidates[0]) for nprobes in probes]
    steps += [(probes[-1], count) for count in candidates[1:]]
    first = _first_sufficient(
        steps, lambda step: trial.episode_recall(truth, trial.params(*step), 1) >= target
    )
    return None if first == len(steps) else steps[first]


def _first_sufficient(steps: Sequence[Step], is_sufficient: Callable[[Step], bool]) -> int:
    """Index of the first sufficient step, of steps with rising recall; their number when none suffices."""
    return bisect_left(range(len(steps)), True, key=lambda index: is_sufficient(steps[index]))


def utc_now() -> str:
    """The present time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
