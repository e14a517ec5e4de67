"""Parquet and SQLite files of foreign datasets, opened read-only, with bounded columns and without other files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ares.errors import SourceError
from ares.input.files import check_input_file, open_input
from ares.input.limits import input_budgets
from ares.io import is_url

if TYPE_CHECKING:
    import sqlite3

    import pyarrow.parquet as pq


# Thrift limits of a Parquet footer: bytes of one text, and items of one list.
_FOOTER_BYTES = 256 * 2**20
_FOOTER_ITEMS = 4_000_000
# More values in a row than this are counted column by column.
_VALUES_PER_ROW = 64


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
        check_input_file(path)
    return pq.ParquetFile(
        source,
        thrift_string_size_limit=_FOOTER_BYTES,
        thrift_container_size_limit=_FOOTER_ITEMS,
        **options,
    )


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
            f"{where}: {num_values} values, {num_bytes} bytes",
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

    check_input_file(path)
    connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(input_budgets().array_bytes, 2**30))
    return connection
