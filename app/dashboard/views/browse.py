"""Browse: find episodes by words, meaning and columns, look at them, make a set of them."""

from __future__ import annotations

from dataclasses import asdict, replace

import streamlit as st

from app.dashboard import handles, pages
from app.dashboard.cards import cards, episode_params
from app.dashboard.components.filters import filters
from app.dashboard.components.grid import grid
from app.dashboard.making import make_set
from app.dashboard.results import Results, results, sort_columns
from app.dashboard.state import View, chip, from_params, to_params, where_sql
from app.dashboard.words import label, plain
from ares.episode import Json
from ares.errors import AresError
from ares.search.facets import Facet

# Open at first; the others wait folded under their names.
_OPEN = ("dataset", "success", "grade", "duration_seconds")
# Columns in the order a curator asks for them; the annotators' own come after these.
_FIRST = ("dataset", "grade", "success", "robot", "duration_seconds", "num_steps", "rate_hz", "num_cameras")


def render() -> None:
    """Draw the page of the URL."""
    view = from_params({name: st.query_params.get_all(name) for name in st.query_params})
    if not handles.count(""):
        _empty()
        return
    _bar(view)
    with st.sidebar:
        _filters(view)
    try:
        found = results(view)
    except AresError as error:
        _chips(view)
        pages.say(error)
        return
    _line(view, found)
    _grid(view, found)


def _show(view: View) -> None:
    st.query_params.from_dict(to_params(view))


def _empty() -> None:
    st.header("No episodes yet")
    st.write("Put a dataset into this workspace, then reload the page:")
    st.code(f"ares ingest PATH --workspace {handles.workspace().path}", language="bash")


def _bar(view: View) -> None:
    def settle() -> None:
        chosen = str(st.session_state["browse.sort"])
        changed = replace(
            view,
            text=str(st.session_state["browse.text"]).strip(),
            where=str(st.session_state["browse.where"]).strip(),
            sort="" if chosen == _ORDER else chosen,
            descending=st.session_state["browse.way"] == _DOWN,
            page=1,
        )
        _show(changed if changed.text == view.text else replace(changed, like="", image="", by=""))

    there = sort_columns(handles.columns())
    st.session_state["browse.text"] = view.text
    st.session_state["browse.where"] = view.where
    st.session_state["browse.sort"] = view.sort if view.sort in there else _ORDER
    st.session_state["browse.way"] = _DOWN if view.descending else _UP
    text, sort, way, expert = st.columns([9, 3, 1.6, 1.4], vertical_alignment="bottom")
    text.text_input(
        "Search", key="browse.text", type="search", on_change=settle, label_visibility="collapsed",
        placeholder="Search by meaning and words, such as “open the drawer”", icon=":material/search:",
    )  # fmt: skip
    sort.selectbox(
        "Sort by", [_ORDER, *there], key="browse.sort", on_change=settle, label_visibility="collapsed",
        format_func=lambda name: f"Sort: {label(name)}", disabled=view.ranked,
    )  # fmt: skip
    way.segmented_control(
        "Direction", [_UP, _DOWN], key="browse.way", on_change=settle, required=True,
        label_visibility="collapsed", disabled=view.ranked or not view.sort,
    )  # fmt: skip
    with expert.popover("SQL", width="stretch", type="primary" if view.where else "secondary"):
        st.text_area(
            "Filter in SQL", key="browse.where", on_change=settle,
            placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
        )  # fmt: skip
        st.caption("Columns: " + ", ".join(plain(name) for name in sorted(handles.columns())))


_ORDER = "source order"
_UP, _DOWN = "↑", "↓"


def _filters(view: View) -> None:
    columns = handles.columns()
    try:
        found = {facet.column: facet for facet in handles.facets(where_sql(view, columns))}
        for column in view.filters:
            # The counts beside a column's values are those without its own filter: they say what a click would add.
            (found[column],) = handles.facets(where_sql(view, columns, leave_out=column), column)
    except AresError:
        return  # the main part of the page says what is wrong with the filter
    ordered = sorted(found.values(), key=lambda one: (_place(one.column), one.column))
    shown = [_facet(one, view) for one in ordered if _tells(one)]
    filters(shown, key="browse.filters", changed=lambda one: _show(view.with_filter(one)))


def _place(column: str) -> int:
    return _FIRST.index(column) if column in _FIRST else len(_FIRST)


def _tells(facet: Facet) -> bool:
    # A column that an annotator declares is shown before it has a value; one of the source may never have any.
    return bool(facet.counts or facet.histogram or facet.meaning)


def _facet(facet: Facet, view: View) -> dict[str, Json]:
    chosen = view.filters.get(facet.column)
    counts: list[Json] = [
        [str(value).lower() if facet.type == "bool" else str(value), n] for value, n in facet.counts
    ]
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(facet).items()},
        "counts": counts,
        "label": label(facet.column),
        "open": facet.column in _OPEN,
        "values": list(chosen.values) if chosen else [],
        "low": chosen.low if chosen else None,
        "high": chosen.high if chosen else None,
        "missing_on": chosen.missing if chosen else False,
    }


def _chips(view: View) -> None:
    wanted = [
        (chip(one), replace(one, values=(), low=None, high=None, missing=False))
        for one in view.filters.values()
    ]
    changes = {plain(text): view.with_filter(cleared) for text, cleared in wanted}
    if view.text:
        changes[f"“{plain(view.text)}”"] = replace(view, text="", page=1)
    if view.like:
        changes[f"like {plain(view.like)}{_by(view)}"] = replace(view, like="", by="", page=1)
    if view.image:
        changes[f"like the frame {plain(view.image)}"] = replace(view, image="", by="", page=1)
    if view.where:
        changes[plain(view.where)] = replace(view, where="", page=1)
    for number, (text, without) in enumerate(changes.items()):
        st.button(
            text, key=f"browse.chip.{number}", icon=":material/close:", help="Remove this filter",
            on_click=_show, args=(without,),
        )  # fmt: skip
    if len(changes) > 1:
        st.button("Clear all", key="browse.clear", type="tertiary", on_click=_show, args=(View(),))


def _by(view: View) -> str:
    return f" by {plain(view.by)}" if view.by else ""


def _line(view: View, found: Results) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="browse.line"):
        matching, total = f"{found.matching:,}", f"{found.total:,}"
        best = f"best {found.shown:,} of " if view.ranked and found.shown < found.matching else ""
        st.markdown(f"**{best}{matching} of {total} episodes**", width="content")
        _chips(view)
        st.space("stretch")
        if found.shown:
            make_set(view, found.shown)


def _grid(view: View, found: Results) -> None:
    if not found.ids:
        st.info(
            "No episode fits. Remove a filter, or search for something else.", icon=":material/search_off:"
        )
        return
    episodes = handles.workspace().tables.episodes.get(found.ids)
    params = to_params(view)
    drawn = cards(episodes, handles.rows(found.ids), found.hits, params, found.first)
    opened = grid(drawn, key="browse.grid")
    if opened:
        episode_id, at, second = opened
        pages.go("episode", episode_params(params, episode_id, at, second))
    if found.pages > 1:
        here = min(view.page, found.pages)
        key = f"browse.page.{here}"
        with st.container(horizontal_alignment="center"):
            st.pagination(found.pages, default=here, key=key, on_change=lambda: _turn(view, key))


def _turn(view: View, key: str) -> None:
    _show(replace(view, page=int(st.session_state[key])))
