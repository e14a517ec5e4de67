"""The row above the results of Browse: what is searched for, by what it is compared, and the order."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import change_view
from app.dashboard.column_words import WORST_ORDERS, column_choice
from app.dashboard.components import draw_search_input
from app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.results import list_sort_columns
from app.dashboard.user_limits import IMAGE_TYPES, store_uploaded_image
from app.dashboard.view_state import ViewState
from ares.workspace import find_names

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator


# Six digits of an id, one of them no letter: no word of a caption.
_SURE_ID = re.compile(r"(?=[a-f]*\d)[0-9a-f]{6,16}")


_SOURCE_ORDER = "source order"
# Beginning of the choices of the list of orders that are no column: `WORST_ORDERS`.
_WORST = "worst first: "
_ASCENDING, _DESCENDING = "↑", "↓"
_DIRECTIONS = {False: _ASCENDING, True: _DESCENDING}
# What a search by text compares, by the rankers that do so.
_WAYS = {"": "All", "captions": "Words", "meaning": "Meaning", "frames": "Looks"}


def draw_search_bar(view: ViewState) -> None:
    """Draw the row; a change of a part of it changes the view in the URL."""

    draw_search_input("browse.search_input", guard_field("browse.image", _search_for_image))
    columns = list_sort_columns(cached_reads.filter_columns())
    worst = WORST_ORDERS.get(view.sort)
    order = f"{_WORST}{view.sort}" if worst and worst.descending == view.descending else view.sort
    show_value("browse.text", view.text)
    show_value("browse.where", view.where)
    show_value("browse.sort", order if view.sort in columns else _SOURCE_ORDER)
    show_value("browse.direction", _DIRECTIONS[view.descending])
    # By this key the style of every page lets the row wrap on a phone.
    with st.container(key="browse_bar"):
        text, image, sql, choice = st.columns([6.4, 1.5, 1.3, 5.8], vertical_alignment="bottom")
    text.text_input(
        "Search", key="browse.text", type="search", on_change=guard_field("browse.text", _apply_text),
        placeholder="Search by meaning and words, such as “open the drawer”", icon=":material/search:",
        label_visibility="collapsed",
    )  # fmt: skip
    with image.popover("Image", width="stretch"):
        st.file_uploader(
            "Find moments that look like this image", IMAGE_TYPES, key="browse.image",
            on_change=guard_field("browse.image", _apply_image),
        )  # fmt: skip
    if view.text:
        _draw_ways(view, choice)
    else:
        _draw_order(view, columns, choice)
    with sql.popover("SQL", width="stretch", type="primary" if view.where else "secondary"):
        st.text_area(
            "Filter in SQL", key="browse.where", on_change=guard_field("browse.where", _apply_where),
            placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
        )  # fmt: skip
        names = sorted(cached_reads.filter_columns())
        st.caption("Columns: " + ", ".join(escape_markdown(name) for name in names))
    # Below the row: the fields of an image and of SQL are closed by a click beside them.
    draw_refusal("browse.text", "browse.image", "browse.where")


def _apply_image() -> None:
    file = st.session_state.get("browse.image")
    if file is not None:
        _search_for_image(file.getvalue())


def _search_for_image(data: bytes) -> None:
    image = store_uploaded_image(cached_reads.workspace().stores, data)
    change_view(lambda newest: newest.with_query(image=image))


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
        return replace(newest if text == newest.text else newest.with_query(text=text), page=1)

    change_view(search)


def _apply_where() -> None:
    """Filter by the condition; of one that cannot be read the old one stays."""
    where = entered_text("browse.where")
    cached_reads.count_episodes(where)
    change_view(lambda newest: replace(newest, where=where, page=1))


def _apply_order() -> None:
    """Order by the column that was selected, from its lowest value; what is worst first says which end is worst."""
    sort = entered_text("browse.sort", _SOURCE_ORDER)
    column = "" if sort == _SOURCE_ORDER else sort.removeprefix(_WORST)
    is_down = sort.startswith(_WORST) and WORST_ORDERS[column].descending
    change_view(lambda newest: replace(newest, sort=column, descending=is_down, page=1))


def _apply_direction() -> None:
    descending = entered_text("browse.direction", _ASCENDING) == _DESCENDING
    change_view(lambda newest: replace(newest, descending=descending, page=1))


def _draw_ways(view: ViewState, column: DeltaGenerator) -> None:
    """Draw the choice of what a search by text compares; another one has another default cut."""

    def apply() -> None:
        by = entered_text("browse.by", view.by)
        change_view(lambda newest: newest.with_query(**{**newest.query, "by": by}))

    ways = _WAYS if view.by in _WAYS else {**_WAYS, view.by: view.by}
    show_value("browse.by", view.by)
    column.selectbox(
        "Compare", list(ways), key="browse.by", on_change=apply, label_visibility="collapsed",
        format_func=lambda by: f"Compare: {ways[by]}",
    )  # fmt: skip


def _draw_order(
    view: ViewState,
    columns: list[str],
    column: DeltaGenerator,
) -> None:
    row = column.container(horizontal=True, vertical_alignment="bottom")
    worst = {f"{_WORST}{name}": order.label for name, order in WORST_ORDERS.items() if name in columns}
    labels = {
        _SOURCE_ORDER: f"Sort: {_SOURCE_ORDER}",
        **{name: f"Worst first: {label}" for name, label in worst.items()},
        **{name: f"Sort: {column_choice(name)}" for name in columns},
    }
    row.selectbox(
        "Sort by", list(labels), key="browse.sort", on_change=_apply_order, format_func=labels.__getitem__,
        disabled=view.is_search, label_visibility="collapsed",
    )  # fmt: skip
    if view.sort and not view.is_search:
        row.segmented_control(
            "Direction", [_ASCENDING, _DESCENDING], key="browse.direction", on_change=_apply_direction, required=True,
            label_visibility="collapsed", width="content",
        )  # fmt: skip
