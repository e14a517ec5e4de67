"""Exports a set as RLDS: a TFDS folder for each group of episodes, complete with shards and metadata."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from ares.errors import AresError, SourceError
from ares.export.base import ExportReport, ExportRequest, TaskSource
from ares.export.layout_groups import (
    DatasetCounts,
    DatasetGroup,
    ExportItem,
    ExportPlan,
    GroupedExport,
    GroupedFormat,
    export_groups,
    prefetched,
    rewrite_every_episode,
)
from ares.export.rlds.record import (
    ACTION_KEY,
    LANGUAGE_KEY,
    REWARD_KEY,
    STATE_KEY,
    RecordCopyRule,
    RldsKeys,
    RldsRecord,
    Tree,
    copy_rlds_record,
    encode_rlds_record,
    extend_features_json,
    make_rlds_features,
    rlds_keys,
)
from ares.export.run import ExportReader
from ares.formats import (
    DATASET_INFO_FILE,
    DATASET_METADATA_FILE,
    FEATURES_FILE,
    SHARD_TEMPLATE,
    encode_tfrecord,
)
from ares.input import read_json
from ares.io import parse_path
from ares.registry import plugin_fault

# A shard is closed when it is at least this large.
SHARD_BYTES = 128 * 2**20
_CONTAINER = "tfrecord"


class _SplitWriter:
    """The shards of one split; how many there are is known, and in their names, only at the end."""

    def __init__(self, root: Path, prefix: str) -> None:
        self._root, self._prefix = root, prefix
        self._file: BinaryIO | None = None
        self._shard_bytes = 0
        self.lengths: list[int] = []
        self.num_bytes = 0

    def add(self, record: RldsRecord) -> None:
        """Append a record, in a new shard where the last one is full."""
        if self._file is None:
            self._file = self._partial(len(self.lengths)).open("wb")
            self.lengths.append(0)
            self._shard_bytes = 0
        framed = encode_tfrecord(record.payload)
        self._file.write(framed)
        self._shard_bytes += len(framed)
        self.num_bytes += len(record.payload)
        self.lengths[-1] += 1
        if self._shard_bytes >= SHARD_BYTES:
            self.close()

    def finish(self) -> None:
        """Close the last shard and give all of them their names."""
        self.close()
        for number in range(len(self.lengths)):
            name = f"{self._prefix}.{_CONTAINER}-{number:05d}-of-{len(self.lengths):05d}"
            self._partial(number).rename(self._root / name)

    def close(self) -> None:
        """Close the current shard."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _partial(self, number: int) -> Path:
        return self._root / f"{self._prefix}.{number:05d}.tmp"


class TfdsWriter:
    """Writes records into a folder that `tensorflow_datasets` and ARES open as a dataset.

    Args:
        root: The folder of the version, created when needed.
        name: Name of the dataset.
        version: Its version, as "1.0.0".
    """

    def __init__(self, root: Path, name: str, version: str) -> None:
        self._root, self._name, self._version = root, name, version
        self._splits: dict[str, _SplitWriter] = {}

    def add(self, split: str, record: RldsRecord) -> None:
        """Append a record to a split, "train" where the source has none."""
        name = make_tfds_split_name(split)
        if name not in self._splits:
            self._root.mkdir(parents=True, exist_ok=True)
            self._splits[name] = _SplitWriter(self._root, f"{self._name}-{name}")
        self._splits[name].add(record)

    def finish(self, features: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Name the shards and write the files that describe the dataset.

        Args:
            features: Content of features.json.
            metadata: Content of metadata.json.
        """
        for split in self._splits.values():
            split.finish()
        _write_json(self._root / FEATURES_FILE, features)
        _write_json(self._root / DATASET_METADATA_FILE, metadata)
        _write_json(self._root / DATASET_INFO_FILE, self._info())

    def close(self) -> None:
        """Close all files; may be called twice."""
        with suppress(OSError):  # of a full disk the first error counts
            for split in self._splits.values():
                split.close()

    def _info(self) -> dict[str, Any]:
        """The content of dataset_info.json; counts are texts, as in JSON of protocol buffers."""
        splits = [
            {
                "name": name,
                "filepathTemplate": SHARD_TEMPLATE,
                "shardLengths": [str(length) for length in split.lengths],
                "numBytes": str(split.num_bytes),
            }
            for name, split in self._splits.items()
        ]
        return {
            "name": self._name,
            "version": self._version,
            "description": "Episodes that ARES exported.",
            "fileFormat": _CONTAINER,
            "splits": splits,
        }


def make_tfds_split_name(split: str) -> str:
    """The name of a split as TFDS allows it; "all" means every split there."""
    name = re.sub(r"\W+", "_", split, flags=re.ASCII) or "train"
    return "all_" if name == "all" else name


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(
        json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def describe_copied_dataset(group: DatasetGroup) -> dict[str, Any]:
    """What a copied dataset does not say itself: its rate, and where the outcomes are that people correct."""
    return _metadata_document(
        group, "copied", {"success": "ares_success"} if group.corrected_outcomes else {}
    )


def make_written_dataset_spec(group: DatasetGroup, keys: RldsKeys) -> dict[str, Any]:
    """Rate, dimensions, cameras and instruction, as a spec that ingestion reads."""
    layout = group.layout
    spec: dict[str, Any] = {
        "cameras": {
            name: {"key": key, "role": group.camera_roles[name]} for name, key in keys.cameras.items()
        },
        "state": _signal_slices(STATE_KEY, layout.state_names),
        "action": _signal_slices(ACTION_KEY, layout.action_names),
        "reward": REWARD_KEY if group.has_reward else "",
        "language": [LANGUAGE_KEY],
    }
    return _metadata_document(group, "written", spec)


def _signal_slices(key: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"key": key, "names": list(names)}] if names else []


def _metadata_document(group: DatasetGroup, records: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "ares": version("ares-curation"),
        "records": records,
        "rate_hz": group.rate_hz,
        "rate_source": "assumed" if group.has_assumed_rate else "source",
        "spec": spec,
    }


_VERSION = "1.0.0"
# The task of an episode that records of its source have.
_INSTRUCTION: TaskSource = "instruction"


def export_rlds(
    request: ExportRequest, reader: ExportReader, progress: Callable[[int], None]
) -> ExportReport:
    """Write a set as RLDS: folders DATASET/VERSION that `tensorflow_datasets` opens with this one as its data_dir.

    Episodes of TFRecord files of which nothing is changed are copied as records, unless their captions are the tasks.
    All others are rewritten: an image of the source keeps its bytes, every other frame becomes a JPEG. Arguments
    and errors are those of `Exporter`.
    """
    # A span has another text, a plan makes one dataset of several, and weights stand at the steps.
    is_whole = request.set.num_spans is None and request.plan is None and not request.weights
    is_whole = is_whole and request.signals is None and not request.drop_cameras
    copies_records = request.task.startswith(_INSTRUCTION) and is_whole
    format = GroupedFormat(
        name="rlds tfrecord",
        write_dataset=_write_dataset,
        folders=dataset_folders,
        find_origin=RecordCopyRule() if copies_records else rewrite_every_episode,
        left_out=_left_out,
        has_segments=True,
    )
    return export_groups(request, reader, progress, format)


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
    make = partial(copy_rlds_record, group) if group.origin else partial(encode_rlds_record, group, keys)
    workers = os.cpu_count() or 1
    with (
        ThreadPoolExecutor(workers, thread_name_prefix="export") as pool,
        closing(TfdsWriter(export.root / folder, *folder.split("/"))) as writer,
    ):
        started = ((item, pool.submit(make, item)) for item in export.items(plan, number))
        for item, future in prefetched(started, workers):
            record = _collect_record(export, item, future)
            if record is not None and not export.failures.fatal:
                export.note_written(item, folder, counts.episodes)
                writer.add(item.side, record)
                _count_record(counts, group, item, record)
            export.progress(1)
        if counts.episodes and not export.failures.fatal:
            writer.finish(*_features_and_metadata(group, keys))
    return counts


def _features_and_metadata(group: DatasetGroup, keys: RldsKeys) -> tuple[Tree, dict[str, Any]]:
    """The contents of features.json and metadata.json."""
    if group.origin:
        features = extend_features_json(group.origin, has_outcomes=group.corrected_outcomes > 0)
        return features or {}, describe_copied_dataset(group)
    return make_rlds_features(group, keys), make_written_dataset_spec(group, keys)


def _collect_record(export: GroupedExport, item: ExportItem, future: Future[RldsRecord]) -> RldsRecord | None:
    """The record of an episode, or None when it failed."""
    try:
        return future.result()
    except AresError as error:
        export.failures.add(item.member, error)
    except OSError:
        raise
    except Exception as error:  # damaged data may raise anything in the libraries that read it
        export.failures.add(item.member, plugin_fault("the exporter of records", error))
    return None


def _count_record(counts: DatasetCounts, group: DatasetGroup, item: ExportItem, record: RldsRecord) -> None:
    counts.add(item)
    counts.encoded_frames += record.encoded_frames
    counts.reencoded.update(record.encoding_reasons)
    counts.copied_records += bool(group.origin)
    for key in record.older_embeddings:
        counts.left_out[f"{key} of {group.name}: it is of the instruction before people corrected it"] += 1
    if group.origin and item.task.source not in (_INSTRUCTION, "none"):
        counts.left_out[f"task of {group.name} in the steps of copied records, see ares_export"] += 1
