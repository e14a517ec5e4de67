"""Filters: the columns of the episodes as values with counts and as histograms with a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.dashboard.components import load
from app.dashboard.state import Filter
from ares.episode import Json


def filters(facets: Sequence[Mapping[str, Json]], key: str) -> Filter | None:
    """Draw the filters; returns the one that was changed, or None."""
    result = load("filters")(data={"facets": list(facets)}, key=key, on_changed_change=lambda: None)
    return _filter(result.changed) if result.changed else None


def _filter(changed: Mapping[str, Any]) -> Filter:
    low, high = changed["low"], changed["high"]
    return Filter(
        column=str(changed["column"]),
        values=tuple(str(value) for value in changed["values"]),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        missing=bool(changed["missing"]),
    )
