"""Page "Browse": find episodes by words, meaning and columns, view them, freeze them as a set."""

from __future__ import annotations

from dataclasses import asdict, replace

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.cards import build_cards, episode_params
from app.dashboard.components.filters import draw_filters
from app.dashboard.components.grid import draw_grid
from app.dashboard.escape import column_label, escape_markdown
from app.dashboard.limits import IMAGE_TYPES, store_upload
from app.dashboard.results import ResultPage, read_page, sort_columns
from app.dashboard.set_form import draw_set_form
from app.dashboard.url_params import read_view, write_view
from app.dashboard.view_state import ViewState, filter_label, view_to_params, where_sql
from ares.episode import Json
from ares.errors import AresError, QueryTimeout
from ares.search.facets import Facet

# Facets that are open at first; of the others only the name is shown.
_OPEN_FACETS = ("dataset", "success", "grade", "duration_seconds")
# Facets that come first; those of annotators follow.
_FIRST_FACETS = (
    "dataset",
    "grade",
    "grade_trust",
    "success",
    "robot",
    "duration_seconds",
    "num_steps",
    "rate_hz",
    "num_cameras",
)
_SOURCE_ORDER = "source order"
_ASCENDING, _DESCENDING = "↑", "↓"


def render() -> None:
    """Draw the view that the URL describes."""
    view = read_view()
    if not cached_reads.count_episodes(""):
        _draw_empty_workspace()
        return
    _draw_search_bar(view)
    with st.sidebar:
        _draw_facets(view)
    try:
        page = read_page(view)
    except AresError as error:
        _draw_filter_buttons(view)
        pages.show_error(error)
        return
    _draw_result_line(view, page)
    _draw_results(view, page)


def _draw_empty_workspace() -> None:
    st.header("No episodes yet")
    st.write("Put a dataset into this workspace, then reload the page:")
    st.code(f"ares ingest PATH --workspace {cached_reads.workspace().path}", language=None)


def _draw_search_bar(view: ViewState) -> None:
    def apply() -> None:
        sort = str(st.session_state["browse.sort"])
        changed = replace(
            view,
            text=str(st.session_state["browse.text"]).strip(),
            where=str(st.session_state["browse.where"]).strip(),
            sort="" if sort == _SOURCE_ORDER else sort,
            descending=st.session_state["browse.direction"] == _DESCENDING,
            page=1,
        )
        write_view(changed if changed.text == view.text else replace(changed, like="", image="", by=""))

    columns = sort_columns(cached_reads.filter_columns())
    st.session_state["browse.text"] = view.text
    st.session_state["browse.where"] = view.where
    st.session_state["browse.sort"] = view.sort if view.sort in columns else _SOURCE_ORDER
    st.session_state["browse.direction"] = _DESCENDING if view.descending else _ASCENDING
    text, image, sort, direction, sql = st.columns([7.4, 1.6, 3, 1.6, 1.4], vertical_alignment="bottom")
    text.text_input(
        "Search", key="browse.text", type="search", on_change=apply, label_visibility="collapsed",
        placeholder="Search by meaning and words, such as “open the drawer”", icon=":material/search:",
    )  # fmt: skip
    with image.popover("Image", width="stretch"):
        _draw_image_upload(view)
    sort.selectbox(
        "Sort by", [_SOURCE_ORDER, *columns], key="browse.sort", on_change=apply, label_visibility="collapsed",
        format_func=lambda name: f"Sort: {column_label(name)}", disabled=view.is_search,
    )  # fmt: skip
    direction.segmented_control(
        "Direction", [_ASCENDING, _DESCENDING], key="browse.direction", on_change=apply, required=True,
        label_visibility="collapsed", disabled=view.is_search or not view.sort,
    )  # fmt: skip
    with sql.popover("SQL", width="stretch", type="primary" if view.where else "secondary"):
        st.text_area(
            "Filter in SQL", key="browse.where", on_change=apply,
            placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
        )  # fmt: skip
        names = sorted(cached_reads.filter_columns())
        st.caption("Columns: " + ", ".join(escape_markdown(name) for name in names))


def _draw_image_upload(view: ViewState) -> None:
    def search() -> None:
        file = st.session_state["browse.image"]
        if file is not None:
            image = store_upload(cached_reads.workspace().stores, file.getvalue())
            write_view(replace(view, text="", like="", image=image, by="", page=1))

    label = "Find moments that look like this image"
    st.file_uploader(label, IMAGE_TYPES, key="browse.image", on_change=search)


def _draw_facets(view: ViewState) -> None:
    columns = cached_reads.filter_columns()
    try:
        facets = {facet.column: facet for facet in cached_reads.read_facets(where_sql(view, columns))}
        for column in view.filters:
            # Counts beside a column's values ignore its own filter: they are what a click would add.
            without_own = where_sql(view, columns, leave_out=column)
            (facets[column],) = cached_reads.read_facets(without_own, column)
    except QueryTimeout as error:
        st.caption(f"No counts: {escape_markdown(error)}")
        return
    except AresError:
        return  # the main part of the page reports what is wrong with the filter
    ordered = sorted(facets.values(), key=lambda facet: (_facet_rank(facet.column), facet.column))
    shown = [_facet_data(facet, view) for facet in ordered if _is_informative(facet)]
    draw_filters(shown, key="browse.filters", on_change=lambda new: write_view(view.with_filter(new)))


def _facet_rank(column: str) -> int:
    return _FIRST_FACETS.index(column) if column in _FIRST_FACETS else len(_FIRST_FACETS)


def _is_informative(facet: Facet) -> bool:
    # A column that an annotator declares is shown before it has a value; one of the source may never have any.
    return bool(facet.counts or facet.histogram or facet.meaning)


def _facet_data(facet: Facet, view: ViewState) -> dict[str, Json]:
    column_filter = view.filters.get(facet.column)
    counts: list[Json] = [
        [str(value).lower() if facet.type == "bool" else str(value), n] for value, n in facet.counts
    ]
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(facet).items()},
        "counts": counts,
        "label": column_label(facet.column),
        "open": facet.column in _OPEN_FACETS,
        "values": list(column_filter.values) if column_filter else [],
        "low": column_filter.low if column_filter else None,
        "high": column_filter.high if column_filter else None,
        "missing_on": column_filter.missing if column_filter else False,
    }


def _draw_filter_buttons(view: ViewState) -> None:
    """Draw a button for each part of the view; a click removes it."""
    views = _views_without_a_part(view)
    for number, (text, without) in enumerate(views.items()):
        st.button(
            text, key=f"browse.chip.{number}", icon=":material/close:", help="Remove this filter",
            on_click=write_view, args=(without,),
        )  # fmt: skip
    if len(views) > 1:
        st.button("Clear all", key="browse.clear", type="tertiary", on_click=write_view, args=(ViewState(),))


def _views_without_a_part(view: ViewState) -> dict[str, ViewState]:
    """Label of each part of the view, and the view without that part."""
    views = {
        escape_markdown(filter_label(column_filter)): view.with_filter(
            replace(column_filter, values=(), low=None, high=None, missing=False)
        )
        for column_filter in view.filters.values()
    }
    if view.text:
        views[f"“{escape_markdown(view.text)}”"] = replace(view, text="", page=1)
    if view.like:
        by = f" by {escape_markdown(view.by)}" if view.by else ""
        views[f"like {escape_markdown(view.like)}{by}"] = replace(view, like="", by="", page=1)
    if view.image:
        image = "uploaded image" if view.image.startswith("upload:") else f"frame {view.image}"
        views[f"like the {escape_markdown(image)}"] = replace(view, image="", by="", page=1)
    if view.where:
        views[escape_markdown(view.where)] = replace(view, where="", page=1)
    return views


def _draw_result_line(view: ViewState, page: ResultPage) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="browse.line"):
        matching, total = f"{page.matching:,}", f"{page.total:,}"
        best = f"best {page.shown:,} of " if view.is_search and page.shown < page.matching else ""
        st.markdown(f"**{best}{matching} of {total} episodes**", width="content")
        _draw_filter_buttons(view)
        st.space("stretch")
        if page.shown:
            draw_set_form(view, page.shown)


def _draw_results(view: ViewState, page: ResultPage) -> None:
    if not page.ids:
        st.info(
            "No episode fits. Remove a filter, or search for something else.", icon=":material/search_off:"
        )
        return
    episodes = cached_reads.read_episodes(page.ids)
    params = view_to_params(view)
    cards = build_cards(episodes, cached_reads.read_captions(page.ids), page.hits, params, page.first)
    draw_grid(cards, "browse.grid", lambda *card: pages.open_page("episode", episode_params(params, *card)))
    if page.pages > 1:
        current = min(view.page, page.pages)
        key = f"browse.page.{current}"
        with st.container(horizontal_alignment="center"):
            st.pagination(page.pages, default=current, key=key, on_change=lambda: _turn_page(view, key))


def _turn_page(view: ViewState, key: str) -> None:
    write_view(replace(view, page=int(st.session_state[key])))
