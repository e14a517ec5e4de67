"""A table in CSV as columns of numbers."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.errors import SourceError
from ares.input import input_budgets, read_input
from ares.io import describe_os_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.io import FileState


# Memory that parsing takes at most, in sizes of the text.
_PARSE_FACTOR = 8

_MOST_COLUMNS = 10_000


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A parsed table.

    Attributes:
        names: Names of the columns, in order.
        num_rows: Rows below the header.
    """

    columns: Any
    names: tuple[str, ...]
    num_rows: int

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
    import pyarrow as pa
    from pyarrow import csv

    budgets = input_budgets()
    try:
        # Arrow takes several times the size of a text to parse it, and ends the process where it gets no memory.
        data = read_input(path, min(budgets.array_bytes, budgets.memory_bytes // _PARSE_FACTOR))
    except OSError as error:
        raise SourceError("table cannot be read", f"{path}: {describe_os_error(error)}") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    header = data[: 2**16].partition(b"\n")[0]
    if not header.strip():
        raise SourceError("table is empty", f"{path}: {len(data)} bytes")
    delimiter = (
        "\t"
        if path.lower().endswith(".tsv")
        else max(",;\t", key=lambda separator: header.count(separator.encode()))
    )
    try:
        columns = csv.read_csv(
            io.BytesIO(data),
            # One block: the type of a column follows from all of its rows.
            read_options=csv.ReadOptions(block_size=min(len(data) + 1, 2**31 - 1), use_threads=False),
            parse_options=csv.ParseOptions(delimiter=delimiter),
        )
        names = tuple(str(name) for name in columns.column_names)  # fails where they are not UTF-8
    except (pa.ArrowException, ValueError) as error:
        raise SourceError("table cannot be parsed", f"{path}: {' '.join(str(error).split())[:300]}") from None
    if len(set(names)) < len(names) or len(names) > _MOST_COLUMNS:
        raise SourceError(
            "table has two columns of one name, or too many", f"{path}: {count_of(len(names), 'column')}"
        )
    return CsvTable(columns, names, columns.num_rows)
