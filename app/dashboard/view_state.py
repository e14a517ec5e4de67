"""State of a page (query, filters, order, page number), kept in the URL so that it can be shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ares.errors import RequestError
from ares.store import in_list, parenthesize, quote_literal

PAGE_SIZE = 24
# Beginning of the query parameters that filter a column.
FILTER_PREFIX = "f."
# Texts of an episode that words filter.
_TEXT_COLUMNS = ("instruction", "caption")
# Marker of a missing value in the URL; a value that starts with "~" is written with "~~".
_MISSING = "~missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFilter:
    """Condition on one column: one of some values, or within a range, or missing.

    Attributes:
        column: Name of the column.
        values: Allowed values, as text.
        low: Lower bound of the range, or None.
        high: Upper bound, included, or None.
        missing: Whether episodes without a value match.
    """

    column: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    missing: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether every episode matches."""
        return not self.values and self.low is None and self.high is None and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """A selection of episodes and how it is shown.

    Attributes:
        text: Text to search for, or "".
        like: Episode to search for similar ones of, or "".
        image: Image to search by: a frame ("EPISODE_ID/CAMERA@SECONDS"), an uploaded one ("upload:ID"), or "".
        by: Ways to compare, or "" for the default ones.
        words: Words that the instruction or the caption must have, or "".
        where: SQL condition typed by the user, or "".
        filters: By column.
        sort: Column to order by, or "" for the order in the sources.
        descending: Whether the largest comes first.
        page: Page number, from 1.
        cut: Least score of the episodes of a search, 0 to 1; None is where the relevant ones end.
    """

    text: str = ""
    like: str = ""
    image: str = ""
    by: str = ""
    words: str = ""
    where: str = ""
    filters: Mapping[str, ColumnFilter] = field(default_factory=dict)
    sort: str = ""
    descending: bool = False
    page: int = 1
    cut: float | None = None

    @property
    def is_search(self) -> bool:
        """Whether a search orders the episodes."""
        return bool(self.text or self.like or self.image)

    @property
    def query(self) -> dict[str, str]:
        """Parts of the search query, by their names in `ares.search.query.Query`."""
        return {"text": self.text, "like": self.like, "image": self.image, "by": self.by}

    def with_query(self, *, text: str = "", like: str = "", image: str = "", by: str = "") -> ViewState:
        """Return the view with this search in place of the old one, on its first page and with the default cut."""
        return replace(self, text=text, like=like, image=image, by=by, cut=None, page=1)

    def with_filter(self, new: ColumnFilter) -> ViewState:
        """Return the view with this filter in place of the column's old one, on its first page."""
        others = {name: old for name, old in self.filters.items() if name != new.column}
        return replace(self, filters=others if new.is_empty else {**others, new.column: new}, page=1)


def view_from_params(params: Mapping[str, Sequence[str]]) -> ViewState:
    """Parse a view from the query parameters of a URL; what cannot be parsed is left out."""
    filters: dict[str, ColumnFilter] = {}
    for name, texts in params.items():
        if name.startswith(FILTER_PREFIX):
            column_filter = _parse_filter(name.removeprefix(FILTER_PREFIX), texts)
            if not column_filter.is_empty:
                filters[column_filter.column] = column_filter
    sort = _first_value(params, "sort")
    page = _first_value(params, "page")
    return ViewState(
        text=_first_value(params, "q"),
        like=_first_value(params, "like"),
        image=_first_value(params, "image"),
        by=_first_value(params, "by"),
        words=_first_value(params, "words"),
        where=_first_value(params, "where"),
        filters=filters,
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 8 and int(page) else 1,
        cut=_parse_cut(_first_value(params, "cut")),
    )


def view_to_params(view: ViewState) -> dict[str, list[str]]:
    """Return a view as query parameters, without default values."""
    params = {
        "q": view.text,
        "like": view.like,
        "image": view.image,
        "by": view.by,
        "words": view.words,
        "where": view.where,
    }
    params["sort"] = ("-" if view.descending else "") + view.sort if view.sort else ""
    params["cut"] = "" if view.cut is None else f"{view.cut:.4g}"
    params["page"] = str(view.page) if view.page > 1 else ""
    query = {name: [text] for name, text in params.items() if text}
    for column, column_filter in view.filters.items():
        query[f"{FILTER_PREFIX}{column}"] = _format_filter(column_filter)
    return query


def where_sql(view: ViewState, columns: Mapping[str, str], leave_out: str = "") -> str:
    """Return the SQL filter of a view.

    Args:
        view: The view.
        columns: The columns of the episodes table, with their types.
        leave_out: Column whose filter is not applied (for the counts beside its own values).

    Raises:
        RequestError: A filter on an unknown column, or SQL that would reach beyond its parentheses.
    """
    parts = [parenthesize(view.where)] if view.where else []
    parts += [_word_condition(word, columns) for word in view.words.lower().split()]
    for column, column_filter in view.filters.items():
        if column not in columns:
            raise RequestError(f"no column {column!r}", f"there are: {', '.join(sorted(columns))}")
        if column != leave_out:
            parts.append(_filter_condition(column_filter, columns[column]))
    return " AND ".join(parts)


def filter_label(column_filter: ColumnFilter) -> str:
    """Return a filter in words, for the button that removes it."""
    name = column_filter.column.replace("_", " ")
    parts = list(column_filter.values)
    if column_filter.low is not None or column_filter.high is not None:
        parts.append(f"{_short_number(column_filter.low)} to {_short_number(column_filter.high)}")
    if column_filter.missing:
        parts.append("missing")
    return f"{name}: {' or '.join(parts)}"


def _word_condition(word: str, columns: Mapping[str, str]) -> str:
    literal = quote_literal(word)
    parts = [f"contains(lower({column}), {literal})" for column in _TEXT_COLUMNS if column in columns]
    return f"({' OR '.join(parts)})"


def _filter_condition(column_filter: ColumnFilter, kind: str) -> str:
    column, values = column_filter.column, column_filter.values
    parts: list[str] = []
    if values and kind == "bool":
        parts += [f"{column} IS {'TRUE' if value == 'true' else 'FALSE'}" for value in values]
    elif values and kind.startswith("list"):
        parts += [f"array_has({column}, {quote_literal(value)})" for value in values]
    elif values:
        parts.append(in_list(column, values))
    bounds = [(">=", column_filter.low, math.ceil), ("<=", column_filter.high, math.floor)]
    ranges = [
        f"{column} {operator} {_bound_sql(bound, kind, rounded)}"
        for operator, bound, rounded in bounds
        if bound is not None
    ]
    if ranges:
        parts.append(" AND ".join(ranges))
    if column_filter.missing:
        parts.append(f"{column} IS NULL")
    return f"({' OR '.join(f'({part})' for part in parts)})"


def _bound_sql(bound: float, kind: str, rounded: Callable[[float], int]) -> str:
    """Return a bound as SQL.

    Args:
        bound: Number; of a time the seconds since 1970.
        kind: Type of the column. An integer column is compared with an integer.
        rounded: Rounds to the nearest integer inside the range.
    """
    if kind == "timestamp":
        return f"to_timestamp_micros({round(bound * 1e6)})"
    return str(rounded(bound)) if kind == "int64" else repr(bound)


def _parse_filter(column: str, texts: Sequence[str]) -> ColumnFilter:
    values: list[str] = []
    low: float | None = None
    high: float | None = None
    for text in texts:
        bounds = _parse_range(text) if text.startswith("~range:") else None
        if bounds:
            low, high = bounds
        elif text != _MISSING and not text.startswith("~range:"):
            values.append(text[1:] if text.startswith("~~") else text)
    return ColumnFilter(column=column, values=tuple(values), low=low, high=high, missing=_MISSING in texts)


def _parse_range(text: str) -> tuple[float | None, float | None] | None:
    low, _, high = text.removeprefix("~range:").partition("..")
    try:
        bounds = [float(part) if part else None for part in (low, high)]
    except ValueError:
        return None
    if any(bound is not None and not math.isfinite(bound) for bound in bounds):
        return None
    return bounds[0], bounds[1]


def _parse_cut(text: str) -> float | None:
    try:
        cut = float(text)
    except ValueError:
        return None
    return cut if 0 <= cut <= 1 else None


def _format_filter(column_filter: ColumnFilter) -> list[str]:
    texts = [f"~{value}" if value.startswith("~") else value for value in column_filter.values]
    low, high = column_filter.low, column_filter.high
    if low is not None or high is not None:
        texts.append(f"~range:{_exact_number(low)}..{_exact_number(high)}")
    return [*texts, _MISSING] if column_filter.missing else texts


def _exact_number(bound: float | None) -> str:
    return "" if bound is None else repr(bound)


def _short_number(bound: float | None) -> str:
    return "" if bound is None else f"{bound:.6g}"


def _first_value(params: Mapping[str, Sequence[str]], name: str) -> str:
    texts = params.get(name, [])
    return texts[0] if texts else ""
