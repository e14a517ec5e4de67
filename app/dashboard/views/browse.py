"""Page "Browse": find episodes by words, meaning and columns, view them, freeze them as a set."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.browse_panels import (
    draw_facets,
    draw_saved_views,
    draw_search_bar,
    draw_unknown,
    draw_words_filter,
)
from app.dashboard.cards import build_cards, make_episode_page_params
from app.dashboard.components import draw_grid
from app.dashboard.navigation import escape_markdown, read_view, write_view
from app.dashboard.results import ResultPage, check_view, find_lower_threshold, read_page
from app.dashboard.selection_bar import change_ticks, draw_selection_bar, draw_set_form, read_ticked_ids
from app.dashboard.view_state import ViewState, describe_filter, view_to_params
from ares.episode import Json
from ares.errors import AresError

# One key for every page, so that a click is for the same list whatever was drawn meanwhile.
_PAGE_NUMBER = "browse.page"


def render() -> None:
    """Draw the view that the URL describes."""
    view = read_view()
    if not cached_reads.count_episodes(""):
        _draw_empty_workspace()
        return
    draw_search_bar(view)
    with st.container():
        # Here, and not among the filters, the page says that it waits for a model.
        cached_reads.warm_up(**view.query)
    with st.sidebar:
        draw_words_filter(view)
        draw_facets(view)
    try:
        check_view(view, cached_reads.filter_columns())
        page = read_page(view)
    except AresError as error:
        _draw_filter_buttons(view)
        navigation.show_error(error)
        return
    draw_unknown(view)
    if view.page > page.pages:
        last = f"This is the last one, {page.pages:,}."
        st.warning(f"There is no page {view.page:,} of these episodes. {last}", icon=":material/help:")
    # Read before the count is drawn, which would stand above the cards of the page before.
    cards = _read_cards(view, page)
    _draw_result_line(view, page)
    draw_selection_bar(view, page.shown)
    _draw_results(view, page, cards)


def _draw_empty_workspace() -> None:
    st.header("No episodes yet")
    st.write("Put a dataset into this workspace, then reload the page:")
    st.code(f"ares ingest PATH --workspace {cached_reads.workspace().path}", language=None)


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
    cut = {} if view.cut is None else {f"score from {view.cut:.2f}": replace(view, cut=None, page=1)}
    views = {
        escape_markdown(describe_filter(column_filter)): view.with_filter(
            replace(column_filter, values=(), low=None, high=None, missing=False)
        )
        for column_filter in view.filters.values()
    }
    if view.text:
        views[f"“{escape_markdown(view.text)}”"] = view.with_query(
            like=view.like, image=view.image, by=view.by
        )
    if view.like:
        by = f" by {escape_markdown(view.by)}" if view.by else ""
        views[f"like {escape_markdown(view.like)}{by}"] = view.with_query(text=view.text, image=view.image)
    if view.image:
        image = "uploaded image" if view.image.startswith("upload:") else f"frame {view.image}"
        views[f"like the {escape_markdown(image)}"] = view.with_query(text=view.text, like=view.like)
    if view.words:
        views[f"words: {escape_markdown(view.words)}"] = replace(view, words="", page=1)
    if view.where:
        views[escape_markdown(view.where)] = replace(view, where="", page=1)
    return views | cut if view.is_search else views


def _draw_result_line(view: ViewState, page: ResultPage) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="browse.line"):
        matching, total = f"{page.matching:,}", f"{page.total:,}"
        text = (
            f"**{page.shown:,} of {total} episodes**"
            if view.is_search
            else f"**{matching} of {total} episodes**"
        )
        st.markdown(text, width="content")
        if view.is_search:
            st.caption(f"score from {page.cut:.2f}", width="content")
        _draw_filter_buttons(view)
        st.space("stretch")
        draw_saved_views(view)
        if page.shown:
            draw_set_form(view, page.shown)


def _read_cards(view: ViewState, page: ResultPage) -> list[Json]:
    episodes, captions = cached_reads.read_episodes(page.ids), cached_reads.read_captions(page.ids)
    return build_cards(episodes, captions, page.hits, view_to_params(view), page.first, view.is_search)


def _draw_results(view: ViewState, page: ResultPage, cards: list[Json]) -> None:
    if not page.ids:
        text = "No episode fits. Remove a filter, or search for something else."
        st.info(text, icon=":material/search_off:")
        _draw_more_button(view, page)
        return
    params = view_to_params(view)
    draw_grid(
        cards,
        "browse.grid",
        lambda *card: navigation.open_page("episode", make_episode_page_params(params, *card)),
        ticked=read_ticked_ids() & set(page.ids),
        on_tick=change_ticks,
    )
    if page.pages > 1:
        st.session_state[_PAGE_NUMBER] = min(view.page, page.pages)
        with st.container(horizontal_alignment="center"):
            st.pagination(page.pages, key=_PAGE_NUMBER, on_change=_turn_page, args=(view,))
    if view.page >= page.pages:
        _draw_more_button(view, page)


def _draw_more_button(view: ViewState, page: ResultPage) -> None:
    """Draw the button that lowers the cut of a search, after its last episode."""
    if not view.is_search or page.shown >= page.matching:
        return
    st.button(
        "Show less relevant ones", key="browse.more", icon=":material/expand_more:",
        help="Lowers the least score", on_click=lambda: write_view(replace(view, cut=find_lower_threshold(view))),
    )  # fmt: skip


def _turn_page(view: ViewState) -> None:
    write_view(replace(view, page=int(st.session_state.get(_PAGE_NUMBER, view.page))))
