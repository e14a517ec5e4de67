"""Exact results of sampled queries, with and without filters: the ground truth by which recall is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.store.lance import RowSelection
from ares.store.vectors.knn import VectorSnapshot, to_matrix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Recall is promised for the first 20 results.
K = 20
_BATCH_ROWS = 16_384
# Rows sampled to learn how frames differ.
_SAMPLE_ROWS = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class GroundTruth:
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
    sample = _normalize(to_matrix(snapshot.dataset.take(offsets.tolist(), columns=["vector"])["vector"]))
    mean = sample.mean(axis=0)
    drawn = sample[rng.permutation(len(sample))[np.arange(3 * count) % len(sample)]]
    noise = _normalize(rng.normal(size=drawn.shape).astype(np.float32))
    # Noise in the directions in which frames differ, and of that size: it moves a query to other partitions.
    mixed = rng.normal(size=(3 * count, len(sample))).astype(np.float32) @ (sample - mean)
    mixed *= np.linalg.norm(drawn - mean, axis=1).mean() / np.linalg.norm(mixed, axis=1, keepdims=True)
    seen = _normalize(drawn[:count] + 0.1 * noise[:count])
    unseen = _normalize(drawn[count : 2 * count] + mixed[count : 2 * count])
    texts = _normalize(drawn[2 * count :] - mean + 1.5 * mixed[2 * count :] + noise[0])
    return snapshot.to_stored_precision(np.stack([seen, unseen, texts], axis=1).reshape(-1, drawn.shape[1]))


def compute_ground_truths(
    snapshot: VectorSnapshot, queries: NDArray[np.float32], shares: list[float], seed: int
) -> list[GroundTruth]:
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
    run_starts, offset = snapshot.row_index.offsets, 0
    scanner = snapshot.dataset.scanner(columns=["vector"], scan_in_order=True, batch_size=_BATCH_ROWS)
    for batch in scanner.to_batches():
        scores = queries @ _normalize(to_matrix(batch["vector"])).T
        runs = np.searchsorted(run_starts, np.arange(offset, offset + len(batch)), side="right") - 1
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
) -> GroundTruth:
    rows = None if run_mask.all() else snapshot.row_index.select_runs(run_mask)
    frames, episodes = collector.row_scores, collector.episode_scores
    return GroundTruth(
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


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit
