"""Filters of Browse: a button for each usual column, and one for all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from ares.curation import DUPLICATE_GROUP
from ares.errors import AresError, QueryTimeout
from ares.search import Facet
from ares.store import TAGS
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import change_view
from ares_app.dashboard.column_words import (
    MACHINE_GROUP,
    column_choice,
    column_group,
    column_rank,
    format_column_label,
    value_words,
)
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.results import read_shown_filter, search_threshold, unknown_values
from ares_app.dashboard.view_state import MISSING, NUMBERS, ColumnFilter, ViewState

# Columns whose filter has a button, where a column exists and offers a choice.
_USUAL = (
    *("dataset", "outcome", "success", "grade", TAGS, "duration_seconds", "quality_codes"),
    *("robot", "operator", "scene", "environment", "lighting"),
)
_STEPS, _BARS = 200, "▁▂▃▄▅▆▇█"
_OTHER, _WHERE, _SCORE = "browse.other", "browse.where", "browse.score"


def draw_filters(view: ViewState) -> list[Facet]:
    """Draw the buttons of the filters; where a filter cannot be read, with the counts of all episodes.

    Returns:
        The counts beside the values of the usual columns.
    """
    try:
        facets = read_usual_facets(view)
    except QueryTimeout as error:
        st.caption(f"No counts: {escape_markdown(error)}")
        facets = []
    except AresError:
        # The list of the episodes says what is wrong.
        view = ViewState()
        facets = read_usual_facets(view)
    for facet in facets:
        if _is_choice(facet) or facet.column in view.filters:
            with st.popover(format_column_label(facet.column).partition(" (")[0].capitalize()):
                _draw_facet(facet, view)
    if view.is_search:
        with st.popover("Score"):
            _draw_score(view)
    with st.popover("More filters", icon=":material/tune:", type="primary" if view.where else "secondary"):
        _draw_others(view)
    return facets


def read_usual_facets(view: ViewState) -> list[Facet]:
    """Counts of the columns whose filter has a button."""
    columns = cached_reads.filter_columns()
    other = "success" if cached_reads.outcome_column() == "outcome" else "outcome"
    usual = [name for name in _USUAL if name in columns and (name != other or name in view.filters)]
    return _read_facets(view, usual)


def _read_facets(view: ViewState, columns: Sequence[str]) -> list[Facet]:
    search = (view.query, search_threshold(view)) if view.is_search else ()
    others = tuple(name for name in columns if name not in view.filters)
    facets = cached_reads.read_facets(read_shown_filter(view), others, *search) if others else []
    for column in view.filters.keys() & set(columns):
        # Counts beside a column's values ignore its filter: they are what a click would add.
        facets += cached_reads.read_facets(read_shown_filter(view, leave_out=column), column, *search)
    return sorted(facets, key=lambda facet: columns.index(facet.column))


def _is_choice(facet: Facet) -> bool:
    if facet.type in NUMBERS:
        return facet.edges != () and facet.edges[0] < facet.edges[-1]
    # Episodes without an entry in a list have it nevertheless.
    return len(facet.counts) + bool(facet.missing or facet.type.startswith("list")) > 1


def _draw_facet(facet: Facet, view: ViewState) -> None:
    current = view.filters.get(facet.column, ColumnFilter(column=facet.column))
    if facet.meaning:
        st.caption(escape_markdown(facet.meaning))
    if facet.type not in NUMBERS:
        _draw_values(facet, current)
    elif facet.edges:
        _draw_range(facet, current)
    draw_refusal(f"browse.filter.{facet.column}")


def _draw_values(facet: Facet, current: ColumnFilter) -> None:
    column, key = facet.column, f"browse.filter.{facet.column}"
    producers = cached_reads.read_producers() if column.endswith("_maker") else {}
    counts = {str(value).lower() if facet.type == "bool" else str(value): n for value, n in facet.counts}
    if facet.missing or current.missing:
        counts[MISSING] = facet.missing

    def label(value: str) -> str:
        name = "none" if value == MISSING else value_words(column, value, producers) or "(empty)"
        return f"{escape_markdown(name)} · {counts.get(value, 0):,}"

    def apply(value: str) -> None:
        def toggle(newest: ViewState) -> ViewState:
            selected = _selected_values(newest.filters.get(column, ColumnFilter(column=column))) ^ {value}
            values = tuple(sorted(selected - {MISSING}))
            return newest.with_filter(ColumnFilter(column=column, values=values, missing=MISSING in selected))

        change_view(toggle)

    change, options = guard_field(key, apply), list(dict.fromkeys([*counts, *current.values]))
    # No pills, and no list: the text is what they send, so that a click is lost where the count has changed meanwhile.
    with st.container(horizontal=True, gap="small"):
        for value in options:
            kind: Any = "primary" if value in _selected_values(current) else "secondary"
            st.button(label(value), key=f"{key}.{value}", type=kind, on_click=change, args=(value,))


def _selected_values(current: ColumnFilter) -> set[str]:
    return {*current.values, *([MISSING] if current.missing else [])}


def _draw_range(facet: Facet, current: ColumnFilter) -> None:
    column, key, least, most = facet.column, f"browse.filter.{facet.column}", facet.edges[0], facet.edges[-1]
    kinds: dict[str, Callable[[float], Any]] = {"int64": int, "timestamp": _to_time}
    shown = kinds.get(facet.type, float)
    bars = "".join(_BARS[round(7 * count / max(1, *facet.histogram))] for count in facet.histogram)
    beyond = f", {facet.below + facet.above:,} beyond" if facet.below + facet.above else ""
    missing = f", {facet.missing:,} without a value" if facet.missing else ""
    st.caption(f"`{bars}` {escape_markdown(facet.unit)}{beyond}{missing}")

    def apply() -> None:
        low, high = map(_to_number, st.session_state.get(key) or (least, most))
        new = ColumnFilter(
            column=column, low=None if low <= least else low, high=None if high >= most else high
        )
        change_view(lambda newest: newest.with_filter(new))

    if not least < most:
        return
    ends = [least if current.low is None else current.low, most if current.high is None else current.high]
    low, high = (min(max(end, least), most) for end in ends)
    show_value(key, (shown(low), shown(high)))
    step = None if facet.type == "timestamp" else 1 if facet.type == "int64" else (most - least) / _STEPS
    st.slider(
        format_column_label(column), shown(least), shown(most), key=key, step=step,
        on_change=guard_field(key, apply),
    )  # fmt: skip


def _to_time(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None)


def _to_number(end: Any) -> float:
    return end.replace(tzinfo=UTC).timestamp() if isinstance(end, datetime) else float(end)


def _draw_score(view: ViewState) -> None:
    """Draw the scores of a search over all episodes, and the least one that is shown."""
    histogram = cached_reads.read_search_scores(view.query).histogram(read_shown_filter(view))
    bars = "".join(_BARS[round(7 * int(count) / max(1, *histogram))] for count in histogram)
    st.caption(f"`{bars}` from 0 to 1: how like the search an episode is")

    def apply() -> None:
        cut = float(st.session_state.get(_SCORE) or 0.0)
        change_view(lambda newest: replace(newest, cut=cut if newest.is_search else None, page=1))

    show_value(_SCORE, round(search_threshold(view), 4))
    st.slider("Least score that is shown", 0.0, 1.0, key=_SCORE, step=0.0001, on_change=apply)


def _draw_others(view: ViewState) -> None:
    """Draw the choice of any other column with its filter, and the field for SQL."""
    columns = [name for name in cached_reads.list_facet_columns() if name not in _USUAL]
    columns.sort(key=lambda name: (column_group(name) == MACHINE_GROUP, column_rank(name)[1:]))
    if st.session_state.get(_OTHER) not in columns:
        st.session_state[_OTHER] = None
    column = st.selectbox(
        "Filter by", columns, index=None, key=_OTHER, format_func=column_choice,
        placeholder="motion, checks, caption ...",
    )  # fmt: skip
    if column:
        try:
            facets = _read_facets(view, [column])
        except AresError:
            facets = cached_reads.read_facets("", column)
        for facet in facets:
            _draw_facet(facet, view)
    show_value(_WHERE, view.where)
    st.text_area(
        "Filter in SQL", key=_WHERE, on_change=guard_field(_WHERE, _apply_where), height=80,
        placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
    )  # fmt: skip
    draw_refusal(_WHERE)


def _apply_where() -> None:
    """Filter by the condition; of one that cannot be read the old one stays."""
    where = entered_text(_WHERE)
    cached_reads.count_episodes(where)
    change_view(lambda newest: replace(newest, where=where, page=1))


def draw_unknown(view: ViewState) -> None:
    """Draw a line for each value of a filter that no episode has."""
    for text in unknown_values(view):
        st.warning(escape_markdown(text), icon=":material/help:")


_MOST_GROUPS = 6


def draw_duplicate_groups(view: ViewState) -> None:
    """Draw a button for each group of near duplicates that the view is filtered by: it opens their pairs."""
    groups = view.filters[DUPLICATE_GROUP].values if DUPLICATE_GROUP in view.filters else ()
    if not groups:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Near duplicates:", width="content")
        for group in groups[:_MOST_GROUPS]:
            st.button(
                escape_markdown(f"Compare pairs of {group}"), key=f"duplicates.{group}", icon=":material/compare:",
                on_click=navigation.open_page, args=("compare", {"group": [str(group)]}),
            )  # fmt: skip
