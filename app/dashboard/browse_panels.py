"""Panels around the list of episodes: filters with counts, saved views, and how the list is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import change_view, write_parameters
from app.dashboard.cached_reads import SearchThresholdIds
from app.dashboard.column_words import (
    column_choice,
    column_group,
    column_rank,
    format_column_label,
    value_words,
)
from app.dashboard.components import draw_filters
from app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.results import list_table_columns, read_shown_filter, search_threshold, unknown_values
from app.dashboard.selection_bar import read_person_name
from app.dashboard.view_state import SHOWN_AS, ColumnFilter, ViewState, view_to_params
from ares.curation import DUPLICATE_GROUP
from ares.episode import Json
from ares.errors import AresError, QueryTimeout
from ares.search import Facet

# Facets that are open at first; of the others only the name is shown.
_OPEN_FACETS = ("dataset", "success", "grade", "duration_seconds")
# Name of the score of a search among the facets; no column has a name like it. The value of its filter while a cut
# is in force, so that "clear" differs from a cut at 0.
_SCORE, _CUT = "~score", "cut"


def draw_words_filter(view: ViewState) -> None:
    """Draw the field for words that the texts of an episode must have; a search beside it ranks what is left."""

    def apply() -> None:
        words = " ".join(entered_text("browse.words", view.words).split())
        change_view(lambda newest: replace(newest, words=words, page=1))

    show_value("browse.words", view.words)
    st.text_input(
        "Filter by words", key="browse.words", on_change=guard_field("browse.words", apply),
        help="Only episodes whose instruction or caption has all of these words, or parts of words",
        placeholder="drawer open",
    )  # fmt: skip
    draw_refusal("browse.words")


def draw_unknown(view: ViewState) -> None:
    """Draw a line for each value of a filter that no episode has."""
    for text in unknown_values(view):
        st.warning(escape_markdown(text), icon=":material/help:")


def draw_facets(view: ViewState) -> None:
    """Draw the filters of a view; where its filter cannot be read, those of the view without it."""
    try:
        shown = _facets_of_view(view)
    except QueryTimeout as error:
        st.caption(f"No counts: {escape_markdown(error)}")
        return
    except AresError:
        # The main part of the page reports what is wrong; the other filters stay where they are.
        shown = _facets_or_none(replace(view, where="")) or _facets_or_none(ViewState())
    if shown:
        apply = guard_field("browse.filters", lambda new: change_view(partial(_filtered_view, new)))
        draw_refusal("browse.filters")
        draw_filters(shown, key="browse.filters", on_change=apply)


def _facets_or_none(view: ViewState) -> list[dict[str, Json]]:
    try:
        return _facets_of_view(view)
    except AresError:
        return []


def _facets_of_view(view: ViewState) -> list[dict[str, Json]]:
    where = read_shown_filter(view)
    cut = SearchThresholdIds(**view.query, min_score=search_threshold(view)) if view.is_search else None
    facets = {facet.column: facet for facet in cached_reads.read_facets(where, cut=cut)}
    for column in view.filters:
        # Counts beside a column's values ignore its filter: they are what a click would add.
        without_column = read_shown_filter(view, leave_out=column)
        (facets[column],) = cached_reads.read_facets(without_column, column, cut)
    ranks = {column: column_rank(column) for column in facets}
    # Groups first: the usual columns come first in theirs.
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
    producers = cached_reads.read_producers() if facet.column.endswith("_maker") else {}
    counts: list[Json] = [[text, n, value_words(facet.column, text, producers)] for text, n in texts]
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
                    on_click=guard_field("views.name", _delete_view), args=(saved.name,),
                )  # fmt: skip
        with st.form("views.form", border=False):
            st.text_input("Name of this view", key="views.name", placeholder="drawers to review")
            save = guard_field("views.name", _save_view, clears=True)
            st.form_submit_button("Save this view", on_click=save, args=(view,))
        draw_refusal("views.name")


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

    show_value(_SHOW, view.show)
    st.segmented_control(
        "Show as", list(SHOWN_AS), key=_SHOW, format_func=SHOWN_AS.__getitem__, on_change=show, required=True,
        label_visibility="collapsed", width="content",
    )  # fmt: skip
    if view.show == "table":
        with st.popover("Columns", icon=":material/view_column:"):
            show_value(_COLUMNS, list_table_columns(view))
            columns = sorted(cached_reads.filter_columns(), key=column_rank)
            st.multiselect("Columns", columns, key=_COLUMNS, format_func=column_choice, on_change=choose)


_MOST_GROUPS = 6


def draw_duplicate_groups(view: ViewState) -> None:
    """Draw a button for each group of near duplicates that the view is filtered by: it opens their pairs."""
    groups = view.filters[DUPLICATE_GROUP].values if DUPLICATE_GROUP in view.filters else ()
    if not groups:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Near duplicates:", width="content")
        for group in groups[:_MOST_GROUPS]:
            st.button(
                escape_markdown(f"Compare pairs of {group}"), key=f"duplicates.{group}", icon=":material/compare:",
                on_click=navigation.open_page, args=("compare", {"group": [str(group)]}),
            )  # fmt: skip
