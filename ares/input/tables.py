"""Tables of strangers: Parquet, SQLite, CSV and JSON lines, within bounds."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ares.console import count_of
from ares.errors import SourceError
from ares.input.files import open_input, prepare_input_file, read_lines
from ares.input.limits import input_budgets
from ares.io import describe_os_error, is_url

if TYPE_CHECKING:
    import sqlite3

    import pyarrow as pa
    import pyarrow.parquet as pq
from ares.input.documents import parse_json

# Thrift limits of a Parquet footer: bytes of one text, and items of one list.
_FOOTER_BYTES = 256 * 2**20

_FOOTER_ITEMS = 4_000_000

# More values in a row than this are counted column by column.
_VALUES_PER_ROW = 64

_MAX_CELL_CHARS = 2**24
# Such a line is whole, and may say something else than a table does.
NO_OBJECT = "line is not a JSON object"

ARROW_SUFFIX = ".arrow"


def open_parquet(path: str, *, long_reads: bool = False, **options: Any) -> pq.ParquetFile:
    """A Parquet file, open for reading.

    Args:
        path: Path or URL.
        long_reads: As for `open_input`; for URLs only.
        options: Arguments of `pyarrow.parquet.ParquetFile`.

    Raises:
        SourceError: It is no regular file, or a link leads out of the dataset.
        pyarrow.ArrowException: It is damaged.
        OSError: It cannot be opened.
    """
    import pyarrow.parquet as pq

    source: Any = path
    if is_url(path):
        source = open_input(path, long_reads=long_reads)
    else:
        prepare_input_file(path)
    return pq.ParquetFile(
        source,
        thrift_string_size_limit=_FOOTER_BYTES,
        thrift_container_size_limit=_FOOTER_ITEMS,
        **options,
    )


def open_arrow(path: str) -> pa.Table:
    """The table of an Arrow file, as `save_to_disk` of Hugging Face writes it; its columns stay on disk.

    Raises as `open_parquet`.
    """
    import pyarrow as pa

    prepare_input_file(path)
    return pa.ipc.open_stream(pa.memory_map(path)).read_all()


def check_parquet_read(
    file: pq.ParquetFile, groups: Iterable[int], columns: Iterable[str] | None, where: str
) -> None:
    """Check by the footer that columns of row groups fit the budgets, before they are read at once.

    Args:
        file: The open file.
        groups: Numbers of the row groups.
        columns: Names of columns, as given to Arrow; None for all.
        where: For messages.

    Raises:
        SourceError: They hold too many values or bytes.
    """
    budgets, metadata, numbers = input_budgets(), file.metadata, list(groups)
    # Files may hold thousands of row groups: their columns are summed only where their totals are too large.
    rows = bytes_of_groups = 0
    for group in numbers:
        row_group = metadata.row_group(group)
        rows += row_group.num_rows
        bytes_of_groups += row_group.total_byte_size
    if bytes_of_groups <= budgets.array_bytes and rows * _VALUES_PER_ROW <= budgets.elements:
        return
    names = None if columns is None else set(columns)
    selected = [
        number
        for number in range(metadata.num_columns)
        if names is None or not names.isdisjoint(_column_names(metadata.schema.column(number).path))
    ]
    chunks = [metadata.row_group(group).column(number) for group in numbers for number in selected]
    num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
    num_values = sum(chunk.num_values for chunk in chunks)
    if num_bytes > budgets.array_bytes or num_values > budgets.elements:
        raise SourceError(
            "columns of the data file are larger than allowed",
            f"{where}: {count_of(num_values, 'value')}, {num_bytes} bytes",
        )


def _column_names(path: str) -> tuple[str, str]:
    """The names by which a column of a Parquet file can be selected: its path, and the first part of it."""
    return path, path.partition(".")[0]


def connect_sqlite(path: str) -> sqlite3.Connection:
    """A connection to a local SQLite file: read-only, without locks, other databases and trust in its schema.

    Raises:
        SourceError: It is no regular file, or a link leads out of the dataset.
        OSError: It is missing.
        sqlite3.Error: It cannot be opened.
    """
    import sqlite3

    prepare_input_file(path)
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(input_budgets().array_bytes, 2**30))
    return connection


def read_cells(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """The rows of a table as texts or JSON values by column, with their line numbers. Raises SourceError."""
    return _read_json_lines(path) if path.suffix.lower() == ".jsonl" else _read_separated(path)


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    parse = functools.partial(json.loads, parse_constant=_reject_constant)
    yield from parse_json_lines(_table_lines(path), path, parse)


def _read_separated(path: Path) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    csv.field_size_limit(_MAX_CELL_CHARS)
    lines = _table_lines(path)
    first = next(lines, b"")
    if b"\0" in first:
        raise SourceError(f"{path.name} is no text: it has zero bytes", f"{path}: save it as UTF-8")
    # Spreadsheets write a byte order mark.
    header = first.decode("utf-8", "replace").removeprefix("\ufeff")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    texts = (line.decode("utf-8", "replace") for line in lines)
    reader = csv.reader(texts, delimiter=delimiter)
    try:
        for values in reader:
            if any(value.strip() for value in values):
                number = reader.line_num + 1
                yield number, _build_row(names, values, f"{path}, line {number}")
    except csv.Error as error:
        yield reader.line_num + 1, SourceError("rest of the table cannot be read", f"{path}: {error}")


def _build_row(names: list[str], values: list[str], location: str) -> dict[str, Any] | SourceError:
    """The row; a SourceError for one with zero bytes, as a crash leaves them, or with more cells than columns."""
    if any("\0" in value for value in values):
        return SourceError("metadata line has zero bytes", location)
    if len(values) > len(names):
        return SourceError(
            "metadata line has a wrong form",
            f"{location}: {count_of(len(values), 'cell')}, {count_of(len(names), 'column')}",
        )
    return dict(zip(names, (value.strip() for value in values), strict=False))


def _table_lines(path: Path) -> Iterator[bytes]:
    try:
        yield from read_lines(str(path))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read", f"{path}: {describe_os_error(error)}") from None


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def parse_json_lines(
    lines: Iterable[bytes], path: Path, parse: Callable[[bytes], Any] | None = None
) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """For each line that is not blank, its number from 1 and its object, or a SourceError about the line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        try:
            document = (parse or functools.partial(parse_json, where=location))(line)
        except SourceError as error:
            yield number, SourceError(error.reason, location)
            continue
        except (ValueError, RecursionError) as error:
            yield number, SourceError("metadata line is not JSON", f"{location}: {error}")
            continue
        if isinstance(document, dict):
            yield number, document
        else:
            yield (
                number,
                SourceError(f"metadata {NO_OBJECT}", f"{location}: {type(document).__name__}"),
            )
