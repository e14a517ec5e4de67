"""Export of a set as RLDS: a TFDS folder per group of episodes, whose records are copied or written anew."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares.curation import CurationSet
from ares.errors import AresError, SourceError
from ares.export.base import ExportReport, TaskSource
from ares.export.grouped import (
    DatasetCounts,
    ExportItem,
    ExportOptions,
    GroupedExport,
    GroupedFormat,
    export_groups,
    prefetched,
)
from ares.export.plan import DatasetGroup, ExportPlan, no_origin
from ares.export.retime import ExportClock, RetimeMode
from ares.export.rlds.describe import describe_copied, describe_written
from ares.export.rlds.features import Tree, written_features
from ares.export.rlds.keys import RldsKeys, rlds_keys
from ares.export.rlds.record import CopyRule, RldsRecord, copied_features, copy_record, encode_record
from ares.export.rlds.writer import TfdsWriter
from ares.formats import DATASET_INFO_FILE
from ares.input import read_json
from ares.io import parse_path
from ares.registry import plugin_fault

if TYPE_CHECKING:
    from ares.quality.contract import SetConversion
    from ares.store import Stores

_VERSION = "1.0.0"
# The task of an episode that records of its source have.
_INSTRUCTION: TaskSource = "instruction"


def export_rlds(
    stores: Stores,
    selection: CurationSet,
    destination: Path,
    progress: Callable[[int], None],
    *,
    strict: bool = False,
    task: TaskSource = "instruction",
    fps: float | None = None,
    retime: RetimeMode = "nearest",
    convert: SetConversion | None = None,
) -> ExportReport:
    """Write a set as RLDS: folders DATASET/VERSION that `tensorflow_datasets` opens with this one as its data_dir.

    Episodes of TFRecord files of which nothing is changed are copied as records. All others are written anew: an image
    of the source keeps its bytes, every other frame becomes a JPEG.

    Args:
        stores: Stores of the workspace.
        selection: The set.
        destination: A new or empty folder; it appears complete or not at all.
        progress: Called with a number of episodes whenever some are finished.
        strict: Whether an episode that fails ends the export; else it is left out.
        task: What the task of an episode is, see `ares.export.base.episode_tasks`; with "caption" nothing is copied.
        fps: Steps per second to write; None for the rate of each episode.
        retime: Which step is written for a second, see `ares.export.retime`.
        convert: Conversions of the signals.

    Raises:
        RequestError: The destination is not empty, or the rate is not positive.
        MediaError: No episode can be exported, or with `strict` one cannot; the message lists the first failures.
        StoreError: The disk is full.
    """
    format = GroupedFormat(
        name="rlds tfrecord",
        write_dataset=_write_dataset,
        folders=dataset_folders,
        find_origin=CopyRule() if task == _INSTRUCTION else no_origin,
        left_out=_left_out,
    )
    options = ExportOptions(strict, task, ExportClock(fps, retime), convert)
    return export_groups(stores, selection, destination, progress, options, format)


def _left_out(group: DatasetGroup) -> list[str]:
    keys = rlds_keys(group)
    return group.left_out(signals=[*keys.signals, *keys.standard], has_robots=True)


def dataset_folders(plan: ExportPlan) -> list[str]:
    """DATASET/VERSION of every group; TFDS allows letters, digits and "_" in names."""
    folders: list[str] = []
    names: set[str] = set()
    for group in plan.groups:
        name, version = _source_name(group.origin) if group.origin else (group.name, _VERSION)
        base = unique = _tfds_name(name)
        number = 2
        while unique in names:
            unique, number = f"{base}_{number}", number + 1
        names.add(unique)
        folders.append(f"{unique}/{version}")
    return folders


def _tfds_name(name: str) -> str:
    clean = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").lower()
    return clean if clean[:1].isalpha() else f"dataset_{clean}".strip("_")


def _source_name(folder: str) -> tuple[str, str]:
    """Name and version of the dataset in a folder, by its dataset_info.json, else by the folder."""
    path = parse_path(folder)
    try:
        info = read_json(str(path / DATASET_INFO_FILE))
    except (OSError, SourceError):
        info = {}
    document: dict[str, Any] = info if isinstance(info, dict) else {}
    version = str(document.get("version") or path.name)
    is_version = re.fullmatch(r"\d+\.\d+\.\d+", version)
    return str(document.get("name") or path.parent.name), version if is_version else _VERSION


def _write_dataset(export: GroupedExport, plan: ExportPlan, number: int) -> DatasetCounts:
    """Write one dataset; episodes that fail are recorded, the others are still written."""
    group, folder, counts = plan.groups[number], plan.folders[number], DatasetCounts()
    keys = rlds_keys(group)
    make = copy_record if group.origin else partial(encode_record, group, keys)
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(TfdsWriter(export.root / folder, *folder.split("/"))) as writer,
    ):
        for item, future in prefetched(_start(export.items(plan, number), pool, make), workers):
            record = _collect(export, item, future)
            if record is not None and not export.failures.fatal:
                export.note_written(item, folder, counts.episodes)
                writer.add(item.retimed.episode.split, record.payload)
                _count(counts, group, item, record)
            export.progress(1)
        if counts.episodes and not export.failures.fatal:
            writer.finish(*_documents(group, keys))
    return counts


def _documents(group: DatasetGroup, keys: RldsKeys) -> tuple[Tree, dict[str, Any]]:
    """The contents of features.json and metadata.json."""
    if group.origin:
        return copied_features(group.origin) or {}, describe_copied(group)
    return written_features(group, keys), describe_written(group, keys)


def _start(
    items: Iterator[ExportItem], pool: ThreadPoolExecutor, make: Callable[[ExportItem], RldsRecord]
) -> Iterator[tuple[ExportItem, Future[RldsRecord]]]:
    for item in items:
        yield item, pool.submit(make, item)


def _collect(export: GroupedExport, item: ExportItem, future: Future[RldsRecord]) -> RldsRecord | None:
    """The record of an episode, or None when it failed."""
    try:
        return future.result()
    except AresError as error:
        export.failures.add(item.episode_id, error)
    except OSError:
        raise
    except Exception as error:  # damaged data may raise anything in the libraries that read it
        export.failures.add(item.episode_id, plugin_fault("the exporter of records", error))
    return None


def _count(counts: DatasetCounts, group: DatasetGroup, item: ExportItem, record: RldsRecord) -> None:
    counts.add(item)
    counts.encoded_frames += record.encoded_frames
    counts.reencoded.update(record.encoding_reasons)
    counts.copied_records += bool(group.origin)
    if group.origin and item.task.source not in (_INSTRUCTION, "none"):
        counts.left_out[f"task of {group.name} in the steps of copied records, see ares_export"] += 1
