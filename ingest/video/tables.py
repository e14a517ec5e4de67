"""Reads the tables of a folder of videos (JSON lines, CSV, TSV), and the JSON files of single videos."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

from ares.episode import Json
from ares.errors import SourceError
from ares.input import read_cells, read_json
from ares.io import describe_os_error
from ingest.source_words import InvalidRowError, VideoRow, has_camera_rows, names_a_video, parse_video_row


def read_rows(path: Path) -> Iterator[tuple[int, VideoRow | SourceError]]:
    """Read the rows that are not blank: line number, counted from 1, with the parsed row or its error.

    The last one is an error with number 0 where the rest of the table, or all of it, cannot be read.
    """
    for number, cells in _read_or_fail(path):
        location = f"{path}, line {number}"
        if isinstance(cells, SourceError):
            yield number, cells
            continue
        try:
            yield number, parse_video_row(cells)
        except InvalidRowError as error:
            yield number, SourceError("metadata line has a wrong form", f"{location}: {error}")


def is_about_videos(path: Path) -> bool:
    """Whether a table has a column that names a video; True for one that cannot be read, as its videos must wait."""
    try:
        return path.suffix.lower() == ".jsonl" or names_a_video(_first_row(path))
    except SourceError:
        return True


def has_row_per_camera(path: Path) -> bool:
    """Whether each row is about one camera of an episode; False for a table that cannot be read."""
    try:
        columns = _first_row(path)
    except SourceError:
        return False
    return has_camera_rows(columns) and names_a_video(columns)


def read_video_json(path: str) -> tuple[VideoRow | None, dict[str, Json]]:
    """The JSON file of a video as a row; or (None, its content) when it is not an object.

    Raises SourceError for a file that is not JSON.
    """
    try:
        document = read_json(path, parse_constant=_refuse_constant)
    except OSError as error:
        raise SourceError(
            "JSON file of a video cannot be read", f"{path}: {describe_os_error(error)}"
        ) from None
    except ValueError as error:
        raise SourceError("JSON file of a video is not valid JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        return None, {"note": document}
    try:
        return parse_video_row({"video": posixpath.basename(path), **_without_video_columns(document)}), {}
    except InvalidRowError as error:
        raise SourceError("JSON file of a video has a wrong form", f"{path}: {error}") from None


def _without_video_columns(document: Mapping[str, Json]) -> dict[str, Json]:
    """The document without the columns that name a video: its file name does."""
    return {name: value for name, value in document.items() if not names_a_video({name: value})}


def _read_or_fail(path: Path) -> Iterator[tuple[int, dict[str, Json] | SourceError]]:
    try:
        yield from read_cells(path)
    except SourceError as error:
        yield 0, error


def _first_row(path: Path) -> Mapping[str, Json]:
    """The columns of the first valid row. Raises SourceError for a table that cannot be read."""
    return next((cells for _, cells in read_cells(path) if not isinstance(cells, SourceError)), {})


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a JSON number")
