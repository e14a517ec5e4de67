"""Filters beside the episodes: words, the score of a search, and each column with the counts of what is selected."""

from __future__ import annotations

from dataclasses import asdict, replace

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.cached_reads import SearchCut
from app.dashboard.components.filters import draw_filters
from app.dashboard.escape import column_label, escape_markdown
from app.dashboard.results import search_cut
from app.dashboard.url_params import write_view
from app.dashboard.view_state import ColumnFilter, ViewState, where_sql
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
# Name of the score of a search among the facets; no column has a name like it. The value of its filter while a cut
# is in force, so that "clear" differs from a cut at 0.
_SCORE, _CUT = "~score", "cut"


def draw_words_filter(view: ViewState) -> None:
    """Draw the field for words that the texts of an episode must have; a search beside it ranks what is left."""

    def apply() -> None:
        words = " ".join(str(st.session_state["browse.words"]).split())
        write_view(replace(view, words=words, page=1))

    st.session_state["browse.words"] = view.words
    st.text_input(
        "Filter by words", key="browse.words", on_change=apply, placeholder="drawer open",
        help="Only episodes whose instruction or caption has all of these words, or parts of words",
    )  # fmt: skip


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
        draw_filters(shown, key="browse.filters", on_change=lambda new: write_view(_changed_view(view, new)))


def _facets_or_none(view: ViewState) -> list[dict[str, Json]]:
    try:
        return _facets_of_view(view)
    except AresError:
        return []


def _facets_of_view(view: ViewState) -> list[dict[str, Json]]:
    columns = cached_reads.filter_columns()
    where = where_sql(view, columns)
    cut = SearchCut(**view.query, min_score=search_cut(view)) if view.is_search else None
    facets = {facet.column: facet for facet in cached_reads.read_facets(where, cut=cut)}
    for column in view.filters:
        # Counts beside a column's values ignore its own filter: they are what a click would add.
        without_own = where_sql(view, columns, leave_out=column)
        (facets[column],) = cached_reads.read_facets(without_own, column, cut)
    ordered = sorted(facets.values(), key=lambda facet: (_facet_rank(facet.column), facet.column))
    data = [_facet_data(facet, view) for facet in ordered if _is_informative(facet)]
    return [_score_data(where, cut), *data] if cut else data


def _changed_view(view: ViewState, changed: ColumnFilter) -> ViewState:
    if changed.column != _SCORE:
        return view.with_filter(changed)
    cut = round(changed.low or 0.0, 4) if changed.values else None
    return replace(view, cut=cut, page=1)


def _score_data(where: str, cut: SearchCut) -> dict[str, Json]:
    """The scores of a search as a facet whose lower bound is the cut."""
    from ares.search.relevance import SCORE_BINS

    histogram = cached_reads.search_scores(**cut.query).histogram(where)
    facet = Facet(
        column=_SCORE,
        type="float64",
        meaning="how like the search an episode is; the lower end is the least score that is shown",
        edges=tuple(number / SCORE_BINS for number in range(SCORE_BINS + 1)),
        histogram=tuple(histogram),
    )
    column_filter = ColumnFilter(column=_SCORE, values=(_CUT,), low=cut.min_score)
    data = _facet_data(facet, ViewState(filters={_SCORE: column_filter}))
    return {**data, "label": "score", "open": True}


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
