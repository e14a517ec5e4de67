"""Export as plain parquet: episodes, steps and annotations, for analysis without ARES."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.annotation import Annotation, canonical
from ares.curate.sets import CurationSet
from ares.episode import Episode, Signal, Trajectory
from ares.export.base import Batch, ExportReport, all_columns, batches, rows_of, staging
from ares.export.failures import Failures
from ares.export.lerobot_write import task_text
from ares.export.manifest import Manifest

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.workspace import Workspace

_ANNOTATIONS = (
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
    ws: Workspace,
    chosen: CurationSet,
    dest: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
) -> ExportReport:
    """Write a set as episodes.parquet, steps.parquet and annotations.parquet.

    Pixels stay where they are: the column `cameras` of episodes.parquet says where.

    Args:
        ws: The workspace.
        chosen: The set.
        dest: A new or empty folder; it is there whole or not at all.
        progress: Called with a number of episodes whenever some are done.
        strict: Whether an episode that fails ends the export; else it is left out.

    Raises:
        RequestError: `dest` is not empty.
        MediaError: The workspace does not have any episode of the set any more; when strict, it lacks one.
        StoreError: The disk is full.
    """
    start = time.monotonic()
    with staging(dest) as root, Manifest(root, ws, chosen, "parquet") as manifest:
        failures, written = Failures(root, strict), _Written()
        with ExitStack() as files:
            _write(_Files(files, root, ws), ws, chosen, manifest, failures, written, progress)
        failures.check(chosen.episodes)
        counts: dict[str, Any] = {
            "episodes": manifest.episodes,
            "frames": written.frames,
            "tasks": len(written.tasks),
        }
        report = ExportReport(
            set=chosen.label,
            **counts,
            path=dest,
            seconds=time.monotonic() - start,
            left_out=tuple(f"signal {name}" for name in sorted(written.extras)),
            datasets=({"path": ".", **counts},),
            failed=len(failures),
            failures=tuple(failures.tallies()),
        )
        manifest.close(report.counts())
    return report


@dataclass(slots=True)
class _Written:
    """What was written so far: steps, different task texts, and names of signals that have no column."""

    frames: int = 0
    tasks: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)


class _Files:
    """The three files, open."""

    def __init__(self, files: ExitStack, root: Path, ws: Workspace) -> None:
        self.columns = all_columns(ws)
        self.episodes = _writer(files, root / "episodes.parquet", ws.tables.episodes.schema(self.columns))
        self.steps = _writer(files, root / "steps.parquet", step_schema())
        self.annotations = _writer(files, root / "annotations.parquet", annotation_schema())


def _write(
    files: _Files,
    ws: Workspace,
    chosen: CurationSet,
    manifest: Manifest,
    failures: Failures,
    written: _Written,
    progress: Callable[[int], None],
) -> None:
    for batch in batches(ws, ws.sets.ids(chosen), failures):
        if batch.episodes:
            about = ws.annotations.about(batch.ids)
            rows = rows_of(ws, files.columns, batch.ids)
            files.episodes.write_table(rows)
            files.steps.write_table(_steps(batch))
            files.annotations.write_table(_annotations(about))
            manifest.used(about)
            for episode in batch.episodes:
                manifest.add(episode, ".", manifest.episodes)
            written.frames += sum(episode.num_steps for episode in batch.episodes)
            written.tasks |= _tasks(batch, rows)
            written.extras |= {
                name for trajectory in batch.trajectories.values() for name in trajectory.extra
            }
        progress(len(batch.asked))


def _writer(files: ExitStack, path: Path, schema: pa.Schema) -> Any:
    import pyarrow.parquet as pq

    return files.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))


def _tasks(batch: Batch, rows: pa.Table) -> set[str]:
    captions = rows["caption"].to_pylist() if "caption" in rows.column_names else [None] * rows.num_rows
    pairs = zip(batch.episodes, captions, strict=True)
    return {task_text(episode, {"caption": caption}) for episode, caption in pairs}


def step_schema() -> pa.Schema:
    """Schema of steps.parquet: one row per step."""
    import pyarrow as pa

    vector = pa.list_(pa.float32())
    fields = [("episode_id", pa.string()), ("step", pa.int64()), ("timestamp", pa.float64())]
    return pa.schema([*fields, ("state", vector), ("action", vector), ("reward", pa.float32())])


def _steps(batch: Batch) -> pa.Table:
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
        _vectors(trajectory.state, count),
        _vectors(trajectory.action, count),
        reward,
    ]
    return pa.Table.from_arrays(columns, schema=step_schema())


def _vectors(signal: Signal | None, count: int) -> pa.Array:
    """(T, D) as a list per step; null where there is no such signal."""
    import numpy as np
    import pyarrow as pa

    if signal is None:
        return pa.nulls(count, pa.list_(pa.float32()))
    offsets = np.arange(count + 1, dtype=np.int32) * signal.values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(signal.values.reshape(-1)))


def annotation_schema() -> pa.Schema:
    """Schema of annotations.parquet: one row per fact, its value as JSON text."""
    import pyarrow as pa

    kinds = dict.fromkeys(_ANNOTATIONS, pa.string()) | dict.fromkeys(
        ("start_seconds", "stop_seconds"), pa.float64()
    )
    cost = [
        ("calls", pa.int64()),
        ("tokens_in", pa.int64()),
        ("tokens_out", pa.int64()),
        ("usd", pa.float64()),
    ]
    return pa.schema([*kinds.items(), ("value", pa.string()), ("frames", pa.list_(pa.float64())), *cost])


def _annotations(about: Sequence[Annotation]) -> pa.Table:
    import pyarrow as pa

    rows = [
        {name: getattr(fact, name) for name in _ANNOTATIONS}
        | {"value": canonical(dict(fact.value)), "frames": list(fact.frames)}
        | {name: getattr(fact.cost, name) for name in ("calls", "tokens_in", "tokens_out", "usd")}
        for fact in about
    ]
    return pa.Table.from_pylist(rows, schema=annotation_schema())
