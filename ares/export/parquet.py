"""Export of a set as plain Parquet files of episodes, steps and annotations, for analysis without ARES."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, canonical_json
from ares.curation import CurationSet, Sets
from ares.episode import Episode, Signal, Trajectory
from ares.export.base import (
    ExportBatch,
    ExportReport,
    all_columns,
    episode_batches,
    read_rows,
    staging_folder,
    task_text,
)
from ares.export.left_out import ExportFailures
from ares.export.manifest import ExportManifest

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store import Stores

_COST_COLUMNS = ("calls", "tokens_in", "tokens_out", "usd")
_ANNOTATION_COLUMNS = (
    "annotation_id",
    "episode_id",
    "name",
    "subject",
    "start_seconds",
    "stop_seconds",
    "camera",
    "maker_id",
    "created",
)


def export_parquet(
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
) -> ExportReport:
    """Write a set as episodes.parquet, steps.parquet and annotations.parquet.

    Pixels are not copied: the column `cameras` of episodes.parquet refers to the source files.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        destination: A new or empty folder; it appears complete or not at all.
        progress: Called with a number of episodes whenever some are finished.
        strict: Whether an episode that fails ends the export; else it is left out.

    Raises:
        RequestError: The destination is not empty.
        MediaError: The workspace no longer has any episode of the set, or with `strict` lacks one.
        StoreError: The disk is full.
    """
    start = time.monotonic()
    with staging_folder(destination) as root, ExportManifest(root, stores, selection, "parquet") as manifest:
        failures, written = ExportFailures(root, strict), _ParquetCounts()
        with ExitStack() as stack:
            files = _ParquetFiles(stack, root, stores)
            _write_batches(files, stores, selection, manifest, failures, written, progress)
        failures.check(selection.episodes)
        counts: dict[str, Any] = {
            "episodes": manifest.episodes,
            "frames": written.frames,
            "tasks": len(written.tasks),
        }
        report = ExportReport(
            set=selection.label,
            **counts,
            path=destination,
            seconds=time.monotonic() - start,
            left_out=tuple(f"signal {name}" for name in sorted(written.extra_signals)),
            datasets=({"path": ".", **counts},),
            failed=len(failures),
            failures=tuple(failures.tallies()),
        )
        manifest.write(report.counts())
    return report


@dataclass(slots=True)
class _ParquetCounts:
    """Counts of what was written: steps, distinct task texts, and names of signals that have no column."""

    frames: int = 0
    tasks: set[str] = field(default_factory=set)
    extra_signals: set[str] = field(default_factory=set)


class _ParquetFiles:
    """Writers of the three files, closed with the stack."""

    def __init__(self, stack: ExitStack, root: Path, stores: Stores) -> None:
        self.columns = all_columns(stores)
        self.episodes = _open_writer(
            stack, root / "episodes.parquet", stores.tables.episodes.schema(self.columns)
        )
        self.steps = _open_writer(stack, root / "steps.parquet", steps_schema())
        self.annotations = _open_writer(stack, root / "annotations.parquet", annotations_schema())


def _write_batches(
    files: _ParquetFiles,
    stores: Stores,
    selection: CurationSet,
    manifest: ExportManifest,
    failures: ExportFailures,
    written: _ParquetCounts,
    progress: Callable[[int], None],
) -> None:
    for batch in episode_batches(stores, Sets(stores.annotations).ids(selection), failures):
        if batch.episodes:
            annotations = stores.annotations.find_annotations(batch.ids)
            rows = read_rows(stores, files.columns, batch.ids)
            files.episodes.write_table(rows)
            files.steps.write_table(_step_table(batch))
            files.annotations.write_table(_annotation_table(annotations))
            manifest.add_makers(annotations)
            for episode in batch.episodes:
                manifest.add(episode, ".", manifest.episodes)
            written.frames += sum(episode.num_steps for episode in batch.episodes)
            written.tasks |= _task_texts(batch, rows)
            written.extra_signals |= {
                name for trajectory in batch.trajectories.values() for name in trajectory.extra
            }
        progress(len(batch.requested_ids))


def _open_writer(stack: ExitStack, path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))


def _task_texts(batch: ExportBatch, rows: pa.Table) -> set[str]:
    captions = rows["caption"].to_pylist() if "caption" in rows.column_names else [None] * rows.num_rows
    pairs = zip(batch.episodes, captions, strict=True)
    return {task_text(episode, {"caption": caption}) for episode, caption in pairs}


def steps_schema() -> pa.Schema:
    """Schema of steps.parquet: one row per step."""
    import pyarrow as pa

    vector = pa.list_(pa.float32())
    fields = [("episode_id", pa.string()), ("step", pa.int64()), ("timestamp", pa.float64())]
    return pa.schema([*fields, ("state", vector), ("action", vector), ("reward", pa.float32())])


def _step_table(batch: ExportBatch) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables(
        _episode_steps(episode, batch.trajectories[episode.episode_id]) for episode in batch.episodes
    )


def _episode_steps(episode: Episode, trajectory: Trajectory) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    count = len(trajectory.timestamps)
    reward = (
        pa.nulls(count, pa.float32()) if trajectory.reward is None else pa.array(trajectory.reward.ravel())
    )
    columns = [
        pa.repeat(pa.scalar(episode.episode_id), count),
        pa.array(np.arange(count)),
        pa.array(trajectory.timestamps),
        _signal_column(trajectory.state, count),
        _signal_column(trajectory.action, count),
        reward,
    ]
    return pa.Table.from_arrays(columns, schema=steps_schema())


def _signal_column(signal: Signal | None, count: int) -> pa.Array:
    """A (T, D) signal as a column of T lists; null in every row without a signal."""
    import numpy as np
    import pyarrow as pa

    if signal is None:
        return pa.nulls(count, pa.list_(pa.float32()))
    offsets = np.arange(count + 1, dtype=np.int32) * signal.values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(signal.values.reshape(-1)))


def annotations_schema() -> pa.Schema:
    """Schema of annotations.parquet: one row per annotation, its value as JSON text."""
    import pyarrow as pa

    column_types = dict.fromkeys(_ANNOTATION_COLUMNS, pa.string())
    column_types |= {"start_seconds": pa.float64(), "stop_seconds": pa.float64()}
    column_types |= {"value": pa.string(), "frames": pa.list_(pa.float64())}
    column_types |= dict.fromkeys(_COST_COLUMNS, pa.int64()) | {"usd": pa.float64()}
    return pa.schema(list(column_types.items()))


def _annotation_table(annotations: Sequence[Annotation]) -> pa.Table:
    import pyarrow as pa

    rows = [
        {name: getattr(annotation, name) for name in _ANNOTATION_COLUMNS}
        | {"value": canonical_json(dict(annotation.value)), "frames": list(annotation.frames)}
        | {name: getattr(annotation.cost, name) for name in _COST_COLUMNS}
        for annotation in annotations
    ]
    return pa.Table.from_pylist(rows, schema=annotations_schema())
