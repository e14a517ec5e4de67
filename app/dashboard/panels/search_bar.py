"""Row above the episodes: a search by text or image, what it compares, the order, and a filter in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.components.search_input import draw_search_input
from app.dashboard.escape import column_label, escape_markdown
from app.dashboard.limits import IMAGE_TYPES, store_upload
from app.dashboard.results import sort_columns
from app.dashboard.url_params import write_view
from app.dashboard.view_state import ViewState

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

_SOURCE_ORDER = "source order"
_ASCENDING, _DESCENDING = "↑", "↓"
# What a search by text compares, by the rankers that do so.
_WAYS = {"": "All", "captions": "Words", "meaning": "Meaning", "frames": "Looks"}


def draw_search_bar(view: ViewState) -> None:
    """Draw the row; a change of a part of it changes the view in the URL."""

    def apply() -> None:
        sort = str(st.session_state["browse.sort"])
        text = str(st.session_state["browse.text"]).strip()
        searched = view if text == view.text else view.with_query(text=text)
        changed = replace(
            searched,
            where=str(st.session_state["browse.where"]).strip(),
            sort="" if sort == _SOURCE_ORDER else sort,
            descending=st.session_state["browse.direction"] == _DESCENDING,
            page=1,
        )
        write_view(changed)

    def search_image(data: bytes) -> None:
        write_view(view.with_query(image=store_upload(cached_reads.workspace().stores, data)))

    draw_search_input("browse.search_input", search_image)
    columns = sort_columns(cached_reads.filter_columns())
    st.session_state["browse.text"] = view.text
    st.session_state["browse.where"] = view.where
    st.session_state["browse.sort"] = view.sort if view.sort in columns else _SOURCE_ORDER
    st.session_state["browse.direction"] = _DESCENDING if view.descending else _ASCENDING
    # By this key the style of every page lets the row wrap on a phone.
    with st.container(key="browse_bar"):
        text, image, sql, choice = st.columns([7.4, 1.6, 1.4, 4.6], vertical_alignment="bottom")
    text.text_input(
        "Search", key="browse.text", type="search", on_change=apply, label_visibility="collapsed",
        placeholder="Search by meaning and words, such as “open the drawer”", icon=":material/search:",
    )  # fmt: skip
    with image.popover("Image", width="stretch"):
        _draw_image_upload(view)
    if view.text:
        _draw_ways(view, choice)
    else:
        _draw_order(view, columns, choice, apply)
    with sql.popover("SQL", width="stretch", type="primary" if view.where else "secondary"):
        st.text_area(
            "Filter in SQL", key="browse.where", on_change=apply,
            placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
        )  # fmt: skip
        names = sorted(cached_reads.filter_columns())
        st.caption("Columns: " + ", ".join(escape_markdown(name) for name in names))


def _draw_ways(view: ViewState, column: DeltaGenerator) -> None:
    """Draw the choice of what a search by text compares; another one has another default cut."""

    def apply() -> None:
        by = str(st.session_state["browse.by"])
        write_view(view.with_query(text=view.text, like=view.like, image=view.image, by=by))

    ways = _WAYS if view.by in _WAYS else {**_WAYS, view.by: view.by}
    st.session_state["browse.by"] = view.by
    column.selectbox(
        "Compare", list(ways), key="browse.by", on_change=apply, label_visibility="collapsed",
        format_func=lambda by: f"Compare: {ways[by]}",
    )  # fmt: skip


def _draw_order(
    view: ViewState,
    columns: list[str],
    column: DeltaGenerator,
    apply: Callable[[], None],
) -> None:
    row = column.container(horizontal=True, vertical_alignment="bottom")
    row.selectbox(
        "Sort by", [_SOURCE_ORDER, *columns], key="browse.sort", on_change=apply, label_visibility="collapsed",
        format_func=lambda name: f"Sort: {column_label(name)}", disabled=view.is_search,
    )  # fmt: skip
    if view.sort and not view.is_search:
        row.segmented_control(
            "Direction", [_ASCENDING, _DESCENDING], key="browse.direction", on_change=apply, required=True,
            label_visibility="collapsed", width="content",
        )  # fmt: skip


def _draw_image_upload(view: ViewState) -> None:
    def search() -> None:
        file = st.session_state["browse.image"]
        if file is not None:
            image = store_upload(cached_reads.workspace().stores, file.getvalue())
            write_view(view.with_query(image=image))

    label = "Find moments that look like this image"
    st.file_uploader(label, IMAGE_TYPES, key="browse.image", on_change=search)
