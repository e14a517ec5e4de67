"""Page "Map": every episode as a point, near those that look alike; a region of it is named and opened in Browse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from ares.console import count_of
from ares.episode import Json
from ares.imports import install_command
from ares.search import list_embedding_spaces
from ares.store import TAGS, parse_polygon
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import change_view, read_parameter, read_view, settle_address, write_parameter
from ares_app.dashboard.browse_panels import draw_unknown
from ares_app.dashboard.column_words import column_choice, column_rank, format_column_label
from ares_app.dashboard.components import load_component, when_sent
from ares_app.dashboard.fields import entered_text, show_value
from ares_app.dashboard.job_panels import draw_command
from ares_app.dashboard.map_points import (
    AXES,
    MISSING,
    OTHER,
    MapColours,
    format_corners,
    parse_view,
    read_ticked_positions,
)
from ares_app.dashboard.results import check_view
from ares_app.dashboard.selection_bar import draw_selection_bar, read_ticked_ids
from ares_app.dashboard.view_state import (
    ColumnFilter,
    ViewState,
    browse_address,
    check_column,
    view_filter_sql,
    view_to_params,
)

_COLOUR = "map.colour"
# Session key of the part of the map that the browser shows, and what that part is of.
_SHOWN = "map.shown"
# So many ticked episodes have a ring.
_MOST_TICKED = 2_000
_COLOURED_KINDS = ("string", "bool", "int64", "float64", "timestamp", "list<string>")


def render() -> None:
    """Draw the map of the episodes that match the filters of the URL."""
    view = replace(read_view(), copies=True)
    columns = cached_reads.filter_columns()
    check_view(view, columns)
    draw_unknown(view)
    if not all(axis in columns for axis in AXES):
        _draw_no_map()
        return
    colour = _draw_headline(view, columns)
    _draw_points(view, columns, colour)
    if view.region:
        _draw_region(view, columns)


def _draw_no_map() -> None:
    """Draw what makes a map, with all that it needs."""
    workspace = cached_reads.workspace()
    has_vectors = bool(cached_reads.limited(lambda: list_embedding_spaces(workspace.stores)))
    names = ["map"] if has_vectors else ["embed", "map"]
    st.header("No map yet")
    st.write("A job draws it from the vectors of the frames; all pages stay usable meanwhile.")
    navigation.draw_job_button("Draw the map", "annotate", names)
    draw_command(["annotate", *names])
    command = install_command("ares-curation[map]")
    st.caption(f"It is made by UMAP where that is installed (`{command}`), else by PCA.")


def _without_region(view: ViewState) -> ViewState:
    """The view whose episodes are points: a region is drawn over them, and leaves none out."""
    return replace(view, region="")


def _map_where(view: ViewState, columns: Mapping[str, str]) -> str:
    where = view_filter_sql(_without_region(view), columns)
    return " AND ".join(part for part in (where, "map_x IS NOT NULL") if part)


def _draw_headline(view: ViewState, columns: Mapping[str, str]) -> str:
    """Draw the number of episodes and a list of columns; returns the column to colour by."""
    total = cached_reads.count_episodes(_map_where(view, columns))
    usual = ("dataset", cached_reads.outcome_column(), "grade", "robot", TAGS, "instruction")
    first = [name for name in usual if name in columns]
    coloured = [name for name, kind in columns.items() if kind in _COLOURED_KINDS and name != "episode_id"]
    options = [*first, *sorted(set(coloured) - {*first, *AXES}, key=column_rank)]
    named = read_parameter("colour") or first[0]
    check_column("colour", named, options, " to colour by")
    show_value(_COLOUR, named)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{count_of(total, 'episode', comma=True)} on the map**", width="content")
        if view.is_search:
            st.caption("The map shows all that the filters select; a search narrows only Browse.")
        st.caption(
            "Draw a lasso around points to select them. Near points look alike; the axes mean nothing."
        )
        st.space("stretch")
        st.selectbox(
            "Colour", options, format_func=column_choice, key=_COLOUR, width=220,
            on_change=_put_colour_in_url,
        )  # fmt: skip
    return named


def _put_colour_in_url() -> None:
    write_parameter("colour", entered_text(_COLOUR))


def _draw_points(view: ViewState, columns: Mapping[str, str], colour: str) -> None:
    where, on_map = _map_where(view, columns), f"{AXES[0]} IS NOT NULL"
    points, colours = cached_reads.read_map_points(where), cached_reads.read_map_colours(where, colour)
    everything = cached_reads.read_map_points(on_map)
    shown = st.session_state.get(_SHOWN) or everything.extent
    ticked = sorted(read_ticked_ids())[:_MOST_TICKED]
    table = cached_reads.workspace().stores.tables.episodes
    data: dict[str, Json] = {
        "extent": list[Json](everything.extent),
        "tile": cached_reads.read_map_tile(where, colour, shown),
        "rest": None,
        "legend": _make_legend(_without_region(view), columns, colour, colours),
        "region": [{"x": x, "y": y} for x, y in parse_polygon(view.region)] if view.region else [],
        "ticked": cached_reads.limited(lambda: read_ticked_positions(table, ticked)),
    }
    if len(points.x) < len(everything.x):
        data["rest"] = cached_reads.read_map_tile(on_map, colour, shown)
    # One key for every part, so that the browser moves it and asks for points.
    react = partial(when_sent, "map.points")
    load_component("map")(
        data=data, key="map.points", on_view_change=react("view", _remember_view),
        on_region_change=react("region", _choose_region),
        on_opened_change=react(
            "opened", lambda id: navigation.open_page("episode", {**view_to_params(view), "episode": [id]})
        ),
    )  # fmt: skip


def _remember_view(sides: Any) -> None:
    settle_address()
    st.session_state[_SHOWN] = parse_view(sides)


def _choose_region(corners: Any) -> None:
    region = format_corners(corners)
    if region:
        change_view(lambda newest: replace(newest, region=region, page=1))


def _make_legend(
    view: ViewState, columns: Mapping[str, str], colour: str, colours: MapColours
) -> dict[str, Json]:
    """What the colours mean; the name of a value opens its episodes in Browse."""

    def link(value: str) -> str:
        return browse_address(view.with_filter(ColumnFilter(column=colour, values=(value,))))

    values: list[Json] = [
        {"label": value, "count": count, "href": link(value)} for value, count in colours.values
    ]
    ends = [None if end is None else _format_end(end, columns[colour]) for end in (colours.low, colours.high)]
    return {
        "name": format_column_label(colour),
        "values": values,
        "hasOthers": colours.low is None and bool((colours.codes == OTHER).any()),
        "hasMissing": bool((colours.codes == MISSING).any()),
        "low": ends[0],
        "high": ends[1],
    }


def _format_end(end: float, kind: str) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(end, UTC):%Y-%m-%d}" if kind == "timestamp" else f"{end:.4g}"


def _draw_region(view: ViewState, columns: Mapping[str, str]) -> None:
    """Draw what can be done with the episodes of the region."""
    count = cached_reads.count_episodes(view_filter_sql(view, columns))
    with st.container(horizontal=True, vertical_alignment="bottom", key="map.region"):
        st.button(
            f"Open these {count:,} in Browse", type="primary", icon=":material/grid_view:", key="map.open",
            on_click=navigation.open_page, args=("browse", view_to_params(replace(view, page=1))),
        )  # fmt: skip
        st.button("Remove the region", key="map.remove", on_click=change_view, args=(_without_region,))
    draw_selection_bar(view, count)
