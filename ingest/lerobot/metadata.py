"""Reads the metadata of LeRobot datasets (v2.0, v2.1, v3.0): info.json, the tasks and the list of episodes."""

from __future__ import annotations

import functools
import glob
import json
import os
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.errors import SourceError
from ares.formats import (
    CHUNK_FILES,
    EPISODE_LINES_PATH,
    EPISODES_FOLDER,
    INFO_PATH,
    PATH_FIELDS,
    TASK_LINES_PATH,
    TASK_TEXT_COLUMN,
    TASKS_PATH,
    V2_DATA_PATH,
    V2_VIDEO_PATH,
    V3_DATA_PATH,
    V3_VIDEO_PATH,
)
from ares.io import is_url, open_file, parse_path
from ingest.json_files import parse_json_lines, read_json_object

MetadataRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeRobotInfo:
    """Content of info.json, and which of the two file layouts the folder has.

    Attributes:
        root: Absolute path of the dataset.
        document: The JSON object of info.json.
        shared_files: Whether files hold many episodes each (v3.0) or one each (v2.0, v2.1).
        data_path: Template of the data files.
        video_path: Template of the videos.
    """

    root: str
    document: Mapping[str, Any]
    shared_files: bool
    data_path: str
    video_path: str

    @property
    def version(self) -> str:
        """Version of the format as written, such as "v2.1"."""
        return str(self.document.get("codebase_version") or "")

    @property
    def features(self) -> Mapping[str, Mapping[str, Any]]:
        """Description of each feature, by key; malformed descriptions are left out."""
        features = self.document.get("features")
        items = features.items() if isinstance(features, dict) else ()
        return {str(key): feature for key, feature in items if isinstance(feature, dict)}

    @property
    def chunk_size(self) -> int:
        """Episodes in a chunk folder of the layout with one file per episode."""
        return as_count(self.document.get("chunks_size")) or CHUNK_FILES

    def count(self, name: str) -> int | None:
        """A total such as "total_episodes", or None where it is not a valid number."""
        return as_count(self.document.get(name))

    def data_files(self) -> Iterator[str]:
        """Absolute paths of the existing data files, sorted by name."""
        return self._sorted_files(self.data_path, "")

    def video_files(self, key: str) -> Iterator[str]:
        """Absolute paths of the existing videos of a camera, sorted by name."""
        return self._sorted_files(self.video_path, key)

    def has_video(self, key: str) -> bool:
        """Whether a camera has any video."""
        return next(self._matching_files(self.video_path, key), None) is not None

    def _sorted_files(self, template: str, key: str) -> Iterator[str]:
        return iter(sorted(str(path) for path in self._matching_files(template, key)))

    def _matching_files(self, template: str, key: str) -> Iterator[Path]:
        parts = string.Formatter().parse(template)
        pattern = "".join(
            glob.escape(text) + ("" if name is None else glob.escape(key) if name == "video_key" else "*")
            for text, name, _, _ in parts
        )
        return parse_path(self.root).glob(pattern)


def as_count(value: object) -> int | None:
    """Convert an index or count from metadata to int; None when it is not an integer from 0 to 2**53."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None


def read_info(root: Path) -> LeRobotInfo:
    """Read the info.json of a dataset. Raises SourceError when it is not valid."""
    path = root / INFO_PATH
    document = read_json_object(path, _parse_json)
    storage_format = document.get("storage_format") or "parquet"
    if storage_format != "parquet":
        raise SourceError("dataset is not stored as parquet", f"{path}: storage_format {storage_format!r}")
    shared_files = _has_shared_files(root, document)
    templates = (
        {"data_path": V3_DATA_PATH, "video_path": V3_VIDEO_PATH}
        if shared_files
        else {"data_path": V2_DATA_PATH, "video_path": V2_VIDEO_PATH}
    )
    paths = {
        name: _path_template(document.get(name), default, name, path) for name, default in templates.items()
    }
    return LeRobotInfo(str(root), document, shared_files, paths["data_path"], paths["video_path"])


def _parse_json(text: bytes) -> Any:
    """Parse JSON. Raises ValueError also for half a surrogate pair, since no store accepts it as text."""
    document = json.loads(text)
    if b"\\ud" in text.lower():
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _has_shared_files(root: Path, document: Mapping[str, Any]) -> bool:
    """Whether the layout is that of v3.0: by the files that list episodes, else by the version."""
    if (root / EPISODES_FOLDER).is_dir() or (root / EPISODE_LINES_PATH).is_file():
        return (root / EPISODES_FOLDER).is_dir()
    return not str(document.get("codebase_version")).startswith(("v1", "v2"))


def _path_template(value: object, default: str, name: str, path: Path) -> str:
    """A path template of info.json, or the default. Raises SourceError when it is unusable or leaves the dataset."""
    if value is None:
        return default
    try:
        sample = os.path.normpath(str(value).format(**PATH_FIELDS))
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise SourceError(
            f"{name} in info.json is not a path template", f"{path}: {value!r}: {error}"
        ) from None
    if sample == ".":
        raise SourceError(f"{name} in info.json is not a path template", f"{path}: {value!r}")
    if Path(sample).is_absolute() or sample.startswith("..") or "\x00" in sample:
        raise SourceError(f"{name} in info.json points outside the dataset", f"{path}: {value!r}")
    return str(value)


def read_optional_json(path: Path) -> Mapping[str, Any] | None:
    """A JSON object; None where the file is missing. Raises SourceError when it is not a JSON object."""
    return read_json_object(path, _parse_json) if path.is_file() else None


@functools.lru_cache(maxsize=64)
def task_texts(root: str) -> Mapping[int, str]:
    """Text of each task by its index; empty where the dataset lists no tasks. Raises SourceError."""
    parquet_file = parse_path(root) / TASKS_PATH
    if parquet_file.is_file():
        return _read_tasks_parquet(parquet_file)
    texts: dict[int, str] = {}
    for _, row in read_json_lines(parse_path(root) / TASK_LINES_PATH):
        if not isinstance(row, SourceError):
            index, text = as_count(row.get("task_index")), row.get("task")
            if index is not None and isinstance(text, str):
                texts[index] = text
    return texts


def _read_tasks_parquet(path: Path) -> Mapping[int, str]:
    """Text by index; pandas stores the texts as column `task` or, from an index without name, `__index_level_0__`."""
    table = read_table(path)
    text_columns = [name for name in table.column_names if "string" in str(table.schema.field(name).type)]
    if "task_index" not in table.column_names or not text_columns:
        raise SourceError("tasks.parquet has no task_index or no text", f"{path}: {table.column_names}")
    column = next((name for name in ("task", TASK_TEXT_COLUMN) if name in text_columns), text_columns[0])
    indices = table.column("task_index").to_pylist()
    return {
        int(index): str(text)
        for index, text in zip(indices, table.column(column).to_pylist(), strict=True)
        if text is not None
    }


def parquet_source(path: str) -> Any:
    """What pyarrow reads a Parquet file from: a local path unchanged, a URL as an open file. Raises OSError."""
    return open_file(path) if is_url(path) else path


def read_table(path: Path, columns: list[str] | None = None) -> Any:
    """Read a small Parquet file as pyarrow.Table. Raises SourceError when it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(parquet_source(str(path))) as file:
            return file.read(columns)
    except (pa.ArrowException, OSError) as error:
        raise SourceError("parquet file cannot be read", f"{path}: {error}") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, MetadataRow | SourceError]]:
    """For each line that is not blank, its number from 1 and its object or error; nothing for a missing file."""
    if path.is_file():
        with path.open("rb") as file:
            yield from parse_json_lines(file, path, _parse_json)


def episode_list_files(info: LeRobotInfo) -> list[Path]:
    """The files that list the episodes, sorted by name."""
    root = parse_path(info.root)
    if info.shared_files:
        return sorted((root / EPISODES_FOLDER).rglob("*.parquet"))
    return [root / EPISODE_LINES_PATH]


def read_episode_list(info: LeRobotInfo) -> Iterator[tuple[str, MetadataRow | SourceError]]:
    """Yield the location and the metadata of each episode, without statistics; one file at a time is in memory."""
    for path in episode_list_files(info):
        if not info.shared_files:
            yield from ((f"{path}, line {number}", row) for number, row in read_json_lines(path))
            continue
        try:
            rows = _rows_without_stats(path)
        except SourceError as error:
            yield str(path), error
            continue
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))


def _rows_without_stats(path: Path) -> Iterator[MetadataRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(parquet_source(str(path))).names
        table = read_table(path, [name for name in names if not name.startswith("stats/")])
    except (pa.ArrowException, OSError) as error:
        raise SourceError("parquet file cannot be read", f"{path}: {error}") from None
    return (row for batch in table.to_batches(max_chunksize=4096) for row in batch.to_pylist())


def count_episodes(info: LeRobotInfo) -> tuple[int, int]:
    """Number of episodes (or broken entries) that `read_episode_list` yields, and the sum of their frames."""
    episodes = frames = 0
    for path in episode_list_files(info):
        for length in _lengths_in_parquet(path) if info.shared_files else _lengths_in_lines(path):
            episodes += 1
            frames += length
    return episodes, frames


def _lengths_in_parquet(path: Path) -> Iterable[int]:
    """Frames of each episode that a file lists; one episode of 0 frames for a file that cannot be read."""
    try:
        table = read_table(path, ["length"])
    except SourceError:
        return [0]
    if not table.num_columns:
        return [0] * table.num_rows
    return [length or 0 for length in table.column("length").to_pylist()]


def _lengths_in_lines(path: Path) -> Iterator[int]:
    for _, row in read_json_lines(path):
        yield 0 if isinstance(row, SourceError) else as_count(row.get("length")) or 0
