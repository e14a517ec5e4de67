"""Map: every episode as a point, near those that look alike; a box around some of them opens them in Browse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.dashboard import handles, pages
from app.dashboard.state import Filter, View, from_params, to_params, where_sql
from app.dashboard.words import label

if TYPE_CHECKING:
    import altair

# More points than this only cover each other; a fair sample of them is drawn.
_MOST = 20_000
_HEIGHT = 640
_COLOURED_BY = ("dataset", "success", "grade", "robot")
_AXES = ("map_x", "map_y")


def render() -> None:
    """Draw the page; the filters of the URL apply."""
    view = from_params({name: st.query_params.get_all(name) for name in st.query_params})
    columns = handles.columns()
    if not all(axis in columns for axis in _AXES):
        st.header("No map yet")
        st.write("It is drawn by a job, from the vectors of the frames:")
        st.code(f"ares annotate map --workspace {handles.workspace().path}", language="bash")
        return
    where = " AND ".join(part for part in (where_sql(view, columns), "map_x IS NOT NULL") if part)
    placed = handles.count(where)
    colour = _colour(columns, placed)
    points = handles.points(where, [*_AXES, colour, "instruction"], _MOST, placed)
    chosen = st.altair_chart(_chart(points, colour), on_select="rerun", key="map.chart")
    _open(view, chosen.selection.get("box", {}) if chosen else {})


def _colour(columns: Mapping[str, str], placed: int) -> str:
    with st.container(horizontal=True, vertical_alignment="center"):
        sampled = f", of which {_MOST:,} are drawn" if placed > _MOST else ""
        st.markdown(f"**{placed:,} episodes on the map**{sampled}", width="content")
        st.caption("Drag a box around points to open them. Near points look alike; the axes mean nothing.")
        st.space("stretch")
        there = [name for name in _COLOURED_BY if name in columns]
        return str(st.selectbox("Colour", there, format_func=label, key="map.colour", width=180))


def _chart(points: Sequence[Mapping[str, Any]], colour: str) -> altair.Chart:
    import altair

    rows = [{**point, colour: _said(point[colour])} for point in points]
    drawn: altair.Chart = (
        altair.Chart(altair.InlineData(values=rows))
        .mark_circle(size=36, opacity=0.7)
        .encode(
            x=altair.X("map_x:Q", axis=None, scale=altair.Scale(zero=False)),
            y=altair.Y("map_y:Q", axis=None, scale=altair.Scale(zero=False)),
            color=altair.Color(f"{colour}:N", title=label(colour), scale=altair.Scale(scheme="tableau10")),
            tooltip=[altair.Tooltip("instruction:N"), altair.Tooltip(f"{colour}:N", title=label(colour))],
        )
        .add_params(altair.selection_interval(name="box"))
        .properties(height=_HEIGHT)
    )
    return drawn


def _said(value: object) -> str:
    return {None: "none", True: "true", False: "false"}.get(value, str(value))  # type: ignore[call-overload,no-any-return]


def _open(view: View, box: Mapping[str, Sequence[float]]) -> None:
    if not all(axis in box for axis in _AXES):
        return
    for axis in _AXES:
        low, high = sorted(box[axis])
        view = view.with_filter(Filter(column=axis, low=float(low), high=float(high)))
    here = handles.count(where_sql(view, handles.columns()))
    if st.button(
        f"Open these {here:,} in Browse", type="primary", icon=":material/grid_view:", key="map.open"
    ):
        pages.go("browse", to_params(replace(view, page=1)))
