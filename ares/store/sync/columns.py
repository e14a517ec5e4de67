"""Types of the columns that annotators fill, and which of their values fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.annotation import Column, Maker
from ares.episode import Json
from ares.store.lance import to_arrow_value, type_mismatch
from ares.store.sync.makers import declared_columns, on_segments

if TYPE_CHECKING:
    from collections.abc import Collection

Row = dict[str, Any]


class ColumnTypes:
    """The columns of one table that annotators may fill.

    Args:
        existing: Type by name of the columns that the table has.
        source_columns: Columns that no annotator may fill.

    Attributes:
        types: Type by name; the first maker that declares a column determines it.
    """

    def __init__(self, existing: Mapping[str, str], source_columns: Collection[str]) -> None:
        self._source_columns = set(source_columns)
        self.types: dict[str, str] = dict(existing)

    def declare(self, columns: Iterable[Column]) -> None:
        """Take note of the columns of makers."""
        for column in columns:
            self.types.setdefault(column.name, column.episode_type)

    def fit(
        self,
        values: Mapping[str, Json],
        label: Callable[[], str],
        errors: list[str],
        columns: Iterable[Column],
    ) -> Row:
        """The values that fit their columns; see `fit_values`.

        Args:
            values: Value by column name; other keys are ignored.
            label: Returns what the values are of, for messages.
            errors: Messages are added to it.
            columns: The columns as their maker declares them.
        """
        return fit_values(values, label, errors, self.rules(columns))

    def rules(self, columns: Iterable[Column]) -> list[FitRule]:
        """What the values of columns have to be."""
        return [
            FitRule(
                name=column.name,
                type_name=self.types[column.name],
                choices=column.choices,
                refusal=self._refusal(column),
            )
            for column in columns
        ]

    def _refusal(self, column: Column) -> str:
        if column.name in self._source_columns:
            return f"{column.name!r} is a column of the source"
        type_name = self.types[column.name]
        if type_name != column.episode_type:
            return f"column {column.name!r} is {type_name}, but its maker declares {column.episode_type}"
        return ""


class FitRule(NamedTuple):
    """What the values of one column have to be.

    Attributes:
        name: The column.
        type_name: Its type, see `ares.annotation.ColumnType`.
        choices: The allowed texts; empty allows any.
        refusal: Why no value can be taken, or "".
    """

    name: str
    type_name: str
    choices: tuple[str, ...]
    refusal: str


def fit_values(
    values: Mapping[str, Json], label: Callable[[], str], errors: list[str], rules: Iterable[FitRule]
) -> Row:
    """The values that fit their columns, as Arrow takes them; messages about the others go to `errors`."""
    row: Row = {}
    for name, type_name, choices, refusal in rules:
        if name in values:
            value = values[name]
            error = refusal or type_mismatch(value, type_name, name, choices)
            if error:
                errors.append(f"{error} in {label()}")
            else:
                row[name] = to_arrow_value(value, type_name)
    return row


def episode_column_types(
    existing: Mapping[str, str], source_columns: Collection[str], makers: Iterable[Maker]
) -> ColumnTypes:
    """The columns of the episodes table."""
    types = ColumnTypes(existing, source_columns)
    types.declare(declared_columns(makers))
    return types


def segment_column_types(
    existing: Mapping[str, str], own_columns: Collection[str], makers: Iterable[Maker]
) -> ColumnTypes:
    """The columns of the segments table."""
    types = ColumnTypes(existing, own_columns)
    types.declare(column for maker in makers for column in on_segments(maker))
    return types
