"""Builds the approximate index of a vector table with fixed settings, and measures its recall once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ares.store.vectors.knn import (
    IndexRecord,
    VectorSnapshot,
    search_params,
    to_matrix,
    write_index_record,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store.lance.table import TableWriter
    from ares.store.vectors.knn import VectorTableState


# Below this many rows exact search takes tens of milliseconds and needs no index.
FLAT_ROWS = 50_000
# Least recall of an index that is used: the share of the true 20 nearest rows that it finds.
TARGET = 0.95
K = 20
# Growth of the table after which an index is trained and measured again.
_RETRAIN = 2.0
# The 20 nearest rows often share one partition, so recall per query is near 0 or 1: few queries measure nothing.
_QUERIES = 96
_BATCH_ROWS = 16_384
# Rows sampled to learn how frames differ.
_SAMPLE_ROWS = 1_024
# Scores that differ by less are equal.
_SCORE_TOLERANCE = 1e-5
# With four bits few candidates have to be compared exactly: docs/why/009-vector-index.md.
_INDEX_OPTIONS: dict[str, dict[str, Any]] = {"IVF_RQ": {"num_bits": 4}, "IVF_SQ": {}}


def refresh_index(
    table: TableWriter, current_snapshot: Callable[[], VectorSnapshot], flat_rows: int = FLAT_ROWS
) -> IndexRecord | None:
    """Bring the index of a vector table up to date; searches use the old index until the last step.

    Args:
        table: The table.
        current_snapshot: Returns its newest version.
        flat_rows: Number of rows from which a table has an index.

    Returns:
        What is recorded of the index now, or None for a table so small that search is always exact.
    """
    snapshot = current_snapshot()
    if snapshot.row_count < flat_rows:
        return None
    record = snapshot.index
    if record is None or snapshot.row_count >= _RETRAIN * record.built_rows:
        return _rebuild_index(table, current_snapshot)
    if record.kind == "flat":
        return record
    if not snapshot.segments:
        return _rebuild_index(table, current_snapshot)
    _drop_other_indices(table, snapshot, record.index)
    if snapshot.unindexed_fragments(snapshot.segments):
        snapshot.writable_dataset().optimize.optimize_indices(index_names=[record.index])
    return record


def unindexed_rows(state: VectorTableState) -> int:
    """Vectors of a table that its next refresh would index; 0 where no index has reached the target recall."""
    record = state.record
    if record is not None and record.kind == "flat" and state.rows < _RETRAIN * record.built_rows:
        return 0
    return state.rows - state.indexed


def _rebuild_index(table: TableWriter, current_snapshot: Callable[[], VectorSnapshot]) -> IndexRecord:
    """Train a new index beside the old one, which is dropped once the recall of the new one is measured."""
    snapshot = current_snapshot()
    partitions = max(16, round(snapshot.row_count**0.5))
    # IVF_RQ packs eight components into a byte.
    kind = "IVF_RQ" if snapshot.dimension % 8 == 0 else "IVF_SQ"
    # The new index has another name: searches continue with the index that their record names.
    name = f"{kind.lower()}_{snapshot.version}"
    table.create_vector_index(name, kind, partitions, **_INDEX_OPTIONS[kind])
    snapshot = current_snapshot()
    queries = sample_queries(snapshot, _QUERIES, seed=snapshot.row_count)
    recall, p50_ms = _measure_recall(snapshot, queries, snapshot.segments_of(name), partitions)
    is_used = recall >= TARGET
    record = IndexRecord(
        index=name if is_used else "",
        kind=kind if is_used else "flat",
        partitions=partitions,
        built_rows=snapshot.row_count,
        queries=len(queries),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        recall=round(recall, 4),
        p50_ms=round(p50_ms, 2),
    )
    write_index_record(snapshot.writable_dataset(), record)
    _drop_other_indices(table, current_snapshot(), record.index)
    return record


def sample_queries(snapshot: VectorSnapshot, count: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors (count, D) as far from every row as a text is from the frames that it describes.

    Rows that are only disturbed are found too easily. A text shares with some rows only how they differ from the mean
    row, shares as much with unrelated rows, and adds a further direction.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = snapshot.row_count
    offsets = np.sort(rng.choice(rows, min(rows, max(count, _SAMPLE_ROWS)), replace=False))
    sample = _normalize_vectors(
        to_matrix(snapshot.dataset.take(offsets.tolist(), columns=["vector"])["vector"])
    )
    mean = sample.mean(axis=0)
    drawn = sample[rng.permutation(len(sample))[np.arange(count) % len(sample)]]
    noise = _normalize_vectors(rng.normal(size=(1, drawn.shape[1])).astype(np.float32))
    # Noise in the directions in which rows differ, and of that size: it moves a query to other partitions.
    mixed = rng.normal(size=(count, len(sample))).astype(np.float32) @ (sample - mean)
    mixed *= np.linalg.norm(drawn - mean, axis=1).mean() / np.linalg.norm(mixed, axis=1, keepdims=True)
    return snapshot.to_stored_precision(_normalize_vectors(drawn - mean + 1.5 * mixed + noise))


def _measure_recall(
    snapshot: VectorSnapshot, queries: NDArray[np.float32], segments: Sequence[str], partitions: int
) -> tuple[float, float]:
    """Share of the true 20 nearest rows that an index finds, 0 to 1, and the median milliseconds of a query."""
    params = search_params(segments, partitions, share=1.0)
    hits, seconds = 0, []
    thresholds = _exact_thresholds(snapshot, queries)
    for query, threshold in zip(queries, thresholds, strict=True):
        start = time.perf_counter()
        scores = snapshot.search(query, K, None, params)["score"].to_numpy()
        seconds.append(time.perf_counter() - start)
        hits += int((scores >= threshold - _SCORE_TOLERANCE).sum())
    expected = len(queries) * min(K, snapshot.row_count)
    return hits / expected, statistics.median(seconds) * 1e3


def _exact_thresholds(snapshot: VectorSnapshot, queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """(Q,) score of the 20th nearest row of each query, or of the last when there are fewer; one pass over all rows."""
    import numpy as np

    best = np.zeros((len(queries), 0), np.float32)
    for batch in snapshot.dataset.scanner(columns=["vector"], batch_size=_BATCH_ROWS).to_batches():
        scores = np.concatenate([best, queries @ _normalize_vectors(to_matrix(batch["vector"])).T], axis=1)
        best = scores if scores.shape[1] <= K else np.partition(scores, -K, axis=1)[:, -K:]
    thresholds: NDArray[np.float32] = best.min(axis=1)
    return thresholds


def _normalize_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    import numpy as np

    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit


def _drop_other_indices(table: TableWriter, snapshot: VectorSnapshot, index: str) -> None:
    """Drop the vector indexes that the record does not name, such as those of a killed job."""
    for name in snapshot.vector_indices():
        if name != index:
            table.drop_index(name)
