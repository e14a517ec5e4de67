"""Page "Browse": find episodes by words, meaning and columns, view them, freeze them as a set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from ares.console import count_of
from ares.episode import Json
from ares.errors import AresError
from ares.search import Facet
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import change_view, read_view
from ares_app.dashboard.browse_panels import (
    draw_duplicate_groups,
    draw_filters,
    draw_unknown,
)
from ares_app.dashboard.cards import (
    add_value_lines,
    build_cards,
    make_episode_page_params,
    move_shared_facts,
)
from ares_app.dashboard.column_words import (
    format_column_label,
    format_value_for_people,
    value_words,
)
from ares_app.dashboard.components import draw_grid
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.fields import show_value
from ares_app.dashboard.job_panels import draw_command
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.results import (
    ResultPage,
    check_view,
    list_table_columns,
    read_page,
    read_shown_filter,
)
from ares_app.dashboard.search_bar import draw_search_bar
from ares_app.dashboard.selection_bar import (
    change_ticks,
    draw_select_all,
    draw_selection_bar,
    draw_set_form,
    keep_ticks,
    read_ticked_ids,
)
from ares_app.dashboard.view_state import ColumnFilter, ViewState, describe_filter, view_to_params

# One key for every page, so that a click is for the same list whatever was drawn meanwhile.
_PAGE_NUMBER = "browse.page"


def render() -> None:
    """Draw the view that the URL describes."""
    view = read_view()
    if not cached_reads.count_episodes(""):
        keep_ticks()
        _draw_empty_workspace()
        return
    draw_search_bar(view)
    with st.container():
        # Here, and not among the filters, the page says that it waits for a model.
        cached_reads.warm_up(view.query)
    row = st.container(horizontal=True, vertical_alignment="center", key="browse.filters", gap="small")
    with row:
        facets = draw_filters(view)
    try:
        check_view(view, cached_reads.filter_columns())
        page = read_page(view)
    except AresError as error:
        _draw_filter_buttons(view)
        show_error(error)
        return
    with row:
        st.space("stretch")
        if page.shown:
            draw_select_all(view, page.shown)
            draw_set_form(view, page.shown)
    draw_unknown(view)
    draw_duplicate_groups(view)
    if view.page > page.pages:
        last = f"This is the last one, {page.pages:,}."
        st.warning(f"There is no page {view.page:,} of these episodes. {last}", icon=":material/help:")
    # Read before the count is drawn, which would stand above the cards of the page before.
    cards = _read_cards(view, page)
    shared = " · ".join(move_shared_facts(cards))
    # Of several pages only this one is known.
    shared = f"on this page: {shared}" if shared and page.pages > 1 else shared
    _draw_result_line(view, page, [*_describe_outcomes(view, facets), *filter(None, [shared])])
    navigation.draw_part("browse.results", _draw_results, view, page, cards)


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
    by = f" by {view.by}" if view.by else ""
    labels = {
        "region": view.region and "region of the map",
        "text": view.text and f"“{view.text}”",
        "like": view.like and f"like {view.like}{by}",
        "image": view.image and f"like the frame {view.image}",
        "words": view.words and f"words: {view.words}",
        "where": view.where,
    }
    for name, label in labels.items():
        if label:
            yield name, escape_markdown(label), partial(_without_part, name)
    if view.is_search and view.cut is not None:
        yield "cut", f"score from {view.cut:.2f}", lambda newest: replace(newest, cut=None, page=1)


def _without_filter(column: str, view: ViewState) -> ViewState:
    """The view without the filter of a column."""
    return view.with_filter(ColumnFilter(column=column))


def _without_part(name: str, view: ViewState) -> ViewState:
    """The view without a part; that of a search by an example has its ways to compare."""
    if name not in view.query:
        return replace(view, **{name: "", "page": 1})  # type: ignore[arg-type]
    dropped = {"text": ("text",)}.get(name, (name, "by"))
    return view.with_query(**{part: text for part, text in view.query.items() if part not in dropped})


def _draw_result_line(view: ViewState, page: ResultPage, shared: Sequence[str]) -> None:
    """Draw how many episodes there are, what holds of them, and the filters that a click removes."""
    with st.container(horizontal=True, vertical_alignment="center", key="browse.line", gap="small"):
        part = page.shown if view.is_search else page.matching
        noun = "episode" if page.total == 1 else "episodes"
        parts = [
            f"**{part:,} of {page.total:,} {noun}**",
            *map(escape_markdown, shared),
        ]
        if view.is_search:
            parts.append(f"score from {page.cut:.2f}")
        st.markdown(" · ".join(parts), width="content")
        _draw_copies_button(view, page)
        _draw_filter_buttons(view)


def _describe_outcomes(view: ViewState, facets: Sequence[Facet]) -> list[str]:
    """The share of the episodes that succeed, of those whose outcome is known: as the page Quality counts it."""
    column = cached_reads.outcome_column()
    counts = dict(next((facet.counts for facet in facets if facet.column == column), ()))
    if view.is_search or column in view.filters or not counts:
        return []
    succeeded = sum(counts.get(value, 0) for value in (True, "success"))
    return [f"{succeeded / sum(counts.values()):.0%} succeed"]


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
    if view.sort and not view.is_search:
        values = cached_reads.read_values(page.ids, (view.sort,))
        add_value_lines(cards, values, view.sort, cached_reads.read_producers())
    return cards


def _draw_table(view: ViewState, page: ResultPage) -> None:
    """Draw the episodes as rows: those that are selected are ticked, a double click on a cell copies it."""
    sort = [view.sort] if view.sort and not view.is_search else []
    names = list(dict.fromkeys([*sort, *list_table_columns(view)]))
    values, producers = cached_reads.read_values(page.ids, tuple(names)), cached_reads.read_producers()
    columns: dict[str, list[object]] = {
        "record": [episode.key for episode in cached_reads.read_episodes(page.ids)]
    }
    for name in names:
        cells = [values.get(episode_id, {}).get(name) for episode_id in page.ids]
        is_number = all(cell is None or type(cell) in (int, float) for cell in cells)
        words = [
            "" if cell is None else value_words(name, format_value_for_people(cell), producers)
            for cell in cells
        ]
        columns[format_column_label(name)] = list[object](cells if is_number else words)
    key, opened = f"browse.table.{page.first}.{'&'.join(names)}", "browse.table.opened"
    params = view_to_params(view)

    def tick() -> None:
        if table := st.session_state.get(key):
            rows = set(table["selection"]["rows"])
            change_ticks({episode_id: row in rows for row, episode_id in enumerate(page.ids)})

    def open_row() -> None:
        if click := st.session_state.get(opened):
            row = int(click["row"])
            card = make_episode_page_params(params, page.ids[row], page.first + row, 0.0)
            navigation.open_page("episode", card)

    button = st.column_config.ButtonColumn("", key=opened, on_click=open_row, type="tertiary", width=80)
    ticked = [row for row, episode_id in enumerate(page.ids) if episode_id in read_ticked_ids()]
    st.dataframe(
        {"open": ["Open"] * len(page.ids), **columns}, key=key, hide_index=True, on_select=tick,
        selection_mode="multi-row", selection_default={"selection": {"rows": ticked}},
        column_config={"open": button}, height="content",
    )  # fmt: skip


def _draw_results(view: ViewState, page: ResultPage, cards: list[Json]) -> None:
    """Draw the cards and what is done with those that are ticked; a tick draws nothing else."""
    keep_ticks()
    draw_selection_bar(view, page.shown)
    if not page.ids:
        text = "No episode fits. Remove a filter, or search for something else."
        st.info(text, icon=":material/search_off:")
        return
    params = view_to_params(view)
    if view.show == "table":
        _draw_table(view, page)
    else:
        draw_grid(
            cards,
            "browse.grid",
            lambda *card: navigation.open_page("episode", make_episode_page_params(params, *card)),
            ticked=read_ticked_ids() & set(page.ids),
            on_tick=change_ticks,
        )
    if page.pages > 1:
        show_value(_PAGE_NUMBER, min(view.page, page.pages))
        with st.container(horizontal_alignment="center"):
            st.pagination(page.pages, key=_PAGE_NUMBER, on_change=_turn_page)


def _turn_page() -> None:
    change_view(lambda newest: replace(newest, page=int(st.session_state.get(_PAGE_NUMBER, newest.page))))
