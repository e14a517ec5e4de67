"""Page "Statistics": hours, outcomes and accepted captions by task, robot, operator or day, and how numbers spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.browse_panels import draw_unknown
from app.dashboard.cards import build_cards, make_episode_page_params
from app.dashboard.column_words import format_column_label
from app.dashboard.components import draw_bars, draw_grid
from app.dashboard.navigation import read_parameter, read_view, write_parameter
from app.dashboard.results import check_view
from app.dashboard.view_state import (
    ColumnFilter,
    ViewState,
    browse_address,
    view_filter_sql,
    view_to_params,
)
from ares.console import count_of
from ares.episode import Json
from ares.errors import RequestError
from ares.store import conjunction

if TYPE_CHECKING:
    from ares.curation import GroupCounts, GroupStatistics
    from ares.search import Facet

# What is offered to count by; any other name can be typed, and one that no episode has is refused in one line.
_NAMES = ("task", "dataset", "robot", "operator", "scene", "day", "split")
_MOST_GROUPS, _EXTREMES = 200, 6
_GROUP, _NUMBER = "statistics.group", "statistics.number"
# Columns whose distribution says something of the motion come first.
_FIRST_NUMBERS = (
    "duration_seconds",
    "idle_share",
    "jerk_ldlj",
    "joint_jerk_ldlj",
    "path_length",
    "num_steps",
)
_NUMBER_TYPES = ("int64", "float64")


def render() -> None:
    """Draw the statistics of the episodes that the filters of the URL select."""
    view = read_view()
    columns = cached_reads.filter_columns()
    check_view(view, columns)
    draw_unknown(view)
    where = view_filter_sql(view, columns)
    st.header("Statistics")
    if not cached_reads.count_episodes(""):
        st.info("There are no episodes yet: run `ares ingest FOLDER`.", icon=":material/info:")
        navigation.draw_job_button("Ingest from here", "ingest")
        return
    _draw_selection(view)
    statistics = _draw_choice(where)
    if statistics is not None:
        _draw_tiles(statistics.total)
        _draw_groups(view, columns, statistics)
    _draw_distribution(view, columns, where)


def _draw_selection(view: ViewState) -> None:
    """Say which episodes are counted, and lead to the page where they are filtered."""
    is_filtered = bool(view.where or view.filters or view.words)
    text = "The episodes that the filters of Browse select" if is_filtered else "All episodes"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{text}; a click on a name, a bar or a number opens its episodes there.", width="content")
        st.button(
            "Filter in Browse", key="statistics.browse", type="tertiary", icon=":material/filter_alt:",
            on_click=navigation.open_page, args=("browse", view_to_params(view)),
        )  # fmt: skip
    if view.is_search:
        st.caption("A search narrows only Browse: here all that the filters select are counted.")


def _draw_choice(where: str) -> GroupStatistics | None:
    """Draw what episodes are counted by; returns the counts, or None where no episode has that name."""
    named = read_parameter("group") or _NAMES[0]
    navigation.show_value(_GROUP, named)
    options = list(dict.fromkeys([*_NAMES, named]))
    st.selectbox(
        "Count by", options, key=_GROUP, accept_new_options=True, width=320, on_change=_put_group_in_url,
        help="Also a column, or a key that the source has in its metadata",
    )  # fmt: skip
    try:
        return cached_reads.read_groups(where, named)
    except RequestError as error:
        navigation.show_error(error)
        return None


def _put_group_in_url() -> None:
    write_parameter("group", navigation.entered_text(_GROUP) or _NAMES[0])


def _draw_tiles(total: GroupCounts) -> None:
    tiles = st.container(horizontal=True)  # two in a row on a phone
    tiles.metric("Episodes", f"{total.episodes:,}", border=True)
    tiles.metric("Duration", _hours_text(total.hours), border=True)
    mean = 3600 * total.hours / total.episodes if total.episodes else 0.0
    tiles.metric(
        "Mean length", f"{mean:.1f} s", border=True, help=f"The longest: {total.longest_seconds:,.1f} s"
    )
    tiles.metric(
        "Succeeded", total.describe_success(), border=True, help="Of those whose outcome is known; 95 %"
    )
    tiles.metric("Accepted captions", f"{total.acceptable:,} of {total.graded:,}", border=True)
    tiles.metric("Reviewed by people", f"{total.reviewed:,}", border=True)


def _hours_text(hours: float) -> str:
    return f"{hours:,.1f} h" if hours >= 1 else f"{60 * hours:.1f} min"


def _draw_groups(view: ViewState, columns: Mapping[str, str], statistics: GroupStatistics) -> None:
    groups = statistics.groups[:_MOST_GROUPS]
    rows = [
        _group_row(group, statistics.outcome, partial(_group_view, view, columns, statistics.by, group))
        for group in groups
    ]
    draw_bars(
        rows, statistics.by, "success of those known, 95 %; duration; episodes", key="statistics.groups"
    )
    if statistics.num_groups > len(groups):
        more = f"{len(groups):,} of {statistics.num_groups:,}, those with the most episodes."
        st.caption(f"{more} `ares statistics {statistics.by}` lists up to 1,000.")


def _group_row(group: GroupCounts, outcome: str, filtered: Callable[[str], ViewState]) -> dict[str, Json]:
    """A row of the bars: outcomes as parts, and links to what else is counted."""
    unknown = group.episodes - group.successes - group.failures
    outcomes = (
        ("good", "succeeded", group.successes, f"{outcome} IS TRUE"),
        ("open", "not known", unknown, f"{outcome} IS NULL"),
        ("bad", "failed", group.failures, f"{outcome} IS FALSE"),
    )
    counted = (
        ("none", "accepted", group.acceptable, "acceptable"),
        ("none", "reviewed", group.reviewed, "reviewed"),
    )
    low, high = group.success_interval if group.success_share is not None else (None, None)
    return {
        "name": "(none)" if group.value is None else group.value,
        "href": browse_address(filtered("")),
        "parts": [_make_part(group, *part, filtered) for part in outcomes],
        "more": [_make_part(group, *part, filtered) for part in counted if part[2]],
        "low": low,
        "high": high,
        "text": f"{group.describe_success()}; {_hours_text(group.hours)}; {group.episodes:,}",
    }


def _make_part(
    group: GroupCounts, tone: str, label: str, number: int, where: str, filtered: Callable[[str], ViewState]
) -> dict[str, Json]:
    share, href = number / group.episodes, browse_address(filtered(where))
    return {"tone": tone, "share": share, "label": f"{number:,} {label}", "href": href}


def _group_view(
    view: ViewState, columns: Mapping[str, str], by: str, group: GroupCounts, where: str
) -> ViewState:
    """The view of the episodes of a group that fulfil a condition; of a text column it is a filter of its own."""
    column = "instruction" if by == "task" else by
    if columns.get(column) == "string" and group.value is not None:
        view = view.with_filter(ColumnFilter(column=column, values=(group.value,)))
        conditions = [view.where, where]
    else:
        conditions = [view.where, group.where, where]
    present = [condition for condition in conditions if condition]
    return replace(view, where=present[0] if len(present) == 1 else conjunction(present), page=1)


def _draw_distribution(view: ViewState, columns: Mapping[str, str], where: str) -> None:
    """Draw how one number spreads over the episodes, and the episodes at both ends."""
    numbers = _number_columns(columns)
    st.subheader("How a number spreads")
    named = read_parameter("number")
    navigation.show_value(_NUMBER, named if named in numbers else numbers[0])
    column = str(
        st.selectbox(
            "Number", numbers, key=_NUMBER, format_func=format_column_label, width=320,
            on_change=lambda: write_parameter("number", navigation.entered_text(_NUMBER)),
        )
    )  # fmt: skip
    (facet,) = cached_reads.read_facets(where, only=column)
    if not facet.histogram:
        st.caption("No episode has a value.")
        return
    rows = list(make_histogram_rows(view, facet))
    draw_bars(
        rows,
        f"{format_column_label(column)}{f' ({facet.unit})' if facet.unit else ''}",
        "episodes",
        "statistics.bins",
    )
    if facet.meaning:
        st.caption(facet.meaning)
    for title, order in (("Highest", f"{column} DESC"), ("Lowest", column)):
        _draw_extremes(title, conjunction([where, f"{column} IS NOT NULL"]), order)


def _number_columns(columns: Mapping[str, str]) -> list[str]:
    names = [name for name, kind in columns.items() if kind in _NUMBER_TYPES]
    first = [name for name in _FIRST_NUMBERS if name in names]
    return [*first, *sorted(set(names) - set(first))]


def make_histogram_rows(view: ViewState, facet: Facet) -> Iterator[dict[str, Json]]:
    """Yield a row for each bin, and one for the values on each side; its link opens the episodes that it counts.

    Args:
        view: The view that the episodes are of.
        facet: A column of numbers with values.
    """
    first, last = facet.edges[0], facet.edges[-1]
    # A bin has its lower edge and not its upper one, but for the last, which has both.
    ends = [math.nextafter(edge, -math.inf) for edge in facet.edges[1:-1]] + [last]
    labels = [f"{low:.6g} to {high:.6g}" for low, high in zip(facet.edges, facet.edges[1:], strict=False)]
    bins = list(zip(labels, facet.edges, ends, facet.histogram, strict=False))
    below = (f"below {first:.6g}", None, math.nextafter(first, -math.inf), facet.below)
    above = (f"above {last:.6g}", math.nextafter(last, math.inf), None, facet.above)
    rows = [*([below] if facet.below else []), *bins, *([above] if facet.above else [])]
    total = sum(count for *_, count in rows)
    for name, low, high, count in rows:
        opened = view.with_filter(ColumnFilter(column=facet.column, low=low, high=high))
        yield _bin_row(name, count, count / total, browse_address(opened))


def _bin_row(name: str, count: int, share: float, href: str) -> dict[str, Json]:
    part: Json = {"tone": "neutral", "share": share, "label": count_of(count, "episode"), "href": href}
    return {"name": name, "href": href, "parts": [part], "low": None, "high": None, "text": ""}


def _draw_extremes(title: str, where: str, order: str) -> None:
    ids = cached_reads.read_ids(where, order, 0, _EXTREMES)
    episodes, captions = cached_reads.read_episodes(ids), cached_reads.read_captions(ids)
    st.markdown(f"**{title}**")
    params: Mapping[str, Sequence[str]] = {"where": [where], "sort": [_sort_parameter(order)]}
    cards = build_cards(episodes, captions, {}, params)
    draw_grid(
        cards, f"statistics.{title.lower()}", size="small",
        on_open=lambda *card: navigation.open_page("episode", make_episode_page_params(params, *card)),
    )  # fmt: skip


def _sort_parameter(order: str) -> str:
    column, _, descending = order.partition(" ")
    return f"-{column}" if descending else column
