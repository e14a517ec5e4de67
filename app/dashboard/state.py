"""View: what a person looks at (query, filters, order, page), kept in the URL so that it can be shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ares.errors import RequestError
from ares.store.filters import alone, among, literal

PAGE = 24
# A value that cannot be one: "~" doubled stands for itself.
_MISSING = "~missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What one column may be: any of some values, or within a range; or missing.

    Attributes:
        column: Name of the column.
        values: Allowed values, as text.
        low: Lower bound of the range, or None.
        high: Upper bound, included, or None.
        missing: Whether episodes without a value are let through.
    """

    column: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    missing: bool = False

    @property
    def empty(self) -> bool:
        """Whether it filters nothing."""
        return not self.values and self.low is None and self.high is None and not self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A selection of episodes and how it is shown.

    Attributes:
        text: What is searched for, or "".
        like: Episode whose like is wanted, or "".
        image: Frame that is searched for ("EPISODE_ID/CAMERA@SECONDS"), or "".
        by: Ways to compare, or "" for the usual ones.
        where: SQL typed by an expert, or "".
        filters: By column.
        sort: Column to order by, or "" for the order of ingestion.
        descending: Whether the largest comes first.
        page: Counted from 1.
    """

    text: str = ""
    like: str = ""
    image: str = ""
    by: str = ""
    where: str = ""
    filters: Mapping[str, Filter] = field(default_factory=dict)
    sort: str = ""
    descending: bool = False
    page: int = 1

    @property
    def ranked(self) -> bool:
        """Whether a search orders the episodes."""
        return bool(self.text or self.like or self.image)

    @property
    def asked(self) -> dict[str, str]:
        """What is searched for, by the names of `ares.search.query.Query`."""
        return {"text": self.text, "like": self.like, "image": self.image, "by": self.by}

    def with_filter(self, changed: Filter) -> View:
        """The view with this filter in place of the column's old one, back on its first page."""
        others = {name: kept for name, kept in self.filters.items() if name != changed.column}
        return replace(self, filters=others if changed.empty else {**others, changed.column: changed}, page=1)


def from_params(params: Mapping[str, Sequence[str]]) -> View:
    """Read a view from the query parameters of a URL; what cannot be read is left out."""
    filters: dict[str, Filter] = {}
    for name, texts in params.items():
        if name.startswith("f."):
            read = _read_filter(name[2:], texts)
            if not read.empty:
                filters[read.column] = read
    sort = _one(params, "sort")
    page = _one(params, "page")
    return View(
        text=_one(params, "q"),
        like=_one(params, "like"),
        image=_one(params, "image"),
        by=_one(params, "by"),
        where=_one(params, "where"),
        filters=filters,
        sort=sort.removeprefix("-"),
        descending=sort.startswith("-"),
        page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 8 and int(page) else 1,
    )


def to_params(view: View) -> dict[str, list[str]]:
    """Write a view as query parameters, without what is as usual."""
    params = {
        "q": view.text,
        "like": view.like,
        "image": view.image,
        "by": view.by,
        "where": view.where,
    }
    params["sort"] = ("-" if view.descending else "") + view.sort if view.sort else ""
    params["page"] = str(view.page) if view.page > 1 else ""
    written = {name: [text] for name, text in params.items() if text}
    for column, chosen in view.filters.items():
        written[f"f.{column}"] = _write_filter(chosen)
    return written


def where_sql(view: View, columns: Mapping[str, str], leave_out: str = "") -> str:
    """The SQL filter of a view.

    Args:
        view: The view.
        columns: The columns there are, with their types.
        leave_out: Column whose filter is not applied (for the counts beside its own values).

    Raises:
        RequestError: A filter on a column that is not there, or SQL that would reach beyond its parentheses.
    """
    parts = [alone(view.where)] if view.where else []
    for column, chosen in view.filters.items():
        if column not in columns:
            raise RequestError(f"no column {column!r}", f"there are: {', '.join(sorted(columns))}")
        if column != leave_out:
            parts.append(_condition(chosen, columns[column]))
    return " AND ".join(parts)


def chip(chosen: Filter) -> str:
    """A filter in words, for its removable chip."""
    name = chosen.column.replace("_", " ")
    parts = list(chosen.values)
    if chosen.low is not None or chosen.high is not None:
        parts.append(f"{_number(chosen.low)} to {_number(chosen.high)}")
    if chosen.missing:
        parts.append("missing")
    return f"{name}: {' or '.join(parts)}"


def _condition(chosen: Filter, kind: str) -> str:
    column = chosen.column
    parts: list[str] = []
    if chosen.values and kind == "bool":
        parts += [f"{column} IS {'TRUE' if value == 'true' else 'FALSE'}" for value in chosen.values]
    elif chosen.values and kind.startswith("list"):
        parts += [f"array_has({column}, {literal(value)})" for value in chosen.values]
    elif chosen.values:
        parts.append(among(column, chosen.values))
    bounds = [(">=", chosen.low, math.ceil), ("<=", chosen.high, math.floor)]
    within = [
        f"{column} {sign} {_bound(bound, kind, whole)}" for sign, bound, whole in bounds if bound is not None
    ]
    if within:
        parts.append(" AND ".join(within))
    if chosen.missing:
        parts.append(f"{column} IS NULL")
    return f"({' OR '.join(f'({part})' for part in parts)})"


def _bound(bound: float, kind: str, whole: Callable[[float], int]) -> str:
    """A bound in SQL; that of a time is given in seconds since 1970. Whole numbers are not compared with others."""
    if kind == "timestamp":
        return f"to_timestamp_micros({round(bound * 1e6)})"
    return str(whole(bound)) if kind == "int64" else repr(bound)


def _read_filter(column: str, texts: Sequence[str]) -> Filter:
    values: list[str] = []
    low: float | None = None
    high: float | None = None
    for text in texts:
        span = _read_range(text) if text.startswith("~range:") else None
        if span:
            low, high = span
        elif text != _MISSING and not text.startswith("~range:"):
            values.append(text[1:] if text.startswith("~~") else text)
    return Filter(column=column, values=tuple(values), low=low, high=high, missing=_MISSING in texts)


def _read_range(text: str) -> tuple[float | None, float | None] | None:
    low, _, high = text.removeprefix("~range:").partition("..")
    try:
        bounds = [float(part) if part else None for part in (low, high)]
    except ValueError:
        return None
    if any(bound is not None and not math.isfinite(bound) for bound in bounds):
        return None
    return bounds[0], bounds[1]


def _write_filter(chosen: Filter) -> list[str]:
    texts = [f"~{value}" if value.startswith("~") else value for value in chosen.values]
    if chosen.low is not None or chosen.high is not None:
        texts.append(f"~range:{_exact(chosen.low)}..{_exact(chosen.high)}")
    return [*texts, _MISSING] if chosen.missing else texts


def _exact(bound: float | None) -> str:
    return "" if bound is None else repr(bound)


def _number(bound: float | None) -> str:
    return "" if bound is None else f"{bound:.6g}"


def _one(params: Mapping[str, Sequence[str]], name: str) -> str:
    texts = params.get(name, [])
    return texts[0] if texts else ""
