"""The metadata of a LeRobot dataset (v2.0, v2.1, v3.0): info.json, its tasks, its list of episodes."""

from __future__ import annotations

import functools
import glob
import json
import os
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares import files
from ares.errors import SourceError

INFO = "meta/info.json"
V2_DATA = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
V2_VIDEO = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
V3_DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
V3_VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
_FIELDS = {"episode_chunk": 0, "episode_index": 0, "chunk_index": 0, "file_index": 0, "video_key": "key"}
_CHUNK_FILES = 1000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Info:
    """What info.json says, and which of the two layouts the folder has.

    Attributes:
        root: Absolute path of the dataset.
        document: All of it.
        shared: Whether files hold many episodes each (v3.0) or one (v2.0, v2.1).
        data_path: Template of the data files.
        video_path: Template of the videos.
    """

    root: str
    document: Mapping[str, Any]
    shared: bool
    data_path: str
    video_path: str

    @property
    def version(self) -> str:
        """As written: "v2.1"."""
        return str(self.document.get("codebase_version") or "")

    @property
    def features(self) -> Mapping[str, Mapping[str, Any]]:
        """Description of each feature that has one."""
        features = self.document.get("features")
        found = features.items() if isinstance(features, dict) else ()
        return {str(name): feature for name, feature in found if isinstance(feature, dict)}

    @property
    def chunk_files(self) -> int:
        """Episodes in a chunk folder of the layout with one file each."""
        return whole_number(self.document.get("chunks_size")) or _CHUNK_FILES

    def count(self, name: str) -> int | None:
        """A total, or None where it is not given as a number."""
        return whole_number(self.document.get(name))

    def data_files(self) -> Iterator[str]:
        """Absolute paths of the data files that there are, in the order of their names."""
        return self._files(self.data_path, "")

    def video_files(self, key: str) -> Iterator[str]:
        """Absolute paths of the videos of a camera that there are, in the order of their names."""
        return self._files(self.video_path, key)

    def has_video(self, key: str) -> bool:
        """Whether a camera has any video."""
        return next(self._found(self.video_path, key), None) is not None

    def _files(self, template: str, key: str) -> Iterator[str]:
        return iter(sorted(str(path) for path in self._found(template, key)))

    def _found(self, template: str, key: str) -> Iterator[Path]:
        parts = string.Formatter().parse(template)
        pattern = "".join(
            glob.escape(text) + ("" if name is None else glob.escape(key) if name == "video_key" else "*")
            for text, name, _, _ in parts
        )
        return files.place(self.root).glob(pattern)


def whole_number(value: object) -> int | None:
    """A number of metadata as an index or a count, or None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None


def read_info(root: Path) -> Info:
    """The info.json of a dataset. Raises SourceError when it cannot be understood."""
    path = root / INFO
    try:
        document = _parsed(path.read_bytes())
    except OSError as error:
        raise SourceError("info.json cannot be read", f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SourceError("info.json is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(
            "info.json is no dataset info", f"{path}: a {type(document).__name__}, not an object"
        )
    stored = document.get("storage_format") or "parquet"
    if stored != "parquet":
        raise SourceError("dataset is not stored as parquet", f"{path}: storage_format {stored!r}")
    shared = _is_shared(root, document)
    templates = (
        {"data_path": V3_DATA, "video_path": V3_VIDEO}
        if shared
        else {"data_path": V2_DATA, "video_path": V2_VIDEO}
    )
    told = {name: _template(document.get(name), usual, name, path) for name, usual in templates.items()}
    return Info(str(root), document, shared, told["data_path"], told["video_path"])


def _parsed(text: bytes) -> Any:
    """A JSON document. Raises ValueError, also for half a surrogate pair, which no store takes for text."""
    document = json.loads(text)
    if b"\\ud" in text.lower():
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _is_shared(root: Path, document: Mapping[str, Any]) -> bool:
    if (root / "meta" / "episodes").is_dir() or (root / "meta" / "episodes.jsonl").is_file():
        return (root / "meta" / "episodes").is_dir()
    return not str(document.get("codebase_version")).startswith(("v1", "v2"))


def _template(told: object, usual: str, name: str, path: Path) -> str:
    if told is None:
        return usual
    try:
        sample = os.path.normpath(str(told).format(**_FIELDS))
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise SourceError(f"{name} in info.json is no path template", f"{path}: {told!r}: {error}") from None
    if sample == ".":
        raise SourceError(f"{name} in info.json is no path template", f"{path}: {told!r}")
    if Path(sample).is_absolute() or sample.startswith("..") or "\x00" in sample:
        raise SourceError(f"{name} in info.json leads out of the dataset", f"{path}: {told!r}")
    return str(told)


def read_json(path: Path) -> Mapping[str, Any] | None:
    """A JSON object, None where there is no such file. Raises SourceError when it is none."""
    if not path.is_file():
        return None
    try:
        document = _parsed(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(f"{path.name} holds no object", str(path))
    return document


@functools.lru_cache(maxsize=64)
def tasks(root: str) -> Mapping[int, str]:
    """Text of each task by its number; empty where there is no list of tasks. Raises SourceError."""
    listed = files.place(root) / "meta" / "tasks.parquet"
    if listed.is_file():
        return _tasks_of_parquet(listed)
    made: dict[int, str] = {}
    for _, row in json_lines(files.place(root) / "meta" / "tasks.jsonl"):
        if not isinstance(row, SourceError):
            number, text = whole_number(row.get("task_index")), row.get("task")
            if number is not None and isinstance(text, str):
                made[number] = text
    return made


def _tasks_of_parquet(path: Path) -> Mapping[int, str]:
    """The text stands in a column that pandas called `task` or `__index_level_0__`, as its index had a name or not."""
    table = read_table(path)
    texts = [name for name in table.column_names if "string" in str(table.schema.field(name).type)]
    if "task_index" not in table.column_names or not texts:
        raise SourceError("tasks.parquet has no task_index or no text", f"{path}: {table.column_names}")
    text = next((name for name in ("task", "__index_level_0__") if name in texts), texts[0])
    numbers = table.column("task_index").to_pylist()
    return {
        int(k): str(one)
        for k, one in zip(numbers, table.column(text).to_pylist(), strict=True)
        if one is not None
    }


def seekable(path: str) -> Any:
    """What pyarrow reads a Parquet file from: a path of this machine as it is, a URL opened. Raises OSError."""
    return files.opened(path) if files.is_url(path) else path


def read_table(path: Path, columns: list[str] | None = None) -> Any:
    """A small parquet file as pyarrow.Table. Raises SourceError when it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(seekable(str(path))) as file:
            return file.read(columns)
    except (pa.ArrowException, OSError) as error:
        raise SourceError("parquet file cannot be read", f"{path}: {error}") from None


def json_lines(path: Path) -> Iterator[tuple[int, Row | SourceError]]:
    """Each line that is not blank: its number from 1, and the object or what is wrong with it."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = _parsed(line)
            except (ValueError, RecursionError) as error:
                yield number, SourceError("metadata line is not JSON", f"{path}, line {number}: {error}")
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                yield number, SourceError("metadata line is no object", f"{path}, line {number}")


def episode_files(info: Info) -> list[Path]:
    """The files that list the episodes, in the order of their names."""
    meta = files.place(info.root) / "meta"
    return sorted((meta / "episodes").rglob("*.parquet")) if info.shared else [meta / "episodes.jsonl"]


def episode_rows(info: Info) -> Iterator[tuple[str, Row | SourceError]]:
    """What the metadata says of each episode and where it stands; one file in memory at a time, statistics left out."""
    for path in episode_files(info):
        if not info.shared:
            yield from ((f"{path}, line {number}", row) for number, row in json_lines(path))
            continue
        try:
            rows = _light_rows(path)
        except SourceError as error:
            yield str(path), error
            continue
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))


def _light_rows(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(seekable(str(path))).names
        table = read_table(path, [name for name in names if not name.startswith("stats/")])
    except (pa.ArrowException, OSError) as error:
        raise SourceError("parquet file cannot be read", f"{path}: {error}") from None
    return (row for batch in table.to_batches(max_chunksize=4096) for row in batch.to_pylist())


def count_episodes(info: Info) -> tuple[int, int]:
    """Episodes (or broken lines) that `episode_rows` gives, and their frames together."""
    episodes = frames = 0
    for path in episode_files(info):
        if info.shared:
            try:
                lengths = read_table(path, ["length"])
            except SourceError:
                episodes += 1
                continue
            episodes += lengths.num_rows
            frames += (
                sum(value or 0 for value in lengths.column("length").to_pylist())
                if lengths.num_columns
                else 0
            )
            continue
        for _, row in json_lines(path):
            episodes += 1
            frames += 0 if isinstance(row, SourceError) else whole_number(row.get("length")) or 0
    return episodes, frames
