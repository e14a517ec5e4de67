"""A table in CSV, Parquet, Arrow or JSON lines as columns of numbers."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import SourceError
from ares.input import (
    ARROW_SUFFIX,
    check_parquet_read,
    input_budgets,
    open_arrow,
    open_input,
    open_parquet,
    read_input,
)
from ares.io import describe_os_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.io import FileState


# Memory that parsing takes at most, in sizes of the text.
_PARSE_FACTOR = 8

_MOST_COLUMNS = 10_000
_BINARY_SUFFIXES = (".parquet", ARROW_SUFFIX)
# What the types of the columns of a text file follow from, before it is read.
_HEAD_BYTES = 2**20
# A longer list in a cell is no signal.
_WIDEST_LIST = 256


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A parsed table.

    Attributes:
        names: Names of the columns, in order.
        num_rows: Rows below the header.
        pictures: Further columns, of which each cell is a picture.
    """

    columns: Any
    names: tuple[str, ...]
    num_rows: int
    pictures: tuple[str, ...] = ()

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.int64] | None:
        """(T,) numbers of a column: int64 where all are whole, else float64 with NaN for empty cells; None for texts.

        Dates are seconds since 1970.
        """
        import numpy as np
        import pyarrow as pa

        column = self.columns.column(name)
        if pa.types.is_timestamp(column.type):
            nanoseconds = column.cast(pa.timestamp("ns")).cast(pa.int64())
            return np.asarray(nanoseconds.to_numpy(), np.float64) / 1e9
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_boolean(column.type)
        ):
            return None
        if pa.types.is_integer(column.type) and not column.null_count:
            return np.asarray(column.to_numpy(), np.int64)
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)

    def texts(self, name: str) -> list[str]:
        """The texts of a column, "" for empty cells; an empty list for another column or a missing one."""
        import pyarrow as pa

        if name not in self.names or not pa.types.is_string(self.columns.column(name).type):
            return []
        return [text or "" for text in self.columns.column(name).to_pylist()]


@functools.lru_cache(maxsize=4)
def read_csv_table(path: str, state: FileState) -> CsvTable:
    """Parse a table, once per state of its file.

    Args:
        path: Path or URL; `.tsv` has tabs, other files what their header holds most of: comma, semicolon or tab.
        state: State of the file, from `file_state`.

    Raises SourceError when it cannot be read, is too large, or its rows have several lengths.
    """
    budgets = input_budgets()
    if path.lower().endswith(_BINARY_SUFFIXES):
        return _read_binary_table(path)
    try:
        # Arrow takes several times the size of a text to parse it, and ends the process where it gets no memory.
        data = read_input(path, min(budgets.array_bytes, budgets.memory_bytes // _PARSE_FACTOR))
    except OSError as error:
        raise SourceError("table cannot be read", f"{path}: {describe_os_error(error)}") from None
    try:
        return _make_table(_spread_lists(_parse_text(data, path)), path)
    except ValueError as error:
        raise SourceError("table cannot be parsed", f"{path}: {error}") from None


def list_number_columns(path: str) -> dict[str, bool]:
    """Whether each column of a table holds numbers, or lists of them; no row of Parquet and Arrow is read.

    What a text file holds follows from its first MiB. Raises as `read_csv_table`, also OSError.
    """
    import pyarrow as pa

    try:
        if path.lower().endswith(ARROW_SUFFIX):
            schema = open_arrow(path).schema
        elif path.lower().endswith(_BINARY_SUFFIXES):
            with open_parquet(path) as file:
                schema = file.schema_arrow
        else:
            with open_input(path) as file:
                head = file.read(_HEAD_BYTES)
            schema = _parse_text(head[: head.rfind(b"\n") + 1] or head, path).schema
    except (pa.ArrowException, ValueError) as error:
        raise SourceError("table cannot be read", f"{path}: {error}") from None
    return {field.name: _holds_numbers(field.type) for field in schema}


def _holds_numbers(kind: Any) -> bool:
    import pyarrow as pa

    kind = kind.value_type if _list_depth(kind) == 1 else kind
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_timestamp)
    return any(test(kind) for test in tests)


def _parse_text(data: bytes, path: str) -> Any:
    """The Arrow table of a text in CSV or JSON lines. Raises SourceError."""
    import pyarrow as pa
    from pyarrow import csv, json

    data = data.removeprefix(b"\xef\xbb\xbf")
    header = data[: 2**16].partition(b"\n")[0]
    if not header.strip():
        raise SourceError("table is empty", f"{path}: {len(data)} bytes")
    delimiter = (
        "\t"
        if path.lower().endswith(".tsv")
        else max(",;\t", key=lambda separator: header.count(separator.encode()))
    )
    # One block: the type of a column follows from all of its rows.
    block_size = min(len(data) + 1, 2**31 - 1)
    try:
        if path.lower().endswith(".jsonl"):
            options = json.ReadOptions(block_size=block_size, use_threads=False)
            return json.read_json(io.BytesIO(data), read_options=options)
        return csv.read_csv(
            io.BytesIO(data),
            read_options=csv.ReadOptions(block_size=block_size, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=delimiter),
        )
    except (pa.ArrowException, ValueError) as error:
        raise SourceError("table cannot be parsed", f"{path}: {' '.join(str(error).split())[:300]}") from None


def _make_table(columns: Any, path: str, pictures: Sequence[str] = ()) -> CsvTable:
    """The table of some columns. Raises ValueError for names that are not UTF-8, SourceError for wrong names."""
    names = tuple(str(name) for name in columns.column_names)
    if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
        raise SourceError(
            "table has two columns of one name, or too many", f"{path}: {count_of(len(names), 'column')}"
        )
    return CsvTable(columns, names, columns.num_rows, tuple(pictures))


def _read_binary_table(path: str) -> CsvTable:
    """The table of a Parquet or Arrow file; columns of pictures are only named. Raises SourceError."""
    import pyarrow as pa

    try:
        if path.lower().endswith(ARROW_SUFFIX):
            table = open_arrow(path)
            table.validate(full=True)
            pictures = [field.name for field in table.schema if _is_picture(field.type)]
            return _make_table(_spread_lists(table.drop_columns(pictures)), path, pictures)
        with open_parquet(path) as file:
            pictures = [field.name for field in file.schema_arrow if _is_picture(field.type)]
            names = [name for name in file.schema_arrow.names if name not in pictures]
            check_parquet_read(file, range(file.metadata.num_row_groups), names, path)
            return _make_table(_spread_lists(file.read(names)), path, pictures)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError("table cannot be read", f"{path}: {error}") from None


def _is_picture(kind: Any) -> bool:
    """Whether a cell is a picture: encoded, or as nested lists of numbers."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return int(kind.get_field_index("bytes")) >= 0
    is_bytes: bool = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return is_bytes or _list_depth(kind) == 3


def _list_depth(kind: Any) -> int:
    import pyarrow as pa

    is_list: bool = (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return 1 + _list_depth(kind.value_type) if is_list else 0


def _spread_lists(table: Any) -> Any:
    """The table with a column for each number of lists that have equally many in all rows: "state_0", "state_1".

    Of a cell that refers to a file the path is kept.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        widths = pc.unique(pc.list_value_length(column)).to_pylist() if _list_depth(column.type) == 1 else []
        if len(widths) == 1 and 0 < (widths[0] or 0) <= _WIDEST_LIST:
            values = pa.concat_arrays([chunk.flatten() for chunk in column.chunks])
            names = [f"{name}_{number}" for number in range(widths[0])] if widths[0] > 1 else [name]
            columns |= {part: values[number :: widths[0]] for number, part in enumerate(names)}
        elif pa.types.is_struct(column.type) and column.type.get_field_index("path") >= 0:
            columns[name] = pc.struct_field(column, "path")
        else:
            columns[name] = column
    return pa.table(columns)
