"""The row above the results of Browse: what is searched for, by what it is compared, and the order."""

from __future__ import annotations

import re
from dataclasses import replace

import streamlit as st

from ares.workspace import find_names
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import change_view
from ares_app.dashboard.column_words import column_choice, column_rank
from ares_app.dashboard.components import load_component
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from ares_app.dashboard.results import list_sort_columns, list_table_columns
from ares_app.dashboard.view_state import SHOWN_AS, ViewState

# Six digits of an id, one of them no letter: no word of a caption.
_SURE_ID = re.compile(r"(?=[a-f]*\d)[0-9a-f]{6,16}")
# Words that the instruction or the caption must have.
_QUOTED = re.compile(r'"([^"]+)"')

_SOURCE_ORDER = "source order"
_ASCENDING, _DESCENDING = "↑", "↓"
_DIRECTIONS = {False: _ASCENDING, True: _DESCENDING}
# What a search by text compares, by the rankers that do so.
_WAYS = {"": "All", "captions": "Words", "meaning": "Meaning", "frames": "Looks"}


def draw_search_bar(view: ViewState) -> None:
    """Draw the row; a change of a part of it changes the view in the URL."""
    load_component("search_input")(data={}, key="browse.search_input")
    show_value("browse.text", view.text or (f'"{view.words}"' if view.words else ""))
    with st.container(horizontal=True, vertical_alignment="center", key="browse.search", gap="small"):
        st.text_input(
            "Search", key="browse.text", type="search", on_change=guard_field("browse.text", _apply_text),
            placeholder='Search by meaning, or for "these words" in quotes', icon=":material/search:",
            label_visibility="collapsed",
        )  # fmt: skip
        if view.text:
            _draw_ways(view)
        else:
            _draw_order(view, list_sort_columns(cached_reads.filter_columns()))
        _draw_layout_choice(view)
    draw_refusal("browse.text")


_SHOW, _COLUMNS = "browse.show", "browse.columns"


def _draw_layout_choice(view: ViewState) -> None:
    """Draw the switch between cards and a table, and the choice of the columns of the table."""

    def show() -> None:
        shown = entered_text(_SHOW, view.show)
        change_view(lambda newest: replace(newest, show=shown))

    def choose() -> None:
        names = tuple(str(name) for name in st.session_state.get(_COLUMNS) or ())
        change_view(lambda newest: replace(newest, columns=names))

    show_value(_SHOW, view.show)
    st.segmented_control(
        "Show as", list(SHOWN_AS), key=_SHOW, format_func=SHOWN_AS.__getitem__, on_change=show, required=True,
        label_visibility="collapsed", width="content",
    )  # fmt: skip
    if view.show == "table":
        with st.popover("Columns", icon=":material/view_column:"):
            show_value(_COLUMNS, list_table_columns(view))
            columns = sorted(cached_reads.filter_columns(), key=column_rank)
            st.multiselect("Columns", columns, key=_COLUMNS, format_func=column_choice, on_change=choose)


def _apply_text() -> None:
    """Search for the text; the id of an episode, or the beginning of one id alone, opens the episode."""
    typed = entered_text("browse.text").lower()
    if _SURE_ID.fullmatch(typed):
        hits = cached_reads.limited(lambda: find_names(cached_reads.workspace().stores, typed, limit=2))
        if [hit.why for hit in hits] == ["id"]:
            navigation.open_page("episode", {"episode": [hits[0].name]})
            return

    def search(newest: ViewState) -> ViewState:
        text = entered_text("browse.text", newest.text)
        if quoted := _QUOTED.fullmatch(text):
            return replace(newest.with_query(), words=" ".join(quoted[1].split()), page=1)
        searched = newest if text == newest.text else newest.with_query(text=text)
        return replace(searched, words=newest.words if text else "", page=1)

    change_view(search)


def _apply_order() -> None:
    """Order by the column that was selected, from its lowest value."""
    sort = entered_text("browse.sort", _SOURCE_ORDER)
    column = "" if sort == _SOURCE_ORDER else sort
    change_view(lambda newest: replace(newest, sort=column, descending=False, page=1))


def _apply_direction() -> None:
    descending = entered_text("browse.direction", _ASCENDING) == _DESCENDING
    change_view(lambda newest: replace(newest, descending=descending, page=1))


def _draw_ways(view: ViewState) -> None:
    """Draw the choice of what a search by text compares; another one has another default cut."""

    def apply() -> None:
        by = entered_text("browse.by", view.by)
        change_view(lambda newest: newest.with_query(**{**newest.query, "by": by}))

    ways = _WAYS if view.by in _WAYS else {**_WAYS, view.by: view.by}
    show_value("browse.by", view.by)
    st.selectbox(
        "Compare", list(ways), key="browse.by", on_change=apply, label_visibility="collapsed", width=260,
        format_func=lambda by: f"Compare: {ways[by]}",
    )  # fmt: skip


def _draw_order(view: ViewState, columns: list[str]) -> None:
    labels = {
        _SOURCE_ORDER: f"Sort: {_SOURCE_ORDER}",
        **{name: f"Sort: {column_choice(name)}" for name in columns},
    }
    show_value("browse.sort", view.sort if view.sort in columns else _SOURCE_ORDER)
    show_value("browse.direction", _DIRECTIONS[view.descending])
    st.selectbox(
        "Sort by", list(labels), key="browse.sort", on_change=_apply_order, format_func=labels.__getitem__,
        disabled=view.is_search, label_visibility="collapsed", width=260,
    )  # fmt: skip
    if view.sort and not view.is_search:
        st.segmented_control(
            "Direction", [_ASCENDING, _DESCENDING], key="browse.direction", on_change=_apply_direction, required=True,
            label_visibility="collapsed", width="content",
        )  # fmt: skip
