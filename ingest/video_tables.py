"""Rows of the tables beside videos (JSON lines, CSV, TSV), and the JSON of a single video."""

from __future__ import annotations

import csv
import json
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from ares import files
from ares.episode import Json
from ares.errors import SourceError
from ingest.video_columns import Row, WrongRowError, has_cameras, names_a_video, understood

_LARGEST_CELL = 2**24


def rows(path: Path) -> Iterator[tuple[int, Row | SourceError]]:
    """Each row that is not blank: the number of its line from 1, and what it says or what is wrong with it.

    Raises SourceError for a table that cannot be read.
    """
    for number, cells in _cells(path):
        where = f"{path}, line {number}"
        if isinstance(cells, SourceError):
            yield number, cells
            continue
        try:
            yield number, understood(cells)
        except WrongRowError as error:
            yield number, SourceError("metadata line has a wrong form", f"{where}: {error}")


def is_about_videos(path: Path) -> bool:
    """Whether a table has a column that names a video. Raises SourceError for one that cannot be read."""
    return path.suffix.lower() == ".jsonl" or names_a_video(_columns(path))


def is_by_camera(path: Path) -> bool:
    """Whether its rows are single cameras of episodes."""
    first = _columns(path)
    return has_cameras(first) and names_a_video(first)


def note(path: str) -> tuple[Row | None, dict[str, Json]]:
    """What the JSON of a single video says, and all of it where it is nothing about a video.

    Raises SourceError for a file that is no JSON.
    """
    try:
        document = json.loads(files.place(path).read_bytes(), parse_constant=_no_constant)
    except OSError as error:
        raise SourceError("JSON beside a video cannot be read", f"{path}: {files.words(error)}") from None
    except ValueError as error:
        raise SourceError("JSON beside a video is no JSON", f"{path}: {error}") from None
    if not isinstance(document, dict):
        return None, {"note": document}
    try:
        return understood({"video": posixpath.basename(path), **_without_video(document)}), {}
    except WrongRowError as error:
        raise SourceError("JSON beside a video has a wrong form", f"{path}: {error}") from None


def _without_video(document: Mapping[str, Json]) -> dict[str, Json]:
    """All but the columns that name a video: the file's own name does."""
    return {name: value for name, value in document.items() if not names_a_video({name: value})}


def _cells(path: Path) -> Iterator[tuple[int, dict[str, Json] | SourceError]]:
    return _json_lines(path) if path.suffix.lower() == ".jsonl" else _separated(path)


def _columns(path: Path) -> Mapping[str, Json]:
    """The columns of the first good row."""
    return next((cells for _, cells in _cells(path) if not isinstance(cells, SourceError)), {})


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Json] | SourceError]]:
    with _opened(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                document = json.loads(line, parse_constant=_no_constant)
            except ValueError as error:
                yield number, SourceError("metadata line is not JSON", f"{where}: {error}")
                continue
            if isinstance(document, dict):
                yield number, document
            else:
                yield (
                    number,
                    SourceError("metadata line has a wrong form", f"{where}: {document!r} is no object"),
                )


def _separated(path: Path) -> Iterator[tuple[int, dict[str, Json] | SourceError]]:
    csv.field_size_limit(_LARGEST_CELL)
    with _opened(path) as file:
        # Spreadsheets write a mark first; a byte that is no UTF-8 costs its own letter only.
        texts = (line.decode("utf-8", "replace").replace("\0", "") for line in file)
        first = next(texts, "").removeprefix("\ufeff")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
        names = next(csv.reader([first], delimiter=delimiter), [])
        reader = csv.reader(texts, delimiter=delimiter)
        try:
            for values in reader:
                if any(value.strip() for value in values):
                    number = reader.line_num + 1
                    yield number, _row(names, values, f"{path}, line {number}")
        except csv.Error as error:
            yield reader.line_num + 1, SourceError("table cannot be read on", f"{path}: {error}")


def _row(names: list[str], values: list[str], where: str) -> dict[str, Json] | SourceError:
    if len(values) > len(names):
        return SourceError(
            "metadata line has a wrong form", f"{where}: {len(values)} cells, {len(names)} columns"
        )
    return dict(zip(names, (value.strip() for value in values), strict=False))


def _opened(path: Path) -> BinaryIO:
    try:
        return files.opened(str(path))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {files.words(error)}") from None


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no number of JSON")
