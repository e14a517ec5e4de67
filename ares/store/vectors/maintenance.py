"""Builds, extends, measures and replaces the approximate index of a vector table while searches continue."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ares.store.vectors import recall
from ares.store.vectors.knn import VectorSnapshot
from ares.store.vectors.tuning import IndexTuning, SearchSetting, write_tuning

if TYPE_CHECKING:
    from ares.store.lance import TableWriter
    from ares.store.vectors.snapshots import VectorTableState


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
    target: float = recall.TARGET,
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
        return _rebuild(table, current_snapshot, target)
    index_is_missing = tuning.kind != "flat" and not snapshot.segments
    if snapshot.row_count >= _RETRAIN * tuning.built_rows or index_is_missing:
        return _rebuild(table, current_snapshot, target)
    if tuning.kind == "flat":
        return tuning
    _drop_other_indices(table, snapshot, tuning.index)
    return _extend(table, current_snapshot, tuning, target)


def unindexed_rows(state: VectorTableState) -> int:
    """Vectors of a table that its next refresh would index; 0 where no index has reached the target recall."""
    tuning = state.tuning
    if tuning is not None and tuning.kind == "flat" and state.rows < _RETRAIN * tuning.built_rows:
        return 0
    return state.rows - state.indexed


def _extend(
    table: TableWriter, current_snapshot: Callable[[], VectorSnapshot], tuning: IndexTuning, target: float
) -> IndexTuning:
    """Add new rows to the index, and measure it again when the table has grown by a fifth."""
    snapshot = current_snapshot()
    if snapshot.unindexed_fragments(snapshot.segments):
        snapshot.writable_dataset().optimize.optimize_indices(index_names=[tuning.index])
        snapshot = current_snapshot()
    if snapshot.row_count < _REMEASURE * tuning.rows:
        return tuning
    trial = recall.make_trial(snapshot, tuning.index, tuning.partitions, seed=snapshot.row_count)
    settings = recall.tune(trial, target)
    if not settings:
        return _rebuild(table, current_snapshot, target)
    return _store_tuning(snapshot, trial, settings, tuning.kind, tuning.built_rows)


def _rebuild(
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
        trial = recall.make_trial(snapshot, name, partitions, seed=snapshot.row_count)
        settings = recall.tune(trial, target)
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
    trial: recall.IndexTrial,
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
        measured=recall.utc_now(),
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
