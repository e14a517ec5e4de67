"""Tables as aligned plain text, and results that show themselves as such a table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, SupportsIndex, TypeVar, overload

from ares.errors import EpisodeIndexError
from ares.imports import import_optional
from ares.workspace.foreign_names import call_other_library, explain_mistakes

if TYPE_CHECKING:
    import pandas as pd

    from ares.episode import Json


# Characters of a cell, and rows of a table, that are shown.
_CELL_WIDTH, _SHOWN_ROWS = 60, 20


class HasJsonDocument(Protocol):
    """What has a JSON document."""

    def to_json(self) -> dict[str, Json]:
        """The document."""


Row = TypeVar("Row", bound=HasJsonDocument)


@explain_mistakes
class ResultTable(list[Row], Generic[Row]):
    """A list that shows itself as a table, in a terminal and in a notebook.

    Attributes:
        shown: The columns that are shown: a function of a row, by header.
        empty: The text that is shown in place of a table without rows.
    """

    _called: ClassVar = "table"
    shown: ClassVar[Mapping[str, Callable[..., object]]] = {}
    empty: ClassVar[str] = "nothing found"

    @overload
    def __getitem__(self, key: SupportsIndex) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> ResultTable[Row]: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        """A row, the table of some rows, or columns of `to_pandas` by their names."""
        if isinstance(key, slice):
            return type(self)(super().__getitem__(key))
        if isinstance(key, SupportsIndex):
            if -len(self) <= operator.index(key) < len(self):
                return super().__getitem__(key)
            raise EpisodeIndexError(f"there is no row number {key}", f"the table has {len(self)}")
        return call_other_library(self.to_pandas().__getitem__, key)

    def to_json(self) -> list[Json]:
        """The documents of the rows, as the command prints them with --json."""
        return [row.to_json() for row in self]

    def to_pandas(self) -> pd.DataFrame:
        """One row per element, with every field. Raises RequestError when pandas is not installed."""
        return import_optional("pandas").DataFrame(self.to_json())

    def __repr__(self) -> str:
        more = f"\n... {len(self) - _SHOWN_ROWS} more" if len(self) > _SHOWN_ROWS else ""
        return f"{format_table(self._cells(), list(self.shown)) or self.empty}{more}"

    def _repr_html_(self) -> str:
        """The same as HTML, for notebooks."""
        if not self:
            return f"<p>{escape(self.empty)}</p>"
        more = f"<p>... {len(self) - _SHOWN_ROWS} more</p>" if len(self) > _SHOWN_ROWS else ""
        return html_table(self._cells(), list(self.shown)) + more

    def _cells(self) -> list[list[object]]:
        rows = list(self)[:_SHOWN_ROWS]
        return [[cell(row) for cell in self.shown.values()] for row in rows]


def format_table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """Aligned plain text with a header; "" without rows.

    Args:
        rows: Values; None is an empty cell, a float has three decimals, a long text is cut.
        header: Names of the columns.
    """
    if not rows:
        return ""
    return align_rows([header, *([_text_cell(value) for value in row] for row in rows)])


def align_rows(rows: Sequence[Sequence[str]]) -> str:
    """Plain text with columns of even width; the last one is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def html_table(
    rows: Sequence[Sequence[object]], header: Sequence[str], pictures: Sequence[str] | None = None
) -> str:
    """The same as an HTML table; the values are escaped.

    Args:
        rows: Values.
        header: Names of the columns, with that of the pictures.
        pictures: HTML of the first cell of each row; None for none.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    cells = ["".join(f"<td>{escape(_text_cell(value))}</td>" for value in row) for row in rows]
    if pictures is not None:
        cells = [f"<td>{picture}</td>{row}" for picture, row in zip(pictures, cells, strict=True)]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text_cell(value: object) -> str:
    text = "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
    # Data must not control a terminal.
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= _CELL_WIDTH else f"{line[: _CELL_WIDTH - 3]}..."
