"""State of a page (query, filters, order, page number), kept in the URL so that it can be shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from ares.annotation import Producer
from ares.console import count_of
from ares.errors import RequestError
from ares.registry import suggest_column
from ares.store import in_condition, parenthesize, polygon_fault, quote_literal
from ares_app.dashboard.column_words import format_column_label, value_words

PAGE_SIZE = 24
# How Browse draws the episodes, by what the address says.
SHOWN_AS = {"": "Cards", "table": "Table"}
# Beginning of the query parameters that filter a column.
FILTER_PREFIX = "f."
# Texts of an episode that words filter.
_TEXT_COLUMNS = ("instruction", "caption")
# Marker of a missing value in the URL, and the start of a range; a value that starts with "~" is written with "~~".
MISSING, _RANGE = "~missing", "~range:"
NUMBERS = frozenset(("int64", "float64", "timestamp"))


class AddressError(RequestError):
    """A parameter of the URL that says nothing that the page knows.

    Args:
        parameter: Its name.
        reason: As for every error.
        detail: As for every error.
    """

    def __init__(self, parameter: str, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.parameter = parameter


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
        image: Frame to search by, "EPISODE_ID/CAMERA@SECONDS", or "".
        by: Ways to compare, or "" for the default ones.
        words: Words that the instruction or the caption must have, or "".
        where: SQL condition typed by the user, or "".
        filters: By column.
        region: Corners of a part of the map, "x y, x y, ...", or "".
        sort: Column to order by, or "" for the order in the sources.
        descending: Whether the largest comes first.
        page: Page number, from 1.
        cut: Least score of the episodes of a search, 0 to 1; None is where the relevant ones end.
        show: How they are drawn, one of `SHOWN_AS`.
        columns: Columns of the table, beside the record; empty for the usual ones.
        copies: Whether all episodes of equal content are shown; else one of each content.
    """

    text: str = ""
    like: str = ""
    image: str = ""
    by: str = ""
    words: str = ""
    where: str = ""
    filters: Mapping[str, ColumnFilter] = field(default_factory=dict)
    region: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1
    cut: float | None = None
    show: str = ""
    columns: tuple[str, ...] = ()
    copies: bool = False

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

    def cleared(self) -> ViewState:
        """Return the view of all episodes, drawn in the same way."""
        return ViewState(show=self.show, columns=self.columns, copies=self.copies)

    def with_filter(self, new: ColumnFilter) -> ViewState:
        """Return the view with this filter in place of the column's old one, on its first page."""
        others = {name: old for name, old in self.filters.items() if name != new.column}
        return replace(self, filters=others if new.is_empty else {**others, new.column: new}, page=1)


def view_from_params(params: Mapping[str, Sequence[str]]) -> ViewState:
    """Parse a view from the query parameters of a URL. Raises AddressError for what cannot be parsed."""
    filters: dict[str, ColumnFilter] = {}
    for name, texts in params.items():
        if name.startswith(FILTER_PREFIX):
            column_filter = _parse_filter(name.removeprefix(FILTER_PREFIX), texts)
            filters[column_filter.column] = column_filter
    sort = _first_value(params, "sort")
    view = ViewState(
        text=_first_value(params, "q"),
        like=_first_value(params, "like"),
        image=_first_value(params, "image"),
        by=_first_value(params, "by"),
        words=_first_value(params, "words"),
        where=_first_value(params, "where"),
        filters=filters,
        region=_first_value(params, "region"),
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        page=_parse_page(_first_value(params, "page")),
        cut=_parse_cut(_first_value(params, "cut")),
        show=_first_value(params, "show"),
        columns=tuple(filter(None, _first_value(params, "columns").split(","))),
        copies=bool(_first_value(params, "copies")),
    )
    if view.show not in SHOWN_AS:
        known = ", ".join(filter(None, SHOWN_AS))
        raise AddressError("show", f"episodes cannot be shown as {view.show[:40]!r}", f"there are: {known}")
    if view.cut is not None and not view.is_search:
        raise AddressError("cut", "a cut belongs to a search", "give q, like or image beside it")
    return view


def view_to_params(view: ViewState) -> dict[str, list[str]]:
    """Return a view as query parameters, without default values."""
    params = {
        "q": view.text,
        "like": view.like,
        "image": view.image,
        "by": view.by,
        "words": view.words,
        "where": view.where,
        "region": view.region,
        "show": view.show,
        "columns": ",".join(view.columns),
        "copies": "1" if view.copies else "",
    }
    params["sort"] = ("-" if view.descending else "") + view.sort if view.sort else ""
    params["cut"] = "" if view.cut is None else f"{view.cut:.4g}"
    params["page"] = str(view.page) if view.page > 1 else ""
    query = {name: [text] for name, text in params.items() if text}
    for column, column_filter in view.filters.items():
        query[f"{FILTER_PREFIX}{column}"] = _format_filter(column_filter)
    return query


def browse_address(view: ViewState) -> str:
    """The address of the page "Browse", which is at the root, with a view."""
    return f"./?{urlencode(view_to_params(view), doseq=True)}"


def view_filter_sql(view: ViewState, columns: Mapping[str, str], leave_out: str = "") -> str:
    """Return the SQL filter of a view.

    Args:
        view: The view.
        columns: The columns of the episodes table, with their types.
        leave_out: Column whose filter is not applied (for the counts beside its values).

    Raises:
        AddressError: A filter on an unknown column, or one that its type cannot have.
        RequestError: SQL that would reach beyond its parentheses.
    """
    parts = [parenthesize(view.where)] if view.where else []
    parts += [_word_condition(word, columns) for word in view.words.lower().split()]
    if view.region:
        fault = polygon_fault(view.region) or ("" if "map_x" in columns else "there is no map yet")
        if fault:
            raise AddressError("region", "a region of the map cannot be read", fault)
        parts.append(f"in_polygon(map_x, map_y, {quote_literal(view.region)})")
    for column, column_filter in view.filters.items():
        check_column(f"{FILTER_PREFIX}{column}", column, columns)
        _check_filter(column_filter, columns[column])
        if column != leave_out:
            parts.append(_filter_condition(column_filter, columns[column]))
    return " AND ".join(parts)


def check_column(parameter: str, name: str, known: Collection[str], use: str = "") -> None:
    """Raise AddressError where the parameter names a column that is not known; `use` ends the sentence."""
    if name not in known:
        hint = f"{suggest_column(name, known)}there are: {', '.join(sorted(known))}"
        raise AddressError(parameter, f"no column {name[:100]!r}{use}", hint)


def describe_filter(column_filter: ColumnFilter, producers: Mapping[str, Producer] | None = None) -> str:
    """Return a filter in words, for the button that removes it; producers are named where they are known."""
    name = format_column_label(column_filter.column)
    parts = [value_words(column_filter.column, value, producers or {}) for value in column_filter.values]
    if column_filter.low is not None or column_filter.high is not None:
        parts.append(f"{_short_number(column_filter.low)} to {_short_number(column_filter.high)}")
    if column_filter.missing:
        parts.append("none")
    return f"{name}: {' or '.join(parts)}"


def _word_condition(word: str, columns: Mapping[str, str]) -> str:
    literal = quote_literal(word)
    # Each in parentheses, so that a column with few values is evaluated by itself.
    parts = [f"(contains(lower({column}), {literal}))" for column in _TEXT_COLUMNS if column in columns]
    return f"({' OR '.join(parts)})"


def _filter_condition(column_filter: ColumnFilter, kind: str) -> str:
    column, values = column_filter.column, column_filter.values
    parts: list[str] = []
    if values and kind == "bool":
        parts += [f"{column} IS {'TRUE' if value == 'true' else 'FALSE'}" for value in values]
    elif values and kind.startswith("list"):
        parts += [f"array_has({column}, {quote_literal(value)})" for value in values]
    elif values:
        parts.append(in_condition(column, values))
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


def _check_filter(column_filter: ColumnFilter, kind: str) -> None:
    """Raise AddressError for a value or a range that a column of this type cannot have."""
    column, name = column_filter.column, f"{FILTER_PREFIX}{column_filter.column}"
    is_number = kind in NUMBERS
    if column_filter.values and is_number:
        detail = f"got {column_filter.values[0][:100]!r}; give {_RANGE}10..20"
        raise AddressError(name, f"{column} is a number and takes a range", detail)
    if not is_number and (column_filter.low is not None or column_filter.high is not None):
        raise AddressError(
            name, f"{column} is no number and takes no range", f"give one of its values, or {MISSING}"
        )
    wrong = [value for value in column_filter.values if kind == "bool" and value not in ("true", "false")]
    if wrong:
        raise AddressError(
            name, f"{column} is true or false", f"got {wrong[0][:100]!r}; give true, false or {MISSING}"
        )


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
    name = f"{FILTER_PREFIX}{column}"
    ranges = [text for text in texts if text.startswith(_RANGE)]
    values = [text for text in texts if text not in (MISSING, *ranges)]
    low, high = _parse_range(name, ranges[0]) if ranges else (None, None)
    if len(ranges) > 1:
        raise AddressError(name, f"{column} has {count_of(len(ranges), 'range')}", "give one")
    unknown = [text for text in values if text.startswith("~") and not text.startswith("~~")]
    if unknown or not texts:
        detail = (
            f"got {unknown[:1]}; give a value, {_RANGE}LOW..HIGH or {MISSING}; a value with ~ begins with ~~"
        )
        raise AddressError(name, f"the filter of {column} cannot be read", detail)
    plain = tuple(text[1:] if text.startswith("~~") else text for text in values)
    return ColumnFilter(column=column, values=plain, low=low, high=high, missing=MISSING in texts)


def _parse_range(name: str, text: str) -> tuple[float | None, float | None]:
    low, dots, high = text.removeprefix(_RANGE).partition("..")
    try:
        bounds = [float(part) if part else None for part in (low, high)]
    except ValueError:
        bounds = []
    numbers = [bound for bound in bounds if bound is not None]
    if not dots or not numbers or not all(map(math.isfinite, numbers)) or numbers != sorted(numbers):
        detail = f"got {text[:100]!r}; give {_RANGE}LOW..HIGH with the lower number first; one of them may be left out"
        raise AddressError(name, "a range cannot be read", detail)
    return bounds[0], bounds[1]


def _parse_page(text: str) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text)):
        raise AddressError(
            "page", "the number of a page cannot be read", f"got {text[:100]!r}; pages count from 1"
        )
    return int(text)


def _parse_cut(text: str) -> float | None:
    try:
        cut = float(text) if text else None
    except ValueError:
        cut = math.nan
    if cut is not None and not 0 <= cut <= 1:
        raise AddressError("cut", "a cut cannot be read", f"got {text[:100]!r}; give a score from 0 to 1")
    return cut


def _format_filter(column_filter: ColumnFilter) -> list[str]:
    texts = [f"~{value}" if value.startswith("~") else value for value in column_filter.values]
    low, high = column_filter.low, column_filter.high
    if low is not None or high is not None:
        texts.append(f"{_RANGE}{_exact_number(low)}..{_exact_number(high)}")
    return [*texts, MISSING] if column_filter.missing else texts


def _exact_number(bound: float | None) -> str:
    return "" if bound is None else repr(bound)


def _short_number(bound: float | None) -> str:
    return "" if bound is None else f"{bound:.6g}"


def _first_value(params: Mapping[str, Sequence[str]], name: str) -> str:
    texts = params.get(name, [])
    if len(texts) > 1:
        raise AddressError(name, f"the address has {name} {len(texts)} times", "give it once")
    return texts[0] if texts else ""
