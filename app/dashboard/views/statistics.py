"""Page "Statistics": hours, outcomes and accepted captions by task, robot, operator or day, and how numbers spread."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.address import read_parameter, read_view, write_parameter
from app.dashboard.browse_panels import draw_unknown
from app.dashboard.cards import add_value_lines, build_cards, make_episode_page_params
from app.dashboard.column_words import (
    column_choice,
    column_rank,
    format_column_label,
)
from app.dashboard.components import draw_bars, draw_grid, load_component
from app.dashboard.error_boxes import show_error
from app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.results import check_view
from app.dashboard.view_state import (
    AddressError,
    ColumnFilter,
    ViewState,
    browse_address,
    view_filter_sql,
    view_to_params,
)
from ares.console import count_of
from ares.episode import Json, format_duration
from ares.errors import RequestError
from ares.rubric import REFUTED_COLUMN
from ares.store import conjunction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.curation import GroupCounts, GroupStatistics
    from ares.episode import Episode, Signal
    from ares.search import Facet

# What is offered to count by; any other name can be typed, and one that no episode has is refused in one line.
_NAMES = ("task", "dataset", "robot", "operator", "scene", "day", "split")
_MOST_GROUPS, _EXTREMES = 200, 6
_GROUP, _NUMBER = "statistics.group", "statistics.number"
# Columns whose distribution says something of the motion come first.
_FIRST_NUMBERS = (
    "duration_seconds",
    "idle_share",
    "action_lag_seconds",
    "jerk_ldlj",
    "joint_jerk_ldlj",
    "path_length",
    "num_steps",
)
_NUMBER_TYPES = ("int64", "float64")
_EPISODE_ID = re.compile("[0-9a-f]{16}")
# An episode is compared in so many columns, with so many episodes, and in so many dimensions of a signal.
_MOST_NUMBERS, _SAMPLE, _MOST_DIMENSIONS, _BINS = 10, 100, 64, 32


def render() -> None:
    """Draw the statistics of the episodes that the filters of the URL select."""
    view = replace(read_view(), copies=True)  # what is counted here is opened in Browse
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
    _draw_comparison(columns)
    statistics = _draw_choice(where)
    if statistics is not None:
        _draw_tiles(statistics.total, columns, where)
        _draw_groups(view, columns, statistics)
    _draw_distribution(view, columns, where)


def _draw_selection(view: ViewState) -> None:
    """Say which episodes are counted, and lead to the page where they are filtered."""
    is_filtered = bool(view.where or view.filters or view.words or view.region)
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
    show_value(_GROUP, named)
    options = list(dict.fromkeys([*_NAMES, named]))
    st.selectbox(
        "Count by", options, key=_GROUP, accept_new_options=True, width=320,
        on_change=guard_field(_GROUP, _put_group_in_url), args=(where,),
        help="Also a column, or a key that the source has in its metadata",
    )  # fmt: skip
    draw_refusal(_GROUP)
    try:
        return cached_reads.read_groups(where, named)
    except RequestError as error:
        show_error(error)
        return None


def _put_group_in_url(where: str) -> None:
    named = entered_text(_GROUP) or _NAMES[0]
    cached_reads.read_groups(where, named)
    write_parameter("group", named)


def _draw_tiles(total: GroupCounts, columns: Mapping[str, str], where: str) -> None:
    tiles = st.container(horizontal=True)  # two in a row on a phone
    tiles.metric("Episodes", f"{total.episodes:,}", border=True)
    tiles.metric("Duration", format_duration(3600 * total.hours), border=True)
    mean = 3600 * total.hours / total.episodes if total.episodes else 0.0
    tiles.metric(
        "Mean length", format_duration(mean), border=True,
        help=f"The longest: {format_duration(total.longest_seconds)}",
    )  # fmt: skip
    tiles.metric(
        "Succeeded", total.describe_success(), border=True, help="Of those whose outcome is known; 95 %"
    )
    accepted, reason = f"{total.acceptable:,} of {total.graded:,}", ""
    if not total.graded:
        accepted, reason = _say_no_decision(columns, where)
    tiles.metric(
        "Accepted captions", accepted, border=True,
        help=reason or "Of those that a person or a judge who is not refuted has decided",
    )  # fmt: skip
    tiles.metric("Reviewed by people", f"{total.reviewed:,}", border=True)
    if reason:
        st.caption(reason)


def _say_no_decision(columns: Mapping[str, str], where: str) -> tuple[str, str]:
    """Why no caption is accepted or refused: in two words, and in a sentence."""
    doubtful = f"grade IN ('acceptable', 'not_acceptable') AND {REFUTED_COLUMN}"
    graded, doubted = (
        cached_reads.count_episodes(conjunction([where, condition])) if name in columns else 0
        for name, condition in (("grade", "grade IS NOT NULL"), (REFUTED_COLUMN, doubtful))
    )
    if not graded:
        return "none graded", "No caption is graded yet: `ares annotate grade` or the page Jobs grades them."
    texts = f"{count_of(graded, 'caption is', 'captions are', comma=True)} graded"
    if doubted:
        return "none counts", f"{texts}, but by a refuted judge: none counts. Status says why."
    return "none decided", f"{texts}, but none is decided: unsure or failed."


def _draw_groups(view: ViewState, columns: Mapping[str, str], statistics: GroupStatistics) -> None:
    groups = statistics.groups[:_MOST_GROUPS]
    rows = [_group_row(group, partial(_group_view, view, columns, statistics.by, group)) for group in groups]
    draw_bars(rows, statistics.by, "success of those known, 95 %; duration; episodes", "statistics.groups")
    if statistics.num_groups > len(groups):
        more = f"{len(groups):,} of {statistics.num_groups:,}, those with the most episodes."
        st.caption(f"{more} `ares statistics {statistics.by}` lists up to 1,000.")


def _group_row(group: GroupCounts, filtered: Callable[[str], ViewState]) -> dict[str, Json]:
    """A row of the bars: outcomes as parts, and links to what else is counted."""
    unknown = group.episodes - group.successes - group.failures
    outcomes = (
        ("good", "succeeded", group.successes, "success IS TRUE"),
        ("open", "not known", unknown, "success IS NULL"),
        ("bad", "failed", group.failures, "success IS FALSE"),
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
        "text": f"{group.describe_success()}; {format_duration(3600 * group.hours)}; {group.episodes:,}",
    }


def _make_part(
    group: GroupCounts, tone: str, label: str, number: int, where: str, filtered: Callable[[str], ViewState]
) -> dict[str, Json]:
    share, href = number / group.episodes, browse_address(filtered(where))
    return {"tone": tone, "share": share, "label": f"{number:,} {label}", "href": href}


def _group_view(
    view: ViewState, columns: Mapping[str, str], by: str, group: GroupCounts, where: str
) -> ViewState:
    """The view of the episodes of a group that fulfil a condition; of a text column it is a separate filter."""
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
    show_value(_NUMBER, named if named in numbers else numbers[0])
    column = str(
        st.selectbox(
            "Number", numbers, key=_NUMBER, format_func=column_choice, width=320,
            on_change=lambda: write_parameter("number", entered_text(_NUMBER)),
        )
    )  # fmt: skip
    (facet,) = cached_reads.read_facets(where, only=column)
    if not facet.histogram:
        st.caption("No episode has a value.")
        return
    unit = f" ({facet.unit})" if facet.unit else ""
    title = f"{format_column_label(column)}{unit}"
    draw_bars(list(make_histogram_rows(view, facet)), title, "episodes", "statistics.bins")
    if facet.meaning:
        st.caption(facet.meaning)
    _draw_extremes("Highest", where, f"{column} DESC")
    _draw_extremes("Lowest", where, column)


def _number_columns(columns: Mapping[str, str]) -> list[str]:
    names = [name for name, kind in columns.items() if kind in _NUMBER_TYPES]
    first = [name for name in _FIRST_NUMBERS if name in names]
    return [*first, *sorted(set(names) - set(first), key=column_rank)]


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
    """Draw the first episodes in an order, each with the value that it is ordered by."""
    column = order.partition(" ")[0]
    where = conjunction([where, f"{column} IS NOT NULL"])
    ids = cached_reads.read_ids(where, order, 0, _EXTREMES)
    episodes, captions = cached_reads.read_episodes(ids), cached_reads.read_captions(ids)
    st.markdown(f"**{title}**")
    if not ids:
        st.caption("No episode has a value.")
        return
    params: Mapping[str, Sequence[str]] = {"where": [where], "sort": [_sort_parameter(order)]}
    cards = build_cards(episodes, captions, {}, params)
    add_value_lines(cards, cached_reads.read_values(ids, (column,)), column, cached_reads.read_producers())
    draw_grid(
        cards, f"statistics.{title.lower()}", size="small",
        on_open=lambda *card: navigation.open_page("episode", make_episode_page_params(params, *card)),
    )  # fmt: skip


def _sort_parameter(order: str) -> str:
    column, _, descending = order.partition(" ")
    return f"-{column}" if descending else column


def _draw_comparison(columns: Mapping[str, str]) -> None:
    """Draw where the episode of the address lies among those of its dataset: its numbers, and its dimensions."""
    episode_id = read_parameter("episode")
    if not episode_id:
        return
    episodes = cached_reads.read_episodes([episode_id]) if _EPISODE_ID.fullmatch(episode_id) else []
    if not episodes:
        raise AddressError("episode", f"there is no episode {episode_id!r}", "an id is 16 hex digits")
    episode, dataset = episodes[0], episodes[0].dataset
    view = ViewState(filters={"dataset": ColumnFilter(column="dataset", values=(dataset,))})
    where = view_filter_sql(view, columns)
    title = escape_markdown(episode.instruction or episode.key)
    st.subheader(f"{title}, beside {escape_markdown(dataset)}")
    numbers = [name for name in _number_columns(columns) if not name.startswith("map_")][:_MOST_NUMBERS]
    facets = [cached_reads.read_facets(where, only=name)[0] for name in numbers]
    # A column with one value for all says nothing.
    facets = [facet for facet in facets if len(facet.histogram) > 1]
    orders = [order for facet in facets for order in (facet.column, f"{facet.column} DESC")]
    extremes = {order: _first_id(where, order) for order in orders}
    ids = [episode_id, *filter(None, extremes.values())]
    values = cached_reads.read_values(ids, [facet.column for facet in facets])
    spreads = [_number_spread(facet, episode_id, extremes, values) for facet in facets]
    load_component("spreads")(data={"rows": spreads}, key="statistics.spreads")
    _draw_dimension_spreads(episode, where)


def _first_id(where: str, order: str) -> str:
    present = conjunction([where, f"{order.partition(' ')[0]} IS NOT NULL"])
    return next(iter(cached_reads.read_ids(present, order, 0, 1)), "")


def _number_spread(
    facet: Facet,
    episode_id: str,
    extremes: Mapping[str, str],
    values: Mapping[str, Mapping[str, float | None]],
) -> dict[str, Json]:
    """A row of the comparison: the histogram of a column, and the bin of the episode in colour."""
    column, most = facet.column, max(facet.histogram) or 1
    value = values[episode_id][column]
    bins = [0.0] * len(facet.histogram)
    if value is not None and math.isfinite(value):
        index = min(max(bisect_right(facet.edges, value) - 1, 0), len(bins) - 1)
        bins[index] = max(facet.histogram[index] / most, 0.08)
    low, high = (
        _episode_link(end, _number_text(values[end][column])) if end in values else None
        for end in (extremes[column], extremes[f"{column} DESC"])
    )
    shares: list[Json] = [count / most for count in facet.histogram]
    text = f"{_number_text(value)}{f' {facet.unit}' if facet.unit and value is not None else ''}"
    return {
        "name": format_column_label(column), "all": shares, "own": list[Json](bins), "text": text,
        "low": low, "high": high,
    }  # fmt: skip


def _number_text(value: float | None) -> str:
    return "no value" if value is None else f"{value:.4g}"


def _episode_link(episode_id: str, label: str) -> dict[str, Json] | None:
    return {"label": label, "href": f"episode?{urlencode({'episode': episode_id})}"} if episode_id else None


def _draw_dimension_spreads(episode: Episode, where: str) -> None:
    """Draw the values of every dimension of state and action over those of a sample of the dataset, in grey."""
    trajectories = cached_reads.workspace().stores.tables.trajectories
    total = cached_reads.count_episodes(where)
    # Ids are hashes: the first ones are a sample.
    ids = cached_reads.read_ids(where, "episode_id", 0, _SAMPLE)
    sample = {
        episode.episode_id: cached_reads.limited(lambda: trajectories.get(episode.episode_id)),
        **cached_reads.limited(lambda: dict(trajectories.read(ids))),
    }
    of = "all" if total <= _SAMPLE else f"a sample of {_SAMPLE} of"
    for name in ("state", "action"):
        compared: Signal | None = getattr(sample[episode.episode_id], name)
        if compared is None or not len(compared.values):
            continue
        signals: list[tuple[str, Signal | None]] = [(id, getattr(read, name)) for id, read in sample.items()]
        values = {
            id: signal.values
            for id, signal in signals
            if signal is not None and signal.names == compared.names
        }
        shown = f"; the first {_MOST_DIMENSIONS} dimensions" if len(compared.names) > _MOST_DIMENSIONS else ""
        st.markdown(
            f"**{name.capitalize()}**, values of {of} {count_of(total, 'episode', comma=True)}{shown}"
        )
        rows = [
            _dimension_row(values, episode.episode_id, index, label)
            for index, label in enumerate(compared.names[:_MOST_DIMENSIONS])
        ]
        load_component("spreads")(data={"rows": rows}, key=f"statistics.spreads.{name}")


def _dimension_row(
    values: Mapping[str, NDArray[np.float32]], episode_id: str, index: int, name: str
) -> dict[str, Json]:
    """A row of the comparison: how a dimension spreads over episodes, and over one of them in colour.

    Args:
        values: (T, D) of each episode by its id.
        episode_id: That one.
        index: Number of the dimension.
        name: Its name.
    """
    import numpy as np

    finite = {id: part[np.isfinite(part[:, index]), index] for id, part in values.items()}
    compared, known = finite[episode_id], {id: part for id, part in finite.items() if len(part)}
    if not known:
        return {"name": name, "all": [0.0], "own": [0.0], "text": "no value", "low": None, "high": None}
    first = min(known, key=lambda id: float(known[id].min()))
    last = max(known, key=lambda id: float(known[id].max()))
    low, high = float(known[first].min()), float(known[last].max())
    bounds = (low, high) if low < high else (low - 0.5, high + 0.5)
    everything = np.concatenate(list(known.values()))
    shares, episode_shares = (
        np.histogram(part, _BINS, bounds)[0] / max(1, len(part)) for part in (everything, compared)
    )
    most = max(float(shares.max()), float(episode_shares.max()))
    return {
        "name": name, "all": (shares / most).tolist(), "own": (episode_shares / most).tolist(),
        "text": f"{compared.min():.4g} to {compared.max():.4g}" if len(compared) else "no value",
        "low": _episode_link(first, f"{low:.4g}"), "high": _episode_link(last, f"{high:.4g}"),
    }  # fmt: skip
