"""Reads what a LeRobot dataset says of itself: info.json, tasks, and path templates."""

from __future__ import annotations

import functools
import glob
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ares.episode import RateSource
from ares.errors import SourceError
from ares.formats import (
    CHUNK_FILES,
    DATA_FILE_COLUMNS,
    EPISODE_LINES_PATH,
    EPISODES_FOLDER,
    INFO_PATH,
    RATE_SOURCE_COLUMN,
    SEGMENTS_PATH,
    SUBTASK_INDEX,
    SUBTASKS_PATH,
    TASK_LINES_PATH,
    TASK_TEXT_COLUMN,
    TASKS_PATH,
    V2_DATA_PATH,
    V2_VIDEO_PATH,
    V3_DATA_PATH,
    V3_VIDEO_PATH,
)
from ares.input import (
    check_parquet_read,
    check_path_template,
    check_relative_path,
    input_budgets,
    limited_memory,
    open_parquet,
    parse_json,
    parse_json_lines,
    read_lines,
)
from ares.io import FileState, file_state, parse_path
from ares_ingest.files import local_files, read_json_object

PathRole = Literal["episode", "file", "chunk", "camera"]

_FIELD = re.compile(r"\{(\w+)(:\d*d?)?\}")
# The placeholders that LeRobot writes.
_ROLES: Mapping[str, PathRole] = {
    "episode_index": "episode",
    "episode_chunk": "chunk",
    "chunk_index": "chunk",
    "file_index": "file",
    "video_key": "camera",
}


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A relative path with the placeholders of LeRobot; made by `parse_template`.

    Attributes:
        text: As written in info.json.
    """

    text: str

    def has(self, role: PathRole) -> bool:
        """Whether a placeholder stands for this."""
        return any(_ROLES[match[1]] == role for match in _FIELD.finditer(self.text))

    def fill(self, values: Mapping[PathRole, int | str]) -> str:
        """The path; a value that is not given counts as 0. Raises SourceError when a value leads out of the dataset."""
        path = self.write(str, lambda role, digits: str(values.get(role, 0)).zfill(digits))
        return check_relative_path(path, f"path template {self.text!r}")

    def glob(self, camera: str) -> str:
        """Pattern of all files of a camera ("" for data files)."""
        return self.write(
            glob.escape, lambda role, _: glob.escape(camera) if role == "camera" and camera else "*"
        )

    def match(self, path: str, role: PathRole) -> int | None:
        """The number that a path has in place of a placeholder; None when the path does not fit the template."""
        match = _template_pattern(self).fullmatch(path)
        text = match.groupdict().get(role) if match else None
        return int(text) if text else None

    def write(self, literal: Callable[[str], str], placeholder: Callable[[PathRole, int], str]) -> str:
        """The template with other texts in place of its literal ones and of its placeholders.

        Args:
            literal: The text for a literal one.
            placeholder: The text for what a placeholder stands for, and the digits that a number is padded to.
        """
        first, *pieces = _FIELD.split(self.text)
        texts = [literal(first)]
        for name, form, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            digits = int((form or "").strip(":d") or 0)
            texts += [placeholder(_ROLES[name], digits), literal(text)]
        return "".join(texts)


@functools.lru_cache(maxsize=256)
def fill_data_path(root: str, template: PathTemplate, episode: int, chunk: int, file: int) -> str:
    """The path of a data file that a template gives; many episodes share one. Raises as `PathTemplate.fill`."""
    return f"{root}/{template.fill({'episode': episode, 'chunk': chunk, 'file': file})}"


@functools.lru_cache(maxsize=64)
def _template_pattern(template: PathTemplate) -> re.Pattern[str]:
    """The regular expression of a template; a role that occurs again is not captured twice."""
    seen = set[str]()

    def expression(role: PathRole, _: int) -> str:
        content, is_new = r"[^/]+" if role == "camera" else r"\d{1,20}", role not in seen
        seen.add(role)
        return f"(?P<{role}>{content})" if is_new else f"(?:{content})"

    return re.compile(template.write(re.escape, expression))


@functools.lru_cache(maxsize=64)
def parse_template(text: str, field: str) -> PathTemplate:
    """Parse a path template.

    Args:
        text: The template, with the placeholders of LeRobot: `{name}` and `{name:0Nd}`.
        field: Its name in info.json, for messages: "data_path" or "video_path".

    Raises:
        SourceError: It has other placeholders, or leaves the dataset.
    """
    try:
        check_path_template(text, f"{field} in info.json")
    except SourceError as error:
        if "leads out" in error.reason:
            raise SourceError(f"{field} in info.json points outside the dataset", error.detail) from None
        raise SourceError(f"{field} in info.json is not a path template", error.detail) from None
    for match in _FIELD.finditer(text):
        if match[1] not in _ROLES:
            detail = f"{text[:200]!r} has {{{match[1]}}}; there are {', '.join(_ROLES)}"
            raise SourceError(f"{field} in info.json is not a path template", detail)
    return PathTemplate(text)


MetadataRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LeRobotInfo:
    """Content of info.json, and which of the two file layouts the folder has.

    Attributes:
        root: Absolute path of the dataset.
        document: The JSON object of info.json.
        shared_files: Whether the folder is laid out as v3.0, where files hold many episodes each.
        data_path: Template of the data files.
        video_path: Template of the videos.
        opened_at: Distinguishes two openings of one folder, in ns of a clock.
    """

    root: str
    document: Mapping[str, Any]
    shared_files: bool
    data_path: PathTemplate
    video_path: PathTemplate
    opened_at: int

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
        return parse_count(self.document.get("chunks_size")) or CHUNK_FILES

    def count(self, name: str) -> int | None:
        """A total such as "total_episodes", or None where it is not a valid number."""
        return parse_count(self.document.get(name))

    def names_data_file(self, row: MetadataRow) -> bool:
        """Whether the metadata says which file holds an episode: its row in the list does, or a template of paths."""
        if self.data_path.has("episode"):
            return True
        return any(row.get(name) is not None for name in DATA_FILE_COLUMNS)

    def data_files(self) -> Iterator[str]:
        """Absolute paths of the existing data files, sorted by name."""
        return self._sorted_files(self.data_path, "")

    def video_files(self, key: str) -> Iterator[str]:
        """Absolute paths of the existing videos of a camera, sorted by name."""
        return self._sorted_files(self.video_path, key)

    def has_video(self, key: str) -> bool:
        """Whether a camera has any video."""
        return next(self._matching_files(self.video_path, key), None) is not None

    def _sorted_files(self, template: PathTemplate, key: str) -> Iterator[str]:
        return iter(sorted(str(path) for path in self._matching_files(template, key)))

    def _matching_files(self, template: PathTemplate, key: str) -> Iterator[Path]:
        return parse_path(self.root).glob(template.glob(key))


def read_exported_rate_source(row: MetadataRow, rate_source: RateSource) -> RateSource:
    """Where the rate of an episode comes from: one that was assumed when ARES exported it is still assumed.

    The stamps of such an episode are step / rate, made by the exporter.
    """
    was_assumed = row.get(RATE_SOURCE_COLUMN) == "assumed"
    return "assumed" if was_assumed and rate_source == "source" else rate_source


def parse_count(value: object) -> int | None:
    """Convert an index or count from metadata to int; None when it is not an integer from 0 to 2**53."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 2**53 and value == int(value) else None


def read_info(root: Path) -> LeRobotInfo:
    """Read the info.json of a dataset.

    Raises SourceError when it is missing or no JSON object, when the dataset is stored in another format, or when a
    template of paths is none or leads out of the dataset.
    """
    path = root / INFO_PATH
    if not path.exists():
        raise SourceError(
            f"there is no {INFO_PATH}", f"{path}: a LeRobot dataset states its rate and features there"
        )
    document: Mapping[str, Any] = read_json_object(path, _parse_json)
    storage_format = document.get("storage_format") or "parquet"
    if storage_format != "parquet":
        raise SourceError("dataset is not stored as parquet", f"{path}: storage_format {storage_format!r}")
    shared_files = _has_shared_files(root, document)
    defaults = (V3_DATA_PATH, V3_VIDEO_PATH) if shared_files else (V2_DATA_PATH, V2_VIDEO_PATH)
    return LeRobotInfo(
        root=str(root),
        document=document,
        shared_files=shared_files,
        data_path=_read_template(document, "data_path", defaults[0]),
        video_path=_read_template(document, "video_path", defaults[1]),
        opened_at=time.monotonic_ns(),
    )


def _read_template(document: Mapping[str, Any], name: str, default: str) -> PathTemplate:
    """The template that info.json states, else the one of the layout."""
    stored = document.get(name)
    return parse_template(default if stored is None else str(stored), name)


def _parse_json(text: bytes) -> Any:
    """Parse JSON. Raises ValueError also for half a surrogate pair, since no store accepts it as text."""
    document = parse_json(text, "metadata")
    if b"\\ud" in text.lower():
        json.dumps(document, ensure_ascii=False).encode()
    return document


def _has_shared_files(root: Path, document: Mapping[str, Any]) -> bool:
    """Whether the layout is that of v3.0: by the files that list episodes, else by the version."""
    if (root / EPISODES_FOLDER).is_dir() or (root / EPISODE_LINES_PATH).is_file():
        return (root / EPISODES_FOLDER).is_dir()
    return not str(document.get("codebase_version")).startswith(("v1", "v2"))


def read_optional_json(path: Path) -> Mapping[str, Any] | None:
    """A JSON object; None where the file is missing. Raises SourceError when it is not a JSON object."""
    return read_json_object(path, _parse_json) if path.is_file() else None


def read_task_texts(root: str) -> Mapping[int, str]:
    """Text of each task by its index; empty where the dataset lists no tasks that can be read."""
    return read_task_list(root)[0]


def read_task_list(root: str) -> tuple[Mapping[int, str], bool]:
    """Text of each task by its index, and whether all can be read of the files that list them."""
    paths = local_files((f"{root}/{TASKS_PATH}", f"{root}/{TASK_LINES_PATH}"))
    return _read_task_list(root, tuple(map(file_state, paths)))


@functools.lru_cache(maxsize=64)
def _read_task_list(root: str, states: tuple[FileState, ...]) -> tuple[Mapping[int, str], bool]:
    """The texts, read again where a file of them has changed, and whether all of them can be read."""
    listed, is_whole, texts = dict[int, str](), True, dict[int, str]()
    try:
        listed = {**read_tasks_parquet(parse_path(root) / TASKS_PATH)}
    except SourceError:
        is_whole = False
    for _, row in read_json_lines(parse_path(root) / TASK_LINES_PATH):
        is_whole &= not isinstance(row, SourceError)
        fields = {} if isinstance(row, SourceError) else row
        index, text = parse_count(fields.get("task_index")), fields.get("task")
        if index is not None and isinstance(text, str):
            texts[index] = text
    return listed or texts, is_whole


# Columns of SEGMENTS_PATH that say whose text it is, and of what.
EXPORTED_TEXTS = ("style", "text", "author", "role", "camera", "arm")


@functools.lru_cache(maxsize=64)
def read_subtask_texts(root: str, opened_at: int) -> Mapping[int, str]:
    """Text of each subtask by its number, without one the place of its row; empty where the dataset lists none.

    Args:
        root: The dataset.
        opened_at: When it was opened: a later opening reads it again.

    Raises:
        SourceError: The list cannot be read.
    """
    return _read_numbered_texts(parse_path(root) / SUBTASKS_PATH, SUBTASK_INDEX, "subtask", counts_rows=True)


def _read_numbered_texts(
    path: Path, numbers: str, usual: str, *, counts_rows: bool = False
) -> Mapping[int, str]:
    """The texts of a table by their numbers; {} for a missing file.

    pandas stores the texts under their name or, from an index without one, as `__index_level_0__`.

    Args:
        path: The file.
        numbers: The column of the numbers.
        usual: The usual column of the texts; another one where it is missing.
        counts_rows: Whether the place of a row is its number where there are no numbers.

    Raises:
        SourceError: The file cannot be read, or lacks numbers or texts.
    """
    if not path.is_file():
        return {}
    table = read_table(path)
    texts = [name for name in table.column_names if "string" in str(table.schema.field(name).type)]
    has_numbers = numbers in table.column_names
    if not texts or not (has_numbers or counts_rows):
        raise SourceError(f"{path.name} has no {numbers} or no text", f"{path}: {table.column_names}")
    column = next((name for name in (usual, TASK_TEXT_COLUMN) if name in texts), texts[0])
    listed = table.column(numbers).to_pylist() if has_numbers else range(len(table))
    return {
        number: text
        for value, text in zip(listed, table.column(column).to_pylist(), strict=True)
        if text is not None and (number := parse_count(value)) is not None
    }


@functools.lru_cache(maxsize=8)
def read_exported_segments(root: str, opened_at: int) -> Mapping[str, list[dict[str, Any]]]:
    """What an export of ARES says of the segments of each episode, by the id that it was exported under.

    Args:
        root: The dataset.
        opened_at: When it was opened: a later opening reads it again.

    Returns:
        The rows of SEGMENTS_PATH, each with its names of `EXPORTED_TEXTS` as texts and a finite span; {} without one.

    Raises:
        SourceError: The file cannot be read.
    """
    path = parse_path(root) / SEGMENTS_PATH
    if not path.is_file():
        return {}
    names = ("start_seconds", "stop_seconds", "episode_id", *EXPORTED_TEXTS)
    table = read_table(path, lambda name: name in names)
    if set(table.column_names) < set(names):
        return {}
    by_episode: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        spans = [row[name] for name in names[:2]]
        if all(isinstance(second, float) and math.isfinite(second) for second in spans) and all(
            isinstance(row[name], str) for name in names[2:]
        ):
            by_episode.setdefault(row["episode_id"], []).append(row)
    return by_episode


def read_texts_by_column(info: LeRobotInfo, columns: Iterable[str]) -> dict[str, Mapping[int, str]]:
    """The texts by number of columns of subtasks: those of subtasks, or of tasks for another column."""
    return {
        column: read_subtask_texts(info.root, info.opened_at)
        if column == SUBTASK_INDEX
        else read_task_texts(info.root)
        for column in columns
    }


def read_tasks_parquet(path: Path) -> Mapping[int, str]:
    """Text of each task by its index; {} for a missing file. Raises SourceError when it cannot be read."""
    return _read_numbered_texts(path, "task_index", "task")


def read_table(path: Path, select: Callable[[str], bool] | None = None) -> Any:
    """Read a small Parquet file as pyarrow.Table; of columns with one name, the first. Raises SourceError.

    Args:
        path: The file.
        select: Whether a column is read, by its name; all where None.
    """
    import pyarrow as pa

    try:
        with open_parquet(str(path)) as file:
            names = [name for name in file.schema_arrow.names if select is None or select(name)]
            check_parquet_read(file, range(file.metadata.num_row_groups), names, str(path))
            _check_rows(file.metadata.num_rows, path)
            with limited_memory():
                table = file.read(names)
            return table.select([table.schema.names.index(name) for name in dict.fromkeys(names)])
    except (pa.ArrowException, OSError) as error:
        raise SourceError("parquet file cannot be read", f"{path}: {error}") from None


def _check_rows(rows: int, path: Path) -> None:
    limit = input_budgets().members
    if rows > limit:
        raise SourceError("table has more rows than allowed", f"{path}: {rows} of {limit}")


def read_json_lines(path: Path) -> Iterator[tuple[int, MetadataRow | SourceError]]:
    """For each line that is not blank, its number from 1 and its object or error; nothing for a missing file."""
    if path.is_file():
        yield from parse_json_lines(read_lines(str(path)), path, _parse_json)
