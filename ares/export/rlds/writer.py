"""Writer of one TFDS dataset folder: shards by size for every split, and the files that describe them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from ares.formats import DATASET_INFO_FILE, DATASET_METADATA_FILE, FEATURES_FILE, SHARD_TEMPLATE, frame_record

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

    def add(self, payload: bytes) -> None:
        """Append a record, in a new shard where the last one is full."""
        if self._file is None:
            self._file = self._partial(len(self.lengths)).open("wb")
            self.lengths.append(0)
            self._shard_bytes = 0
        self._shard_bytes += self._file.write(frame_record(payload))
        self.num_bytes += len(payload)
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

    def add(self, split: str, payload: bytes) -> None:
        """Append a record to a split, "train" where the source has none."""
        name = split_name(split)
        if name not in self._splits:
            self._root.mkdir(parents=True, exist_ok=True)
            self._splits[name] = _SplitWriter(self._root, f"{self._name}-{name}")
        self._splits[name].add(payload)

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


def split_name(split: str) -> str:
    """The name of a split as TFDS allows it; "all" means every split there."""
    name = re.sub(r"\W+", "_", split, flags=re.ASCII) or "train"
    return "all_" if name == "all" else name


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(
        json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
