"""Page "Map": every episode as a point, near those that look alike; a selected box opens them in Browse."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.browse_panels import draw_unknown
from app.dashboard.navigation import format_column_label, read_view
from app.dashboard.results import check_view
from app.dashboard.selection_bar import draw_selection_bar
from app.dashboard.view_state import ColumnFilter, ViewState, view_filter_sql, view_to_params
from ares.console import count_of
from ares.search import list_embedding_spaces

if TYPE_CHECKING:
    import altair


# More points than this only cover each other; a random sample of them is drawn.
_MAX_POINTS = 20_000
_HEIGHT = 640
_COLOUR_COLUMNS = ("dataset", "success", "grade", "robot")
_AXES = ("map_x", "map_y")


def render() -> None:
    """Draw the map of the episodes that match the filters of the URL."""
    view = read_view()
    columns = cached_reads.filter_columns()
    check_view(view, columns)
    draw_unknown(view)
    if not all(axis in columns for axis in _AXES):
        _draw_no_map()
        return
    where = " AND ".join(part for part in (view_filter_sql(view, columns), "map_x IS NOT NULL") if part)
    total = cached_reads.count_episodes(where)
    colour = _draw_headline(view, columns, total)
    points = cached_reads.read_columns_for_plot(where, [*_AXES, colour, "instruction"], _MAX_POINTS, total)
    event = st.altair_chart(_map_chart(points, colour), on_select="rerun", key="map.chart")
    _draw_box(view, event.selection.get("box", {}) if event else {})


def _draw_no_map() -> None:
    """Draw the command that makes a map, with all that it needs."""
    workspace = cached_reads.workspace()
    has_vectors = bool(cached_reads.limited(lambda: list_embedding_spaces(workspace.stores)))
    names = ["map"] if has_vectors else ["embed", "map"]
    st.header("No map yet")
    st.write("It is drawn by a job, from the vectors of the frames:")
    st.code(shlex.join(["ares", "annotate", *names, "--workspace", workspace.path]), language=None)
    st.caption(
        "It is made by UMAP where that is installed (`pip install 'ares-curation[map]'`), else by PCA."
    )


def _method_text() -> str:
    """How the map was made, by the makers of its places; "" where nothing says so."""
    makers = cached_reads.limited(lambda: cached_reads.workspace().stores.annotations.makers())
    methods = {
        "PCA" if maker.settings.get("projection") == "pca" else "UMAP"
        for maker in makers.values()
        if maker.annotator == "map"
    }
    return f" Made by {' and '.join(sorted(methods))}." if methods else ""


def _draw_headline(view: ViewState, columns: Mapping[str, str], total: int) -> str:
    """Draw the number of episodes and a list of columns; returns the column to colour by."""
    with st.container(horizontal=True, vertical_alignment="center"):
        sampled = f", of which {_MAX_POINTS:,} are drawn" if total > _MAX_POINTS else ""
        st.markdown(f"**{count_of(total, 'episode', comma=True)} on the map**{sampled}", width="content")
        if view.is_search:
            st.caption("The map shows all that the filters select; a search narrows only Browse.")
        text = "Drag a box around points to open them. Near points look alike; the axes mean nothing."
        st.caption(text + _method_text())
        st.space("stretch")
        options = [name for name in _COLOUR_COLUMNS if name in columns]
        return str(
            st.selectbox("Colour", options, format_func=format_column_label, key="map.colour", width=180)
        )


def _map_chart(points: Sequence[Mapping[str, Any]], colour: str) -> altair.Chart:
    import altair

    rows = [{**point, colour: _colour_label(point[colour])} for point in points]
    title = format_column_label(colour)
    chart: altair.Chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_circle(size=36, opacity=0.7)
        .encode(
            x=altair.X("map_x:Q", axis=None, scale=altair.Scale(zero=False)),
            y=altair.Y("map_y:Q", axis=None, scale=altair.Scale(zero=False)),
            color=altair.Color(f"{colour}:N", title=title, scale=altair.Scale(scheme="tableau10")),
            tooltip=[altair.Tooltip("instruction:N"), altair.Tooltip(f"{colour}:N", title=title)],
        )
        .add_params(altair.selection_interval(name="box"))
        .properties(height=_HEIGHT)
    )
    return chart


def _colour_label(value: object) -> str:
    return {None: "none", True: "true", False: "false"}.get(value, str(value))  # type: ignore[call-overload,no-any-return]


def _draw_box(view: ViewState, box: Mapping[str, Sequence[float]]) -> None:
    """Draw what can be done with the episodes in a box: open them in Browse, tag, note or exclude them."""
    if not all(axis in box for axis in _AXES):
        return
    for axis in _AXES:
        low, high = sorted(box[axis])
        view = view.with_filter(ColumnFilter(column=axis, low=float(low), high=float(high)))
    count = cached_reads.count_episodes(view_filter_sql(view, cached_reads.filter_columns()))
    st.button(
        f"Open these {count:,} in Browse", type="primary", icon=":material/grid_view:", key="map.open",
        on_click=navigation.open_page, args=("browse", view_to_params(replace(view, page=1))),
    )  # fmt: skip
    draw_selection_bar(view, count)
