"""Filters: the columns of the episodes as values with counts and as histograms with a range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.dashboard.components import load
from app.dashboard.state import Filter
from ares.episode import Json


def filters(facets: Sequence[Mapping[str, Json]], key: str, changed: Callable[[Filter], None]) -> None:
    """Draw the filters; `changed` is called with the one that a person changed, before the page is drawn again."""

    def settle() -> None:
        import streamlit as st

        value = st.session_state[key].changed
        if value:
            changed(_filter(value))

    load("filters")(data={"facets": list(facets)}, key=key, on_changed_change=settle)


def _filter(changed: Mapping[str, Any]) -> Filter:
    low, high = changed["low"], changed["high"]
    return Filter(
        column=str(changed["column"]),
        values=tuple(str(value) for value in changed["values"]),
        low=None if low is None else float(low),
        high=None if high is None else float(high),
        missing=bool(changed["missing"]),
    )
