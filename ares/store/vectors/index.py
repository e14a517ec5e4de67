"""Builds and tunes the approximate index of a vector table, until exact search confirms its recall."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ares.store.lance.row_index import RowSelection
from ares.store.vectors.knn import (
    BRUTE_FORCE_ROWS,
    IndexTuning,
    SearchParams,
    SearchSetting,
    VectorSnapshot,
    to_matrix,
    write_tuning,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.store.lance.table import TableWriter
    from ares.store.vectors.knn import VectorTableState


# Recall is promised for the first 20 results.
K = 20
_BATCH_ROWS = 16_384
# Rows sampled to learn how frames differ.
_SAMPLE_ROWS = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class ExactSearchResults:
    """Exact results of every query among the rows of randomly selected episodes.

    Attributes:
        share: Share of the rows that are searched, 0 to 1.
        rows: Those rows; None for all.
        frame_thresholds: (Q,) score of the 20th best row of each query, or of the last when there are fewer.
        episode_thresholds: (Q,) score of the 20th best episode.
        expected: Number of rows, and of episodes, in a perfect answer: at most 20 each.
    """

    share: float
    rows: RowSelection | None
    frame_thresholds: NDArray[np.floating]
    episode_thresholds: NDArray[np.floating]
    expected: tuple[int, int]


def sample_queries(snapshot: VectorSnapshot, count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors (3 * count, D) of three kinds in turn: stored frames with noise, unseen frames, and texts.

    A text is far from every frame. It shares with some frames only how they differ from the mean frame, shares as
    much with unrelated frames, and adds a direction of its own.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = snapshot.row_count
    offsets = np.sort(rng.choice(rows, min(rows, max(3 * count, _SAMPLE_ROWS)), replace=False))
    sample = _normalize_vectors(
        to_matrix(snapshot.dataset.take(offsets.tolist(), columns=["vector"])["vector"])
    )
    mean = sample.mean(axis=0)
    drawn = sample[rng.permutation(len(sample))[np.arange(3 * count) % len(sample)]]
    noise = _normalize_vectors(rng.normal(size=drawn.shape).astype(np.float32))
    # Noise in the directions in which frames differ, and of that size: it moves a query to other partitions.
    mixed = rng.normal(size=(3 * count, len(sample))).astype(np.float32) @ (sample - mean)
    mixed *= np.linalg.norm(drawn - mean, axis=1).mean() / np.linalg.norm(mixed, axis=1, keepdims=True)
    seen = _normalize_vectors(drawn[:count] + 0.1 * noise[:count])
    unseen = _normalize_vectors(drawn[count : 2 * count] + mixed[count : 2 * count])
    texts = _normalize_vectors(drawn[2 * count :] - mean + 1.5 * mixed[2 * count :] + noise[0])
    return snapshot.to_stored_precision(np.stack([seen, unseen, texts], axis=1).reshape(-1, drawn.shape[1]))


def compute_exact_results(
    snapshot: VectorSnapshot, queries: NDArray[np.float32], shares: list[float], seed: int
) -> list[ExactSearchResults]:
    """Ground truth for each share of rows, in one pass over the vectors.

    Args:
        snapshot: The version of the table.
        queries: (Q, D) unit vectors.
        shares: Shares of the rows, 0 to 1; each stands for a filter that keeps randomly selected episodes.
        seed: Of the random selection.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    episode_codes = snapshot.row_index.episode_ids.combine_chunks().dictionary_encode().indices.to_numpy()
    run_masks = [rng.random(episode_codes.max() + 1)[episode_codes] < share for share in shares]
    collectors = [_TopScores(len(queries)) for _ in shares]
    offset = 0
    scanner = snapshot.dataset.scanner(columns=["vector"], scan_in_order=True, batch_size=_BATCH_ROWS)
    for batch in scanner.to_batches():
        scores = queries @ _normalize_vectors(to_matrix(batch["vector"])).T
        runs = snapshot.row_index.runs_at(np.arange(offset, offset + len(batch)))
        for run_mask, collector in zip(run_masks, collectors, strict=True):
            row_mask = run_mask[runs]
            collector.update(scores if row_mask.all() else scores[:, row_mask], episode_codes[runs[row_mask]])
        offset += len(batch)
    return [
        _to_ground_truth(snapshot, run_mask, collector)
        for run_mask, collector in zip(run_masks, collectors, strict=True)
    ]


def _to_ground_truth(
    snapshot: VectorSnapshot, run_mask: NDArray[np.bool_], collector: _TopScores
) -> ExactSearchResults:
    rows = None if run_mask.all() else snapshot.row_index.select_runs(run_mask)
    frames, episodes = collector.row_scores, collector.episode_scores
    return ExactSearchResults(
        1.0 if rows is None else len(rows.row_ids) / snapshot.row_count,
        rows,
        frames.min(axis=1),
        episodes.min(axis=1),
        (frames.shape[1], episodes.shape[1]),
    )


class _TopScores:
    """Scores of the best rows and of the best episodes of each query, over the batches read so far."""

    def __init__(self, queries: int) -> None:
        import numpy as np

        self.row_scores: NDArray[np.floating] = np.zeros((queries, 0))
        self.episode_scores: NDArray[np.floating] = np.zeros((queries, 0))
        self._episode_codes = np.zeros((queries, 0), np.int64)

    def update(self, scores: NDArray[np.float32], episode_codes: NDArray[np.int32]) -> None:
        """Merge one batch: (Q, B) scores of its rows, (B,) codes of their episodes."""
        import numpy as np

        if not len(episode_codes):
            return
        self.row_scores = _top_k_scores(np.concatenate([self.row_scores, _top_k_scores(scores)], axis=1))
        starts = np.concatenate(([0], np.flatnonzero(np.diff(episode_codes)) + 1))
        batch_scores = np.maximum.reduceat(scores, starts, axis=1)
        merged_scores = np.concatenate([self.episode_scores, batch_scores], axis=1)
        batch_codes = np.broadcast_to(episode_codes[starts], batch_scores.shape)
        merged_codes = np.concatenate([self._episode_codes, batch_codes], axis=1)
        best = [_top_k_episodes(row, codes) for row, codes in zip(merged_scores, merged_codes, strict=True)]
        self.episode_scores = np.stack([row for row, _ in best])
        self._episode_codes = np.stack([codes for _, codes in best])


def _top_k_scores(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    import numpy as np

    return scores if scores.shape[1] <= K else np.partition(scores, -K, axis=1)[:, -K:]


def _top_k_episodes(
    scores: NDArray[np.floating], codes: NDArray[np.int64]
) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """The best score of each episode code, for the 20 best codes."""
    import numpy as np

    order = np.argsort(-scores, kind="stable")
    _, first = np.unique(codes[order], return_index=True)
    selected = order[np.sort(first)[:K]]
    return scores[selected], codes[selected]


def _normalize_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit


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
    truths: Sequence[ExactSearchResults]

    def params(self, nprobes: int, candidates: int) -> SearchParams:
        """Search parameters for this index."""
        segments = self.snapshot.segments_of(self.index)
        return SearchParams(
            segments=segments, nprobes=nprobes, candidates=candidates, partitions=self.partitions
        )

    def frame_recall(self, truth: ExactSearchResults, params: SearchParams, half: int) -> float:
        """Mean recall of rows over one half of the queries (0 or 1), for the kind of query where it is lowest."""
        search, thresholds = self.snapshot.search, truth.frame_thresholds
        return self._recall(search, truth, thresholds, truth.expected[0], params, half)

    def episode_recall(self, truth: ExactSearchResults, params: SearchParams, half: int) -> float:
        """Mean recall of episodes, in the form of `frame_recall`."""
        search, thresholds = self.snapshot.search_episodes, truth.episode_thresholds
        return self._recall(search, truth, thresholds, truth.expected[1], params, half)

    def median_seconds(self, truth: ExactSearchResults, params: SearchParams) -> float:
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
        truth: ExactSearchResults,
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
    truths = compute_exact_results(snapshot, queries, shares, seed)
    return IndexTrial(snapshot, index, partitions, queries, truths)


def tune_index_search(trial: IndexTrial, target: float) -> tuple[SearchSetting, ...]:
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


def _cheapest_setting(trial: IndexTrial, truth: ExactSearchResults, target: float) -> SearchSetting | None:
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
    trial: IndexTrial, truth: ExactSearchResults, probes: Sequence[int], target: float
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
    trial: IndexTrial,
    truth: ExactSearchResults,
    target: float,
    probes: Sequence[int],
    candidates: Sequence[int],
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


# Below this many rows exact search takes tens of milliseconds and needs no index.
FLAT_ROWS = 50_000
# Growth of the table after which an index is trained again, and after which it is measured again.
_RETRAIN, _REMEASURE = 2.0, 1.2
# With four bits few candidates have to be compared exactly: docs/why/009-vector-index.md.
_INDEX_OPTIONS: dict[str, dict[str, Any]] = {"IVF_RQ": {"num_bits": 4}, "IVF_SQ": {}}
_INDEX_KINDS = tuple(_INDEX_OPTIONS)


def refresh_index(
    table: TableWriter,
    current_snapshot: Callable[[], VectorSnapshot],
    flat_rows: int = FLAT_ROWS,
    target: float = TARGET,
) -> IndexTuning | None:
    """Bring the index of a vector table up to date; searches use the old index until the last step.

    Args:
        table: The table.
        current_snapshot: Returns its newest version.
        flat_rows: Number of rows from which a table has an index.
        target: Recall to reach for the first 20 rows, and for the first 20 episodes.

    Returns:
        The tuning now in use, or None for a table so small that search is always exact.
    """
    snapshot = current_snapshot()
    if snapshot.row_count < flat_rows:
        return None
    tuning = snapshot.tuning
    if tuning is None:
        return _rebuild_index(table, current_snapshot, target)
    index_is_missing = tuning.kind != "flat" and not snapshot.segments
    if snapshot.row_count >= _RETRAIN * tuning.built_rows or index_is_missing:
        return _rebuild_index(table, current_snapshot, target)
    if tuning.kind == "flat":
        return tuning
    _drop_other_indices(table, snapshot, tuning.index)
    return _extend_index(table, current_snapshot, tuning, target)


def unindexed_rows(state: VectorTableState) -> int:
    """Vectors of a table that its next refresh would index; 0 where no index has reached the target recall."""
    tuning = state.tuning
    if tuning is not None and tuning.kind == "flat" and state.rows < _RETRAIN * tuning.built_rows:
        return 0
    return state.rows - state.indexed


def _extend_index(
    table: TableWriter, current_snapshot: Callable[[], VectorSnapshot], tuning: IndexTuning, target: float
) -> IndexTuning:
    """Add new rows to the index, and measure it again when the table has grown by a fifth."""
    snapshot = current_snapshot()
    if snapshot.unindexed_fragments(snapshot.segments):
        snapshot.writable_dataset().optimize.optimize_indices(index_names=[tuning.index])
        snapshot = current_snapshot()
    if snapshot.row_count < _REMEASURE * tuning.rows:
        return tuning
    trial = make_trial(snapshot, tuning.index, tuning.partitions, seed=snapshot.row_count)
    settings = tune_index_search(trial, target)
    if not settings:
        return _rebuild_index(table, current_snapshot, target)
    return _store_tuning(snapshot, trial, settings, tuning.kind, tuning.built_rows)


def _rebuild_index(
    table: TableWriter, current_snapshot: Callable[[], VectorSnapshot], target: float
) -> IndexTuning:
    """Train a new index beside the old one, which is dropped once the new one has reached the target recall."""
    snapshot = current_snapshot()
    partitions = max(16, round(snapshot.row_count**0.5))
    for kind in _index_kinds(snapshot):
        # The new index has its own name: searches continue with the index that their tuning names.
        name = f"{kind.lower()}_{snapshot.version}"
        table.create_vector_index(name, kind, partitions, **_INDEX_OPTIONS[kind])
        snapshot = current_snapshot()
        trial = make_trial(snapshot, name, partitions, seed=snapshot.row_count)
        settings = tune_index_search(trial, target)
        if settings:
            tuning = _store_tuning(snapshot, trial, settings, kind, snapshot.row_count)
            _drop_other_indices(table, current_snapshot(), name)
            return tuning
        table.drop_index(name)
    snapshot = current_snapshot()
    tuning = _make_tuning(snapshot, "", 0, "flat", snapshot.row_count, 0, ())
    write_tuning(snapshot.writable_dataset(), tuning)
    _drop_other_indices(table, current_snapshot(), "")
    return tuning


def _store_tuning(
    snapshot: VectorSnapshot,
    trial: IndexTrial,
    settings: tuple[SearchSetting, ...],
    kind: str,
    built_rows: int,
) -> IndexTuning:
    queries = len(trial.queries)
    tuning = _make_tuning(snapshot, trial.index, trial.partitions, kind, built_rows, queries, settings)
    write_tuning(snapshot.writable_dataset(), tuning)
    return tuning


def _make_tuning(
    snapshot: VectorSnapshot,
    index: str,
    partitions: int,
    kind: str,
    built_rows: int,
    queries: int,
    settings: tuple[SearchSetting, ...],
) -> IndexTuning:
    return IndexTuning(
        index=index,
        kind=kind,
        partitions=partitions,
        built_rows=built_rows,
        rows=snapshot.row_count,
        queries=queries,
        measured=utc_now(),
        settings=settings,
    )


def _index_kinds(snapshot: VectorSnapshot) -> tuple[str, ...]:
    """Kinds of index to try, the cheapest first. IVF_RQ packs eight components into a byte."""
    return _INDEX_KINDS if snapshot.dimension % 8 == 0 else _INDEX_KINDS[1:]


def _drop_other_indices(table: TableWriter, snapshot: VectorSnapshot, index: str) -> None:
    """Drop the vector indexes that the tuning does not name, such as those of a killed job."""
    for name in snapshot.vector_indices():
        if name != index:
            table.drop_index(name)
