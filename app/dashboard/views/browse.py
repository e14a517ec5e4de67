"""Page "Browse": find episodes by words, meaning and columns, view them, freeze them as a set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import change_view, read_view
from app.dashboard.browse_panels import (
    draw_duplicate_groups,
    draw_facets,
    draw_layout_choice,
    draw_saved_views,
    draw_unknown,
    draw_words_filter,
)
from app.dashboard.cards import add_table_cells, add_value_lines, build_cards, make_episode_page_params
from app.dashboard.column_words import WITHOUT_VALUE, WORST_ORDERS
from app.dashboard.components import draw_grid
from app.dashboard.error_boxes import show_error
from app.dashboard.fields import show_value
from app.dashboard.job_panels import draw_command
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.results import (
    ResultPage,
    check_view,
    find_lower_threshold,
    list_table_columns,
    read_page,
    read_shown_filter,
)
from app.dashboard.search_bar import draw_search_bar
from app.dashboard.selection_bar import change_ticks, draw_selection_bar, draw_set_form, read_ticked_ids
from app.dashboard.view_state import ColumnFilter, ViewState, describe_filter, view_to_params
from ares.console import count_of
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
    with st.sidebar:
        # Before what stands beside it, which the sidebar would move.
        draw_words_filter(view)
    draw_search_bar(view)
    with st.container():
        # Here, and not among the filters, the page says that it waits for a model.
        cached_reads.warm_up(**view.query)
    with st.sidebar:
        draw_facets(view)
    try:
        check_view(view, cached_reads.filter_columns())
        page = read_page(view)
    except AresError as error:
        _draw_filter_buttons(view)
        show_error(error)
        return
    draw_unknown(view)
    draw_duplicate_groups(view)
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
    draw_command(["ingest", "PATH"])
    navigation.draw_job_button("Ingest from here", "ingest")


def _draw_filter_buttons(view: ViewState) -> None:
    """Draw a button for each part of the view; a click removes it."""
    parts = list(_removable_parts(view))
    for name, text, remove in parts:
        # By its part, and not its place: a click on the next button reaches it though the one before has just gone.
        st.button(
            text, key=f"browse.chip.{name}", icon=":material/close:", help="Remove this filter",
            on_click=change_view, args=(remove,),
        )  # fmt: skip
    if len(parts) > 1:
        st.button(
            "Clear all", key="browse.clear", type="tertiary", on_click=change_view, args=(ViewState.cleared,)
        )


def _removable_parts(view: ViewState) -> Iterator[tuple[str, str, Callable[[ViewState], ViewState]]]:
    """Name and label of each part of the view, and what removes it from the newest view."""
    for column, column_filter in view.filters.items():
        remove = partial(_without_filter, column)
        producers = cached_reads.read_producers() if column.endswith("_maker") else {}
        label = escape_markdown(describe_filter(column_filter, producers))
        yield f"filter.{column}", label, remove
    if view.region:
        label = f"map region: {escape_markdown(view.region_name or 'without a name')}"
        yield "region", label, lambda newest: replace(newest, region="", region_name="", page=1)
    if view.text:
        yield "text", f"“{escape_markdown(view.text)}”", partial(_without_query, {"text"})
    if view.like:
        by = f" by {escape_markdown(view.by)}" if view.by else ""
        yield "like", f"like {escape_markdown(view.like)}{by}", partial(_without_query, {"like", "by"})
    if view.image:
        image = "uploaded image" if view.image.startswith("upload:") else f"frame {view.image}"
        yield "image", f"like the {escape_markdown(image)}", partial(_without_query, {"image", "by"})
    if view.words:
        yield (
            "words",
            f"words: {escape_markdown(view.words)}",
            lambda newest: replace(newest, words="", page=1),
        )
    if view.where:
        yield "where", escape_markdown(view.where), lambda newest: replace(newest, where="", page=1)
    if view.is_search and view.cut is not None:
        yield "cut", f"score from {view.cut:.2f}", lambda newest: replace(newest, cut=None, page=1)


def _without_filter(column: str, view: ViewState) -> ViewState:
    """The view without the filter of a column."""
    return view.with_filter(ColumnFilter(column=column))


def _without_query(names: Collection[str], view: ViewState) -> ViewState:
    """The view without these parts of its search."""
    return view.with_query(**{name: text for name, text in view.query.items() if name not in names})


def _draw_result_line(view: ViewState, page: ResultPage) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="browse.line"):
        part = page.shown if view.is_search else page.matching
        noun = "episode" if page.total == 1 else "episodes"
        st.markdown(f"**{part:,} of {page.total:,} {noun}**", width="content")
        if view.is_search:
            st.caption(f"score from {page.cut:.2f}", width="content")
        _draw_copies_button(view, page)
        _draw_filter_buttons(view)
        st.space("stretch")
        draw_layout_choice(view)
        draw_saved_views(view)
        if page.shown:
            draw_set_form(view, page.shown)
    worst = WORST_ORDERS.get(view.sort)
    if worst and worst.descending == view.descending and not view.is_search:
        st.caption(f"Worst first. {worst.sentence} {WITHOUT_VALUE}")


def _draw_copies_button(view: ViewState, page: ResultPage) -> None:
    """Draw the button that shows all episodes of equal content, or one of each again."""
    hidden = cached_reads.count_episodes(read_shown_filter(replace(view, copies=True))) - page.matching
    if view.copies or hidden:
        st.button(
            "One of each content" if view.copies else f"Show {count_of(hidden, 'copy', 'copies', comma=True)}",
            key="browse.copies", type="tertiary", icon=":material/content_copy:",
            help="Episodes of equal content, see duplicate_of",
            on_click=change_view, args=(lambda newest: replace(newest, copies=not newest.copies, page=1),),
        )  # fmt: skip


def _read_cards(view: ViewState, page: ResultPage) -> list[Json]:
    episodes, captions = cached_reads.read_episodes(page.ids), cached_reads.read_captions(page.ids)
    cards = build_cards(episodes, captions, page.hits, view_to_params(view), page.first, view.is_search)
    sort = "" if view.is_search else view.sort
    if view.show == "table":
        names = dict.fromkeys([*filter(None, [sort]), *list_table_columns(view)])
        values = cached_reads.read_values(page.ids, tuple(names))
        add_table_cells(cards, episodes, values, cached_reads.read_producers())
    elif sort:
        values = cached_reads.read_values(page.ids, (sort,))
        add_value_lines(cards, values, sort, cached_reads.read_producers())
    return cards


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
        size=view.show,
        ticked=read_ticked_ids() & set(page.ids),
        on_tick=change_ticks,
    )
    if page.pages > 1:
        show_value(_PAGE_NUMBER, min(view.page, page.pages))
        with st.container(horizontal_alignment="center"):
            st.pagination(page.pages, key=_PAGE_NUMBER, on_change=_turn_page)
    if view.page >= page.pages:
        _draw_more_button(view, page)


def _draw_more_button(view: ViewState, page: ResultPage) -> None:
    """Draw the button that lowers the cut of a search, after its last episode."""
    if not view.is_search or page.shown >= page.matching:
        return
    st.button(
        "Show less relevant ones", key="browse.more", icon=":material/expand_more:",
        help="Lowers the least score",
        on_click=lambda: change_view(lambda newest: replace(newest, cut=find_lower_threshold(newest))),
    )  # fmt: skip


def _turn_page() -> None:
    change_view(lambda newest: replace(newest, page=int(st.session_state.get(_PAGE_NUMBER, newest.page))))
