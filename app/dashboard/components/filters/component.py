"""Panel of filters: values of columns with counts, and histograms with a range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.dashboard.components.registration import load_component
from app.dashboard.view_state import ColumnFilter
from ares.episode import Json


def draw_filters(
    facets: Sequence[Mapping[str, Json]], key: str, on_change: Callable[[ColumnFilter], None]
) -> None:
    """Draw the filters.

    Args:
        facets: Columns with their counts and their current filter.
        key: Streamlit key of the component.
        on_change: Called with the filter that the user changed, before the page is drawn again.
    """

    def handle_change() -> None:
        import streamlit as st

        value = st.session_state[key].changed
        if value:
            on_change(_column_filter(value))

    load_component("filters")(data={"facets": list(facets)}, key=key, on_changed_change=handle_change)


def _column_filter(value: Mapping[str, Any]) -> ColumnFilter:
    low, high = value["low"], value["high"]
    return ColumnFilter(
        column=str(value["column"]),
        values=tuple(str(text) for text in value["values"]),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        missing=bool(value["missing"]),
    )
