"""Tables of which each row is a step of one of several episodes: which rows are of which, and their pictures."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.episode import Camera, MediaRef, NotRead
from ares.errors import MediaError, SourceError
from ares.input import check_relative_path, parse_image_header
from ares.io import FolderEntries, file_state, is_url
from ares.media import IMAGE_SUFFIXES, CsvTable, list_number_columns, read_csv_table, read_parquet_images
from ares_ingest.files import describe_camera, probe_once, whole_video
from ares_ingest.image_folders.tables import VIDEO_SUFFIXES, assign_column_roles, column_role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.io import FileState

ROW_SUFFIXES = (".parquet", ".arrow", ".jsonl", ".csv", ".tsv")
# What numbers the files of one table: "train-00000-of-00002".
_FILE_NUMBER = re.compile(r"[-_]?\d.*$")


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one episode.

    Attributes:
        paths: The files of the table, one after the other.
        column: Column that names the episodes, or "" where the table is one episode.
        value: What stands in it.
    """

    paths: tuple[str, ...]
    column: str
    value: int | str

    def read(self) -> tuple[CsvTable, NDArray[np.int64]]:
        """The rows, and their (T,) numbers in the table, in the order of the frames. Raises SourceError."""
        import numpy as np

        states = _file_states(self.paths)
        table = _read_files(states).table
        if not self.column:
            return table, np.arange(table.num_rows)
        numbers = _find_rows(states, self.column)[self.value]
        own = replace(table, columns=table.columns.take(numbers), num_rows=len(numbers))
        if "frame_index" not in table.names or (frames := own.numbers("frame_index")) is None:
            return own, numbers
        order = np.argsort(frames, kind="stable")
        return replace(own, columns=own.columns.take(order)), numbers[order]

    def find_cameras(
        self, table: CsvTable, numbers: NDArray[np.int64], rate_hz: float, digest: Any
    ) -> Iterator[Camera | NotRead]:
        """The pictures and videos of the columns, or why a camera is left out.

        Args:
            table: The rows.
            numbers: (T,) their numbers in the table.
            rate_hz: Steps per second.
            digest: Hash to which pictures are added.
        """
        for column in table.pictures:
            yield self._find_pictures(column, numbers, rate_hz, digest)
        for column in table.names:
            if (table.texts(column)[:1] or [""])[0].lower().endswith(IMAGE_SUFFIXES):
                yield NotRead(f"camera {column} is left out: rows of several episodes name its files", column)
            for path in find_named_videos(table, column, self.paths[0])[:1]:
                try:
                    info = probe_once(path)
                    yield describe_camera(_camera_name(column), info, whole_video(path, info))
                except SourceError as error:
                    yield NotRead(f"camera {_camera_name(column)} is left out: {error.reason}", column)

    def _find_pictures(
        self, column: str, numbers: NDArray[np.int64], rate_hz: float, digest: Any
    ) -> Camera | NotRead:
        """The camera of a column, whose pictures lie row after row in one file."""
        ends, name = _read_files(_file_states(self.paths)).ends, _camera_name(column)
        number = bisect_right(ends, int(numbers[0]))
        start = ends[number - 1] if number else 0
        first = int(numbers[0]) - start
        media = MediaRef(
            kind="parquet",
            uri=self.paths[number],
            start_seconds=first / rate_hz,
            stop_seconds=(first + len(numbers)) / rate_hz,
            num_frames=len(numbers),
            rate_hz=rate_hz,
            key=column,
        )
        if (numbers[1:] - numbers[:-1] != 1).any() or numbers[-1] >= ends[number]:
            return NotRead(f"camera {name} is left out: its rows do not lie together in one file", column)
        try:
            (data,) = read_parquet_images(media, [0])
        except MediaError as error:
            return NotRead(f"camera {name} is left out: {error.reason}", column)
        digest.update(data)
        info = parse_image_header(data)
        return describe_camera(name, info, media) if info else NotRead(f"{column} holds no picture", column)


def _camera_name(column: str) -> str:
    return column.removeprefix("observation.images.")


def find_named_videos(table: CsvTable, column: str, path: str) -> list[str]:
    """The videos that a column of a table names, each once, from the folder of its file or one of those above on."""
    names = [name for name in dict.fromkeys(table.texts(column)) if name.lower().endswith(VIDEO_SUFFIXES)]
    parents = [*Path(path).parents][:3]
    return [
        str(next((folder / name for folder in parents if (folder / name).is_file()), parents[0] / name))
        for name in (check_relative_path(name, path) for name in names)
    ]


def list_row_tables(folder: FolderEntries) -> list[tuple[str, ...]]:
    """The tables of a folder whose rows are steps of episodes, each with its files.

    Such a table has numbers of state and action, or one of them with the time or number of a step. In CSV a column
    names several episodes; another file without one is an episode.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(folder.files) if not is_url(str(folder.path)) else ():
        stem, _, suffix = name.rpartition(".")
        if name.lower().endswith(ROW_SUFFIXES) and stem:
            groups.setdefault((_FILE_NUMBER.sub("", stem), suffix), []).append(str(folder.path / name))
    return [tuple(paths) for paths in groups.values() if _holds_steps(paths[0])]


def _holds_steps(path: str) -> bool:
    try:
        columns = list_number_columns(path)
        roles = assign_column_roles(name for name, is_number in columns.items() if is_number)
        kinds = [roles.state, roles.action, roles.time or roles.order]
        if not (roles.state or roles.action) or sum(map(bool, kinds)) < 2:
            return False
        if not path.lower().endswith((".csv", ".tsv")):
            return True
        # A table of one episode in CSV may have pictures beside it.
        column = find_episode_column(columns)
        return bool(column) and len(_find_rows(_file_states((path,)), column)) > 1
    except (SourceError, OSError):
        return False


def find_episode_column(names: Iterable[str]) -> str:
    """The column that names the episode of a row; "" for none."""
    return next((name for name in names if column_role(name) == "episode"), "")


def list_episodes(paths: tuple[str, ...]) -> list[TableRows]:
    """The episodes of a table, in the order of their first rows. Raises SourceError where it cannot be read."""
    table = read_row_table(paths)
    if not (column := find_episode_column(table.names)):
        return [TableRows((path,), "", "") for path in paths]
    return [TableRows(paths, column, value) for value in _find_rows(_file_states(paths), column)]


def read_row_table(paths: tuple[str, ...]) -> CsvTable:
    """The rows of all files of a table, one after the other. Raises SourceError."""
    return _read_files(_file_states(paths)).table


class _JoinedFiles(NamedTuple):
    """The rows of all files of a table, and the number of rows up to the end of each file."""

    table: CsvTable
    ends: list[int]


def _file_states(paths: tuple[str, ...]) -> tuple[tuple[str, FileState], ...]:
    return tuple((path, file_state(path)) for path in paths)


@functools.lru_cache(maxsize=2)
def _find_rows(states: tuple[tuple[str, FileState], ...], column: str) -> dict[int | str, NDArray[np.int64]]:
    """The rows of each episode, by what the column says, in the order of their first rows."""
    import numpy as np

    values = _read_files(states).table.columns.column(column).combine_chunks().dictionary_encode()
    codes = np.asarray(values.indices.fill_null(len(values.dictionary)))
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    names = [*values.dictionary.to_pylist(), None]
    return {names[codes[part[0]]]: part for part in rows if len(part)}


@functools.lru_cache(maxsize=2)
def _read_files(states: tuple[tuple[str, FileState], ...]) -> _JoinedFiles:
    import pyarrow as pa

    tables = [read_csv_table(path, state) for path, state in states]
    try:
        columns = pa.concat_tables([table.columns for table in tables], promote_options="permissive")
    except pa.ArrowException as error:
        raise SourceError("the files of a table have other columns", f"{states[0][0]}: {error}") from None
    # Lists of several lengths in one file are no numbers in another either.
    uneven = {field.name for field in columns.schema if pa.types.is_list(field.type)}
    parts = [name for name in columns.column_names if re.sub(r"_\d+$", "", name) in uneven - {name}]
    columns = columns.drop_columns(parts)
    table = CsvTable(columns, tuple(columns.column_names), columns.num_rows, tables[0].pictures)
    return _JoinedFiles(table, list(accumulate(part.num_rows for part in tables)))
