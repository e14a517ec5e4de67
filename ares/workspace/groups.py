"""The episodes of a view by the values of columns: a view for each value, and statistics by pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from ares.errors import RequestError, UnknownName
from ares.imports import import_optional
from ares.registry import column_of, did_you_mean, read_foreign_names
from ares.workspace.foreign_names import (
    MISSING,
    call_other_library,
    explain_mistakes,
    number_columns,
    read_numbers,
)
from ares.workspace.printed_tables import format_table

View = TypeVar("View", bound=Sized)

# Groups that a view is split into at most, and that are shown.
_MOST_GROUPS, _SHOWN_GROUPS = 10_000, 20
# Of pandas: these read all columns, others those that are named, or all of numbers and flags.
_OF_ALL_COLUMNS = frozenset({"count", "first", "get_group", "head", "last", "nth", "tail"})


@explain_mistakes
class ViewsByValue(dict[Any, View]):
    """A view for each value of a column, by value.

    Args:
        called: How messages call it.
        views: The views.
    """

    def __init__(self, called: str, views: Iterable[tuple[Any, View]]) -> None:
        super().__init__(views)
        self._called = called

    def __missing__(self, value: object) -> NoReturn:
        names = list(map(str, self))
        hint = f"{did_you_mean(str(value), names)}there are: {', '.join(names) or 'none'}"
        raise UnknownName(f"no episodes of {value!r}", hint)

    def __repr__(self) -> str:
        rows = [(value, len(view)) for value, view in list(self.items())[:_SHOWN_GROUPS]]
        more = f"\n... {len(self) - len(rows):,} more" if len(self) > len(rows) else ""
        return f"{format_table(rows, ('value', 'episodes')) or 'no episodes'}{more}"


@explain_mistakes
class Groups(Generic[View]):
    """The episodes of a view by the values of columns; pairs of a value and a view when it is iterated.

        >>> groups = ws.episodes.groupby("robot")
        >>> groups.views["franka"], groups.size(), groups.mean(), groups["num_steps"].max()
        >>> groups.agg({"num_steps": ["mean", "max"], "success": "mean"})

    It has the methods of `DataFrameGroupBy` of pandas, which read the columns that are named, or else those of numbers
    and flags. A flag is 1 or 0 in them, so that its mean is a share.

    Args:
        view: The episodes.
        columns: The columns; of several a value is a tuple.
    """

    _called: ClassVar = "groups"

    def __init__(self, view: View, columns: list[str]) -> None:
        self._view: Any = view
        self.columns = columns

    @cached_property
    def views(self) -> ViewsByValue[View]:
        """A view for each value, by value, a missing one last. Raises RequestError for more than 10,000."""
        rows = self._read([]).indices
        if len(rows) > _MOST_GROUPS:
            raise RequestError("there are too many values for groups", f"{len(rows):,} of {self.columns}")
        # A value of NumPy as that of Python, and NaN as None.
        pairs = (
            (getattr(value, "item", lambda value=value: value)(), self._view[rows[value]]) for value in rows
        )
        return ViewsByValue(
            "groups.views", ((None if value != value else value, view) for value, view in pairs)
        )

    def __iter__(self) -> Iterator[tuple[Any, View]]:
        return iter(self.views.items())

    def __len__(self) -> int:
        return len(self.views)

    def __contains__(self, value: object) -> bool:
        return value in self.views

    def __getitem__(self, key: Any) -> Any:
        """The column of that name, or columns, by group, as pandas has them; else the view of that value."""
        if isinstance(key, list) or (isinstance(key, str) and self._is_column(key)):
            return self._read([key] if isinstance(key, str) else key)[key]
        return self.views[key]

    def __repr__(self) -> str:
        return repr(self.views)

    def _resolve_name(self, name: str) -> Any:
        if hasattr(ViewsByValue, name):
            return getattr(self.views, name)
        if self._is_column(name):
            return self[name]
        is_method = callable(getattr(import_optional("pandas").api.typing.DataFrameGroupBy, name, None))
        return partial(self._call, name) if is_method else MISSING

    def _is_column(self, name: str) -> bool:
        return column_of(name, self._view.columns) in self._view.columns

    def _read(self, names: list[str]) -> Any:
        """Columns by group as pandas has them, a flag as a number, and a list in which is grouped as a tuple."""
        frame = read_numbers(self._view, list(dict.fromkeys([*self.columns, *names])), leave=self.columns)
        for name in self.columns:
            if self._view.columns[column_of(name, self._view.columns)].startswith("list"):
                frame[name] = frame[name].map(tuple, na_action="ignore")
        by = self.columns if len(self.columns) > 1 else self.columns[0]
        return frame.groupby(by, dropna=False)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        columns, typed = list(self._view.columns), repr((args, kwargs))
        others = filter(self._is_column, read_foreign_names()["columns"])
        names = [name for name in dict.fromkeys([*columns, *others]) if repr(name) in typed]
        if not names and method != "size":
            names = columns if method in _OF_ALL_COLUMNS else number_columns(self._view)
        return call_other_library(getattr(self._read(names), method), *args, **kwargs)
