"""Reads tables that people write for ARES: CSV, JSON lines or Parquet files whose columns have stated names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ares.console import visible
from ares.errors import AresError, RequestError, SourceError, first_fault, shorten
from ares.input.limits import input_budgets
from ares.input.tables import check_parquet_read, open_parquet, read_cells
from ares.io import describe_os_error, existing_path

if TYPE_CHECKING:
    from pydantic import BaseModel

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
# Rows that say which columns a table has: JSON lines may leave out those that are empty.
_FIRST_ROWS = 1000
_MOST_SHOWN = 20
_BETWEEN_WORDS = re.compile(r"[\s_-]+|(?<=[a-z0-9])(?=[A-Z])")

Row = TypeVar("Row", bound="BaseModel")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that a table must have.

    Attributes:
        needed: Names of columns.
        either: Groups of columns, of which one is needed, too.
        renames: Stated names by other names that tables use for the same.
    """

    needed: tuple[str, ...]
    either: tuple[tuple[str, ...], ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        groups = " or ".join(", ".join(group) for group in self.either)
        return ", ".join(self.needed) + (f", and {groups}" if groups else "")

    def fault(self, present: Mapping[str, object]) -> str:
        """What is missing among the columns that are present, and what to rename; "" where all are there."""
        has_group = not self.either or any(present.keys() >= set(group) for group in self.either)
        if present.keys() >= set(self.needed) and has_group:
            return ""
        shown = ", ".join(list(present)[:_MOST_SHOWN]) or "none"
        stated = {name: self.rename_of(name) for name in present}
        renames = [
            f"{name} to {other}"
            for name, other in stated.items()
            if other.partition(" ")[0] not in {"", *present}
        ]
        advice = f"; rename {', '.join(renames)}" if renames else ""
        return f"needed are {self}; found are {shown}{advice}"

    def rename_of(self, name: str) -> str:
        """The stated name of a column, also in another case or by another word; "" where none is known."""
        plain = "_".join(name_words(name))
        return plain if plain in {*self.needed, *chain(*self.either)} else self.renames.get(plain, "")


def name_words(name: str) -> list[str]:
    """The words of the name of a column in lower case: those of "start_frame" are those of "Start frame"."""
    return [word.lower() for word in _BETWEEN_WORDS.split(name.strip())]


def is_table(path: str | Path) -> bool:
    """Whether the name of a file is that of a table."""
    return str(path).lower().endswith(TABLE_SUFFIXES)


def parquet_columns(path: Path) -> dict[str, None]:
    """The columns of a Parquet file by its schema; none where it cannot be read, as its reader tells."""
    import pyarrow as pa

    try:
        with open_parquet(str(path)) as file:
            return dict.fromkeys(file.schema_arrow.names)
    except (OSError, pa.ArrowException):
        return {}


def as_json(value: Any) -> Any:
    """A value without what JSON has not: dates become texts, and numbers that are not finite are missing."""
    if isinstance(value, Mapping):
        return {str(name): as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def read_table(path: str | Path, columns: TableColumns) -> Iterator[tuple[int, dict[str, Any] | SourceError]]:
    """The rows of a table with their line numbers, those of Parquet from 1; a SourceError in place of a wrong one.

    Args:
        path: A file whose name ends in one of `TABLE_SUFFIXES`, or a URL.
        columns: Those that it must have; it may have others.

    Raises:
        SourceError: It cannot be read, is no table, lacks a column or has too many rows.
    """
    import pyarrow as pa

    path, limit = existing_path(str(path)), input_budgets().entries
    if not is_table(path):
        raise SourceError(
            f"{path.name} is no table", f"{path}: a CSV, JSONL or Parquet file with the columns {columns}"
        )
    try:
        rows = _read_parquet(path) if path.suffix.lower() == ".parquet" else read_cells(path)
        first = list(islice(rows, _FIRST_ROWS))
        present = dict.fromkeys(name for _, row in first if isinstance(row, dict) for name in row)
        if not present and columns.needed:
            faults = (f"{_plain_fault(row)}; " for _, row in first if isinstance(row, SourceError))
            detail = f"{path}: {next(faults, '')}needed are {columns}"
            raise SourceError(f"{path.name} has no rows", detail)
        if fault := columns.fault(present):
            raise SourceError(f"{path.name} lacks columns", f"{path}: {fault}")
        for count, (number, row) in enumerate(chain(first, rows)):
            if count == limit:
                raise SourceError(f"{path.name} has too many rows", f"{path}: more than {limit}")
            yield number, _plain_fault(row) if isinstance(row, SourceError) else row
    except (OSError, pa.ArrowException) as error:
        says = describe_os_error(error) if isinstance(error, OSError) else str(error)
        raise SourceError(f"{path.name} cannot be read", f"{path}: {says}") from None


def _plain_fault(fault: SourceError) -> SourceError:
    """The fault of a line, which is one of metadata only beside recordings."""
    return SourceError(fault.reason.removeprefix("metadata "), fault.detail)


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_parquet(str(path)) as file:
        number = 0
        for group in range(file.num_row_groups):
            check_parquet_read(file, [group], None, str(path))
            for row in file.read_row_group(group).to_pylist():
                number += 1
                yield number, {name: as_json(value) for name, value in row.items()}


def read_valid_rows(path: str | Path, model: type[Row]) -> Iterator[Row]:
    """The rows of a table, each in its form; a field without a default is a needed column.

    Raises:
        RequestError: It cannot be read, is no table, lacks a column, or a row is wrong.
    """
    from pydantic import ValidationError

    needed = tuple(name for name, part in model.model_fields.items() if part.is_required())
    try:
        for number, row in read_table(path, TableColumns(needed=needed)):
            if isinstance(row, SourceError):
                raise row
            cells = {name: row[name] for name in model.model_fields if row.get(name) not in (None, "")}
            try:
                yield model.model_validate(cells)
            except ValidationError as error:
                name = str(next(iter(error.errors()[0]["loc"]), ""))
                shown = f"{name} is {row.get(name)!r}; " if name else ""
                detail = visible(f"{path}, line {number}: {shown}{first_fault(error)}")
                raise RequestError("the table has a wrong row", shorten(detail)) from None
    except RequestError:
        raise
    except AresError as error:
        raise RequestError(error.reason, error.detail) from None
