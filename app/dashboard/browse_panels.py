"""Panels around the list of episodes: the search bar, filters with counts, and saved views."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.cached_reads import SearchThresholdIds
from app.dashboard.column_words import (
    WORST_ORDERS,
    column_choice,
    column_group,
    column_rank,
    format_column_label,
    value_words,
)
from app.dashboard.components import draw_filters, draw_search_input
from app.dashboard.navigation import (
    change_view,
    entered_text,
    escape_markdown,
    write_parameters,
)
from app.dashboard.results import list_sort_columns, list_table_columns, search_threshold, unknown_values
from app.dashboard.selection_bar import read_person_name
from app.dashboard.user_limits import IMAGE_TYPES, store_uploaded_image
from app.dashboard.view_state import SHOWN_AS, ColumnFilter, ViewState, view_filter_sql, view_to_params
from ares.curation import DUPLICATE_GROUP
from ares.episode import Json
from ares.errors import AresError, QueryTimeout
from ares.search import Facet
from ares.store import TAGS
from ares.workspace import find_names

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from ares.workspace import NameHit


# Facets that are open at first; of the others only the name is shown.
_OPEN_FACETS = ("dataset", "success", "grade", "duration_seconds")
# Name of the score of a search among the facets; no column has a name like it. The value of its filter while a cut
# is in force, so that "clear" differs from a cut at 0.
_SCORE, _CUT = "~score", "cut"


# Six digits of an id, one of them no letter: no word of a caption.
_SURE_ID = re.compile(r"(?=[a-f]*\d)[0-9a-f]{6,16}")


def draw_words_filter(view: ViewState) -> None:
    """Draw the field for words that the texts of an episode must have; a search beside it ranks what is left."""

    def apply() -> None:
        words = " ".join(entered_text("browse.words", view.words).split())
        change_view(lambda newest: replace(newest, words=words, page=1))

    navigation.show_value("browse.words", view.words)
    st.text_input(
        "Filter by words", key="browse.words", on_change=navigation.guard_field("browse.words", apply),
        help="Only episodes whose instruction or caption has all of these words, or parts of words",
        placeholder="drawer open",
    )  # fmt: skip
    navigation.draw_refusal("browse.words")


def draw_unknown(view: ViewState) -> None:
    """Draw a line for each value of a filter that no episode has."""
    for text in unknown_values(view):
        st.warning(escape_markdown(text), icon=":material/help:")


def draw_facets(view: ViewState) -> None:
    """Draw the filters of a view; where its own filter cannot be read, those of the view without it."""
    try:
        shown = _facets_of_view(view)
    except QueryTimeout as error:
        st.caption(f"No counts: {escape_markdown(error)}")
        return
    except AresError:
        # The main part of the page reports what is wrong; the other filters stay where they are.
        shown = _facets_or_none(replace(view, where="")) or _facets_or_none(ViewState())
    if shown:
        apply = navigation.guard_field(
            "browse.filters", lambda new: change_view(partial(_filtered_view, new))
        )
        navigation.draw_refusal("browse.filters")
        draw_filters(shown, key="browse.filters", on_change=apply)


def _facets_or_none(view: ViewState) -> list[dict[str, Json]]:
    try:
        return _facets_of_view(view)
    except AresError:
        return []


def _facets_of_view(view: ViewState) -> list[dict[str, Json]]:
    columns = cached_reads.filter_columns()
    where = view_filter_sql(view, columns)
    cut = SearchThresholdIds(**view.query, min_score=search_threshold(view)) if view.is_search else None
    facets = {facet.column: facet for facet in cached_reads.read_facets(where, cut=cut)}
    for column in view.filters:
        # Counts beside a column's values ignore its own filter: they are what a click would add.
        without_own = view_filter_sql(view, columns, leave_out=column)
        (facets[column],) = cached_reads.read_facets(without_own, column, cut)
    ranks = {column: column_rank(column) for column in facets}
    # Groups first: the usual columns come first in their own.
    ordered = sorted(facets.values(), key=lambda facet: (ranks[facet.column][1], ranks[facet.column]))
    # A column that an annotator declares is shown before it has a value; one of the source may never have any.
    informative = [facet for facet in ordered if facet.counts or facet.histogram or facet.meaning]
    data = [_facet_data(facet, view) for facet in informative]
    return [_score_data(where, cut), *data] if cut else data


def _filtered_view(changed: Sequence[ColumnFilter], view: ViewState) -> ViewState:
    for column_filter in changed:
        if column_filter.column != _SCORE:
            view = view.with_filter(column_filter)
        elif view.is_search:
            cut = round(column_filter.low or 0.0, 4) if column_filter.values else None
            view = replace(view, cut=cut, page=1)
    return view


def _score_data(where: str, cut: SearchThresholdIds) -> dict[str, Json]:
    """The scores of a search as a facet whose lower bound is the cut."""
    from ares.search import SCORE_BINS

    histogram = cached_reads.read_search_scores(**cut.query).histogram(where)
    facet = Facet(
        column=_SCORE,
        type="float64",
        meaning="how like the search an episode is; the lower end is the least score that is shown",
        edges=tuple(number / SCORE_BINS for number in range(SCORE_BINS + 1)),
        histogram=tuple(histogram),
    )
    column_filter = ColumnFilter(column=_SCORE, values=(_CUT,), low=cut.min_score)
    data = _facet_data(facet, ViewState(filters={_SCORE: column_filter}))
    return {**data, "label": "score", "open": True, "group": ""}


def _facet_data(facet: Facet, view: ViewState) -> dict[str, Json]:
    column_filter = view.filters.get(facet.column)
    texts = [(str(value).lower() if facet.type == "bool" else str(value), n) for value, n in facet.counts]
    makers = cached_reads.read_makers() if facet.column.endswith("_maker") else {}
    counts: list[Json] = [[text, n, value_words(facet.column, text, makers)] for text, n in texts]
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(facet).items()},
        "counts": counts,
        "label": format_column_label(facet.column),
        "open": facet.column in _OPEN_FACETS,
        "group": column_group(facet.column),
        "values": list(column_filter.values) if column_filter else [],
        "low": column_filter.low if column_filter else None,
        "high": column_filter.high if column_filter else None,
        "missing_on": column_filter.missing if column_filter else False,
    }


def draw_saved_views(view: ViewState) -> None:
    """Draw the list of saved views with the form that saves this one."""
    with st.popover("Views", icon=":material/bookmark:"):
        for saved in cached_reads.list_saved_views():
            with st.container(horizontal=True):
                st.button(
                    escape_markdown(saved.name), key=f"views.open.{saved.name}", width="stretch",
                    on_click=write_parameters, args=(saved.query,),
                    help=f"saved by {escape_markdown(saved.person)}, {saved.created[:10]}",
                )  # fmt: skip
                st.button(
                    "Delete", key=f"views.delete.{saved.name}", type="tertiary",
                    on_click=navigation.guard_field("views.name", _delete_view), args=(saved.name,),
                )  # fmt: skip
        with st.form("views.form", border=False):
            st.text_input("Name of this view", key="views.name", placeholder="drawers to review")
            save = navigation.guard_field("views.name", _save_view, clears=True)
            st.form_submit_button("Save this view", on_click=save, args=(view,))
        navigation.draw_refusal("views.name")


def _save_view(view: ViewState) -> None:
    from ares.curation import save_view

    name, params = entered_text("views.name"), view_to_params(view)
    save_view(cached_reads.workspace().stores, name, params, person=read_person_name())


def _delete_view(name: str) -> None:
    from ares.curation import delete_view

    delete_view(cached_reads.workspace().stores, name, person=read_person_name())


_SHOW, _COLUMNS = "browse.show", "browse.columns"


def draw_layout_choice(view: ViewState) -> None:
    """Draw the switch between cards of three sizes and a table, and the choice of the columns of the table."""

    def show() -> None:
        shown = entered_text(_SHOW, view.show)
        change_view(lambda newest: replace(newest, show=shown))

    def choose() -> None:
        names = tuple(str(name) for name in st.session_state.get(_COLUMNS) or ())
        change_view(lambda newest: replace(newest, columns=names))

    navigation.show_value(_SHOW, view.show)
    st.segmented_control(
        "Show as", list(SHOWN_AS), key=_SHOW, format_func=SHOWN_AS.__getitem__, on_change=show, required=True,
        label_visibility="collapsed", width="content",
    )  # fmt: skip
    if view.show == "table":
        with st.popover("Columns", icon=":material/view_column:"):
            navigation.show_value(_COLUMNS, list_table_columns(view))
            columns = sorted(cached_reads.filter_columns(), key=column_rank)
            st.multiselect("Columns", columns, key=_COLUMNS, format_func=column_choice, on_change=choose)


_SOURCE_ORDER = "source order"
# Beginning of the choices of the list of orders that are no column: `WORST_ORDERS`.
_WORST = "worst first: "
_ASCENDING, _DESCENDING = "↑", "↓"
_DIRECTIONS = {False: _ASCENDING, True: _DESCENDING}
# What a search by text compares, by the rankers that do so.
_WAYS = {"": "All", "captions": "Words", "meaning": "Meaning", "frames": "Looks"}


def draw_search_bar(view: ViewState) -> None:
    """Draw the row; a change of a part of it changes the view in the URL."""

    draw_search_input("browse.search_input", navigation.guard_field("browse.image", _search_for_image))
    columns = list_sort_columns(cached_reads.filter_columns())
    worst = WORST_ORDERS.get(view.sort)
    order = f"{_WORST}{view.sort}" if worst and worst.descending == view.descending else view.sort
    navigation.show_value("browse.text", view.text)
    navigation.show_value("browse.where", view.where)
    navigation.show_value("browse.sort", order if view.sort in columns else _SOURCE_ORDER)
    navigation.show_value("browse.direction", _DIRECTIONS[view.descending])
    # By this key the style of every page lets the row wrap on a phone.
    with st.container(key="browse_bar"):
        text, image, sql, choice = st.columns([6.4, 1.5, 1.3, 5.8], vertical_alignment="bottom")
    text.text_input(
        "Search", key="browse.text", type="search", on_change=navigation.guard_field("browse.text", _apply_text),
        placeholder="Search by meaning and words, such as “open the drawer”", icon=":material/search:",
        label_visibility="collapsed",
    )  # fmt: skip
    with image.popover("Image", width="stretch"):
        st.file_uploader(
            "Find moments that look like this image", IMAGE_TYPES, key="browse.image",
            on_change=navigation.guard_field("browse.image", _apply_image),
        )  # fmt: skip
    if view.text:
        _draw_ways(view, choice)
    else:
        _draw_order(view, columns, choice)
    with sql.popover("SQL", width="stretch", type="primary" if view.where else "secondary"):
        st.text_area(
            "Filter in SQL", key="browse.where", on_change=navigation.guard_field("browse.where", _apply_where),
            placeholder="success = true AND num_steps > 50 AND instruction LIKE '%drawer%'",
        )  # fmt: skip
        names = sorted(cached_reads.filter_columns())
        st.caption("Columns: " + ", ".join(escape_markdown(name) for name in names))
    # Below the row: the fields of an image and of SQL are closed by a click beside them.
    navigation.draw_refusal("browse.text", "browse.image", "browse.where")


def _apply_image() -> None:
    file = st.session_state.get("browse.image")
    if file is not None:
        _search_for_image(file.getvalue())


def _search_for_image(data: bytes) -> None:
    image = store_uploaded_image(cached_reads.workspace().stores, data)
    change_view(lambda newest: newest.with_query(image=image))


_MOST_NAMED = 6


def draw_duplicate_groups(view: ViewState) -> None:
    """Draw a button for each group of near duplicates that the view is filtered by: it opens their pairs."""
    groups = view.filters[DUPLICATE_GROUP].values if DUPLICATE_GROUP in view.filters else ()
    if not groups:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Near duplicates:", width="content")
        for group in groups[:_MOST_NAMED]:
            st.button(
                escape_markdown(f"Compare pairs of {group}"), key=f"duplicates.{group}", icon=":material/compare:",
                on_click=navigation.open_page, args=("compare", {"group": [str(group)]}),
            )  # fmt: skip


def draw_named(text: str) -> None:
    """Draw a button for each thing that has exactly the name that was searched for."""
    named = cached_reads.find_exact_names(text)[:_MOST_NAMED]
    if not named:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Named so:", width="content")
        for thing in named:
            st.button(
                escape_markdown(f"{thing.kind} {thing.name}"), key=f"named.{thing.kind}.{thing.name}",
                help=escape_markdown(thing.about) or None, on_click=_open_named, args=(thing,),
            )  # fmt: skip


def _open_named(thing: NameHit) -> None:
    if thing.kind == "episode":
        navigation.open_page("episode", {"episode": [thing.name]})
    elif thing.kind == "set":
        navigation.open_page("sets", {"set": [thing.name]})
    else:
        column = TAGS if thing.kind == "tag" else thing.kind
        navigation.write_view(ViewState().with_filter(ColumnFilter(column=column, values=(thing.name,))))


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
    navigation.show_value("browse.by", view.by)
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
