"""Types of the columns that annotators fill, and which of their values fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ares.annotation import Column, Maker
from ares.episode import Json
from ares.store.lance import to_arrow_value, type_mismatch
from ares.store.sync.makers import declared_columns, on_segments

if TYPE_CHECKING:
    from collections.abc import Collection

Row = dict[str, Any]
_Rule = tuple[str, str, tuple[str, ...], str]


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
        self._columns: dict[str, Column] = {}
        self._rules_by_columns: dict[int, tuple[object, list[_Rule]]] = {}

    def declare(self, columns: Iterable[Column]) -> None:
        """Take note of the columns of makers."""
        for column in columns:
            self._columns.setdefault(column.name, column)
            self.types.setdefault(column.name, column.episode_type)

    def fit(
        self,
        values: Mapping[str, Json],
        label: Callable[[], str],
        errors: list[str],
        columns: tuple[Column, ...] | None = None,
    ) -> Row:
        """The values that fit their columns, as Arrow takes them; messages about the others go to `errors`.

        Args:
            values: Value by column name; other keys are ignored.
            label: Returns what the values are of, for messages.
            errors: Messages are added to it.
            columns: The columns as their maker declares them, or None for all that are declared.
        """
        row: Row = {}
        for name, type_name, choices, refusal in self._rules(columns):
            if name in values:
                value = values[name]
                error = refusal or type_mismatch(value, type_name, name, choices)
                if error:
                    errors.append(f"{error} in {label()}")
                else:
                    row[name] = to_arrow_value(value, type_name)
        return row

    def _rules(self, columns: tuple[Column, ...] | None) -> list[_Rule]:
        """Name, type and choices of columns, and why no value of them can be taken, or ""."""
        # Columns of a maker are one tuple: looking it up by identity costs less than comparing its columns.
        key = id(columns)
        if key not in self._rules_by_columns:
            declared = self._columns.values() if columns is None else columns
            rules = [
                (column.name, self.types[column.name], column.choices, self._refusal(column))
                for column in declared
            ]
            self._rules_by_columns[key] = (columns, rules)
        return self._rules_by_columns[key][1]

    def _refusal(self, column: Column) -> str:
        if column.name in self._source_columns:
            return f"{column.name!r} is a column of the source"
        type_name = self.types[column.name]
        if type_name != column.episode_type:
            return f"column {column.name!r} is {type_name}, but its maker declares {column.episode_type}"
        return ""


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
    types.declare(
        # On a segment a column has the type of its values, and not that of their rollup.
        Column(name=column.name, type=column.type, meaning=column.meaning, choices=column.choices)
        for maker in makers
        for column in on_segments(maker)
    )
    return types
