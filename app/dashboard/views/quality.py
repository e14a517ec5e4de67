"""Page "Quality": what is in the workspace, what is wrong, how true its texts are, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from ares.checks import CODES
from ares.console import count_of
from ares.curation import OTHER_OUTCOME
from ares.episode import format_duration
from ares.errors import RequestError
from ares.jobs import COMPLETE
from ares.registry import annotators
from ares.review import format_share
from ares.store import conjunction
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.address import change_view, read_parameter, read_view, write_parameter
from ares_app.dashboard.browse_panels import draw_unknown
from ares_app.dashboard.column_words import (
    code_words,
    column_choice,
    column_rank,
    format_column_label,
    model_words,
    value_words,
)
from ares_app.dashboard.components import draw_table, sent_value
from ares_app.dashboard.dataset_signals import draw_dataset_signals
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.failed_work import draw_failed_work
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.results import check_view
from ares_app.dashboard.selection_bar import read_person_name
from ares_app.dashboard.view_state import (
    ColumnFilter,
    ViewState,
    check_column,
    view_filter_sql,
    view_to_params,
)

if TYPE_CHECKING:
    from ares.curation import GroupCounts, GroupStatistics
    from ares.review import MeasuredShare
    from ares.search import Facet
    from ares.workspace import DatasetCoverage

# What is offered to count by; any other name can be typed, and one that no episode has is refused in one line.
_NAMES = ("task", "dataset", "robot", "operator", "scene", "day", "split")
# Rows of the table, and those of them that have a bar.
_MOST_GROUPS, _MOST_BARS = 200, 12
_GROUP, _NUMBER, _DATASET = "quality.group", "quality.number", "quality.dataset"
_FAILED = "quality.failed_work"  # work and reason: a place in the list is another one after the next try
# Columns whose distribution says something of the motion come first.
_FIRST_NUMBERS = (
    *("duration_seconds", "idle_share", "action_lag_seconds", "jerk_ldlj", "joint_jerk_ldlj"),
    *("path_length", "num_steps"),
)
_CLICK = "A click on a bar opens its episodes."
_UNKNOWN, _ACCENT = "unknown", "#2563eb"
# By outcome: the filter that selects it, and the colour of its bars.
_OUTCOMES = {
    "success": ("success IS TRUE", "#5fb98a"),
    "failure": ("success IS FALSE", "#e08a84"),
    "partial or aborted": (OTHER_OUTCOME, "#e3c16f"),
    _UNKNOWN: ("success IS NULL", "#a3adba"),
}


def render() -> None:
    """Draw the quality of the episodes that the filters of the URL select."""
    view = replace(read_view(), copies=True)  # what is counted here is opened in Browse
    columns = cached_reads.filter_columns()
    check_view(view, columns)
    number = read_parameter("number") or list_number_columns(columns)[0]
    check_column("number", number, list_number_columns(columns), " of numbers")
    draw_unknown(view)
    if not cached_reads.count_episodes(""):
        st.header("No episodes yet")
        navigation.draw_job_button("Ingest a dataset", "ingest")
        return
    where = view_filter_sql(view, columns)
    statistics, coverage = _draw_choice(view, where), _list_coverage(view)
    if statistics is not None:
        _draw_tiles(statistics.total, [] if _is_filtered(view) else coverage)
        _draw_groups(view, columns, statistics)
    wrong, spread = st.columns(2, gap="large")
    with wrong:
        _draw_findings(view, columns, where)
    with spread:
        _draw_spread(view, columns, where, number)
    _draw_truth(view)
    _draw_coverage(view, coverage)
    _draw_failures()


def _open_browse(view: ViewState) -> None:
    navigation.open_page("browse", view_to_params(replace(view, page=1)))


def _datasets_of(view: ViewState) -> list[str]:
    """The datasets that the filter of a view names; all without one."""
    named = view.filters.get("dataset")
    return [name for name in cached_reads.count_datasets() if not named or name in named.values]


def _draw_choice(view: ViewState, where: str) -> GroupStatistics | None:
    """Draw what is counted and by what; returns the counts, or None where no episode has that name."""
    named, shown = read_parameter("group") or _NAMES[0], _datasets_of(view)
    show_value(_GROUP, named)
    show_value(_DATASET, shown[0] if len(shown) == 1 else "")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Dataset", ["", *cached_reads.count_datasets()], key=_DATASET, width=260, on_change=_choose_dataset,
            format_func=lambda name: name or "all datasets",
        )  # fmt: skip
        st.selectbox(
            "Count by", list(dict.fromkeys([*_NAMES, named])), key=_GROUP, accept_new_options=True, width=200,
            on_change=guard_field(_GROUP, _put_group_in_url), args=(where,),
            help="Also a column, or a key that the source has in its metadata",
        )  # fmt: skip
        st.space("stretch")
        st.button(
            "Filtered as in Browse" if _is_filtered(view) else "Filter in Browse", key="quality.browse",
            type="tertiary", icon=":material/filter_alt:", on_click=_open_browse, args=(view,),
        )  # fmt: skip
    draw_refusal(_GROUP)
    if view.is_search:
        st.caption("A search narrows only Browse: here all that the filters select are counted.")
    try:
        return cached_reads.read_groups(where, named)
    except RequestError as error:
        show_error(error)
        return None


def _is_filtered(view: ViewState) -> bool:
    """Whether a filter leaves out episodes within a dataset."""
    return bool(view.where or view.words or view.region or set(view.filters) - {"dataset"})


def _choose_dataset() -> None:
    named = ColumnFilter(column="dataset", values=tuple(filter(None, [entered_text(_DATASET)])))
    change_view(lambda newest: newest.with_filter(named))


def _put_group_in_url(where: str) -> None:
    named = entered_text(_GROUP) or _NAMES[0]
    cached_reads.read_groups(where, named)
    write_parameter("group", named)


def _draw_tiles(total: GroupCounts, coverage: Sequence[DatasetCoverage]) -> None:
    """Draw the numbers that matter, each with what it is of; what is not known is grey.

    Args:
        total: Counts of the episodes that the filters select.
        coverage: The datasets that are shown as a whole; of a part of one nothing was measured or declared.
    """
    mean = format_duration(3600 * total.hours / max(1, total.episodes))
    low, high = total.success_interval
    datasets = {row.dataset for row in coverage}
    measured = [
        share
        for shares in cached_reads.read_measured().values()
        for share in shares
        if share.question == "caption" and share.answers and share.dataset in datasets
    ]
    lost = sum(row.incomplete + (row.failed or 0) for row in coverage)
    declared = sum(row.declared or row.kept for row in coverage)
    with st.container(horizontal=True, key="quality_tiles"):
        _draw_tile("episodes", f"{total.episodes:,}", f"{format_duration(3600 * total.hours)}, {mean} each")
        _draw_tile("succeed", _share_text(total.success_share), f"{low:.0%} to {high:.0%}")
        accepted = total.acceptable / total.graded if total.graded else None
        _draw_tile("captions accepted", _share_text(accepted), f"{total.acceptable:,} of {total.graded:,}")
        if not coverage:
            return
        worst = min(measured, key=lambda share: share.bound, default=None)
        _draw_tile(
            "of these true" if len(datasets) < 2 else "of these true in each dataset",
            f"at least {format_share(worst.bound)}" if worst else _UNKNOWN,
            f"{count_of(sum(share.answers for share in measured), 'answer')}; measured: "
            f"{len(measured)} of {count_of(len(datasets), 'dataset')}",
        )
        _draw_tile("not whole", f"{lost:,}", f"of {declared:,} declared")


def _draw_tile(label: str, value: str, of: str) -> None:
    shown, delta = (f":gray[{value}]", None) if value == _UNKNOWN else (value, of)
    st.metric(label, shown, delta, "off", delta_arrow="off", border=True, height="stretch")


def _share_text(share: float | None) -> str:
    return _UNKNOWN if share is None else format_share(share)


def _draw_groups(view: ViewState, columns: Mapping[str, str], statistics: GroupStatistics) -> None:
    """Draw the groups as a table, and the outcomes of the largest as bars; both open their episodes."""
    groups = statistics.groups[:_MOST_GROUPS]
    open_group = partial(_open_group, view, columns, statistics.by)
    size, unit = (1.0, "hours") if statistics.total.hours >= 2 else (60.0, "minutes")
    st.subheader("What is in it")
    table, bars = st.columns([2, 1], gap="medium")
    with table:
        rows = [
            {
                statistics.by: _group_name(group),
                "episodes": group.episodes,
                unit: round(size * group.hours, 2),
                "succeed": group.success_share and round(group.success_share, 2),
                "accepted": group.acceptable if group.graded else None,
                "reviewed": group.reviewed,
            }
            for group in groups
        ]
        draw_table(
            rows, "quality.groups", "Show", lambda row: open_group(groups[row], ""),
            {
                statistics.by: st.column_config.TextColumn(width=290),
                "succeed": st.column_config.ProgressColumn(format="percent", help="Of those whose outcome is known"),
            },
        )  # fmt: skip
        if statistics.num_groups > len(groups):
            st.caption(
                f"{len(groups):,} of {statistics.num_groups:,}; `ares statistics {statistics.by}` lists more."
            )
    with bars:
        _draw_outcomes(groups[:_MOST_BARS], open_group)


def _group_name(group: GroupCounts) -> str:
    return "(none)" if group.value is None else group.value


def _draw_outcomes(groups: Sequence[GroupCounts], open_group: Callable[[GroupCounts, str], None]) -> None:
    parts = [
        {"group": _group_name(group), "outcome": outcome, "episodes": number}
        for group in groups
        for outcome, number in zip(
            _OUTCOMES, (group.successes, group.failures, group.others, group.episodes - group.known), strict=True
        )
    ]  # fmt: skip
    by_name = {_group_name(group): group for group in groups}
    colours = {"domain": list(_OUTCOMES), "range": [colour for _, colour in _OUTCOMES.values()]}
    spec = {
        "height": {"step": 26},
        "encoding": {
            "y": {"field": "group", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 110}},
            "x": {"field": "episodes", "type": "quantitative", "title": None, "axis": {"tickMinStep": 1}},
            "color": {
                "field": "outcome", "type": "nominal", "scale": colours,
                "legend": {"orient": "top", "title": None, "columns": 2},
            },
        },
    }  # fmt: skip
    acts: dict[tuple[str, ...], Callable[[], None]] = {
        (name, outcome): partial(open_group, group, where)
        for name, group in by_name.items()
        for outcome, (where, _) in _OUTCOMES.items()
    }
    _draw_bars(
        "quality.outcomes", spec, parts, ["group", "outcome"], acts,
        "Episodes by outcome; the table beside it has the same numbers",
    )  # fmt: skip


def _draw_bars(
    key: str,
    spec: Mapping[str, Any],
    rows: Sequence[Mapping[str, object]],
    fields: Sequence[str],
    acts: Mapping[tuple[str, ...], Callable[[], None]],
    alt: str,
) -> None:
    """Draw bars; a click on one does what `acts` has by the values of its fields."""

    def react() -> None:
        for part in (sent_value(key, "selection") or {}).get("part") or ():
            act = acts.get(tuple(part[field] for field in fields))
            if act is None:
                raise RequestError("this bar is not drawn any more", "the counts have changed; click again")
            act()

    encoding = {**spec["encoding"], "tooltip": [{"field": field} for field in [*fields, "episodes"]]}
    select = {"type": "point", "fields": list(fields)}
    whole = {
        **spec, "encoding": encoding, "data": {"values": list(rows)},
        "mark": {"type": "bar", "cursor": "pointer"}, "params": [{"name": "part", "select": select}],
    }  # fmt: skip
    st.vega_lite_chart(whole, key=key, on_select=guard_field(key, react), alt=alt)
    draw_refusal(key)


def _open_group(view: ViewState, columns: Mapping[str, str], by: str, group: GroupCounts, where: str) -> None:
    """Open the episodes of a group that fulfil a condition; of a text column the group is a separate filter."""
    column = "instruction" if by == "task" else by
    if columns.get(column) == "string" and group.value is not None:
        view = view.with_filter(ColumnFilter(column=column, values=(group.value,)))
        conditions = [view.where, where]
    else:
        conditions = [view.where, group.where, where]
    present = [condition for condition in conditions if condition]
    _open_browse(replace(view, where=present[0] if len(present) == 1 else conjunction(present)))


def _draw_findings(view: ViewState, columns: Mapping[str, str], where: str) -> None:
    """Draw what the checks of ingestion and the audits of instructions have found, each with its episodes."""
    st.subheader("What is wrong")
    has_codes, datasets = "quality_codes" in columns, _datasets_of(view)
    rows: list[dict[str, Any]] = []
    acts: list[Callable[[], None]] = []
    for text, episodes in (
        cached_reads.read_facets(where, only="quality_codes")[0].counts if has_codes else ()
    ):
        check = CODES.get(str(text).partition(" ")[0])
        known = {"severity": check.severity, "meaning": check.meaning} if check else {}
        rows.append({"finding": value_words("quality_codes", str(text), {}), "episodes": episodes, **known})
        code = ColumnFilter(column="quality_codes", values=(str(text),))
        acts.append(partial(_open_browse, view.with_filter(code)))
    audits = [audit for audit in cached_reads.read_instruction_audits() if audit.dataset in datasets]
    for audit in audits:
        if audit.findings:
            text, meaning = f"another instruction fits better: {audit.dataset}", "Show asks people about each"
            rows.append({"finding": text, "episodes": len(audit.findings), "meaning": meaning})
            acts.append(partial(_ask_about_instructions, audit.dataset))
    if rows:
        draw_table(rows, "quality.findings", "Show", lambda row: acts[row]())
    else:
        st.caption("The checks of ingestion have found nothing.")
    with st.container(horizontal=True):
        navigation.draw_job_button("Check every episode", "check")
        if len(audits) < len(datasets):
            navigation.draw_job_button("Audit instructions", "check", key="instructions")
    if len(datasets) == 1:
        for audit in audits:
            st.caption(escape_markdown(str(audit)))
        box = st.expander("Signals of this dataset", key="quality.signals", on_change="rerun")
        if box.open:
            with box:
                draw_dataset_signals(datasets[0])
    else:
        st.caption("Of one dataset the page also shows what its signals mean, and who differs from the rest.")


def _ask_about_instructions(dataset: str) -> None:
    """Make a queue of all that the audit of a dataset names, and open it."""
    from ares.review import QueueRequest, create_audit_queue

    workspace = cached_reads.workspace()
    names = {queue.name for queue in workspace.review.queues()}
    name = next(name for number in count(1) if (name := f"instructions-{number}") not in names)
    request = QueueRequest(name=name, question="instruction", person=read_person_name())
    create_audit_queue(workspace.stores, request, dataset)
    navigation.open_page("review", {"queue": [name]})


def _draw_spread(view: ViewState, columns: Mapping[str, str], where: str, number: str) -> None:
    """Draw how one number spreads over the episodes; a bar opens its episodes."""
    st.subheader("How a number spreads")
    show_value(_NUMBER, number)
    with st.container(horizontal=True, vertical_alignment="center"):
        column = str(
            st.selectbox(
                "Number", list_number_columns(columns), key=_NUMBER, format_func=column_choice, width=260,
                label_visibility="collapsed",
                on_change=lambda: write_parameter("number", entered_text(_NUMBER)),
            )
        )  # fmt: skip
        for label, value in zip(("Lowest", "Highest"), cached_reads.read_ends(where, column), strict=True):
            shown = "none" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
            st.button(
                f"{label}: {shown}", key=f"quality.{label}", type="tertiary", on_click=_open_browse,
                args=(replace(view, sort=column, descending=label == "Highest"),),
                help="Opens the episodes in this order",
            )  # fmt: skip
    (facet,) = cached_reads.read_facets(where, only=column)
    if not facet.histogram:
        st.caption("No episode has a value.")
        return
    bins = list(list_bins(facet))
    rows = [
        {"value": part.label, "episodes": part.episodes, "from": part.drawn_from, "to": part.drawn_to} for part in bins
    ]  # fmt: skip
    acts: dict[tuple[str, ...], Callable[[], None]] = {
        (part.label,): partial(
            _open_browse, view.with_filter(ColumnFilter(column=column, low=part.low, high=part.high))
        )
        for part in bins
    }
    title = f"{format_column_label(column)}{f' ({facet.unit})' if facet.unit else ''}"
    spec = {
        "height": 220,
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "bin": "binned", "title": title},
            "x2": {"field": "to"},
            "y": {"field": "episodes", "type": "quantitative", "title": "episodes", "axis": {"tickMinStep": 1}},
            "color": {"value": _ACCENT},
        },
    }  # fmt: skip
    _draw_bars("quality.spread", spec, rows, ["value"], acts, f"Episodes by {title}")
    st.caption(f"{facet.meaning} {_CLICK}".strip())


def list_number_columns(columns: Mapping[str, str]) -> list[str]:
    """Columns of numbers, those that say most of the motion first."""
    names = [name for name, kind in columns.items() if kind in ("int64", "float64")]
    first = [name for name in _FIRST_NUMBERS if name in names]
    return [*first, *sorted(set(names) - set(first), key=column_rank)]


class NumberBin(NamedTuple):
    """A bar of a histogram.

    Attributes:
        label: Its range in words.
        low: The least value that it counts, or None.
        high: The largest value that it counts, or None.
        episodes: Number of episodes.
        drawn_from: Where the bar begins.
        drawn_to: Where it ends; the bars of what lies beyond the bins are as wide as a bin.
    """

    label: str
    low: float | None
    high: float | None
    episodes: int
    drawn_from: float
    drawn_to: float


def list_bins(facet: Facet) -> Iterator[NumberBin]:
    """Yield the bins of a column with values, and one for the values on each side where there are any."""
    edges = facet.edges
    first, last, width = edges[0], edges[-1], edges[1] - edges[0]
    if facet.below:
        below = math.nextafter(first, -math.inf)
        yield NumberBin(f"below {first:.6g}", None, below, facet.below, first - width, first)
    # A bin has its lower edge and not its upper one, but for the last, which has both.
    ends = [math.nextafter(edge, -math.inf) for edge in edges[1:-1]] + [last]
    for low, high, end, episodes in zip(edges, edges[1:], ends, facet.histogram, strict=False):
        yield NumberBin(f"{low:.6g} to {high:.6g}", low, end, episodes, low, high)
    if facet.above:
        above = math.nextafter(last, math.inf)
        yield NumberBin(f"above {last:.6g}", above, None, facet.above, last, last + width)


def _draw_truth(view: ViewState) -> None:
    """Draw what people measured of each dataset beside what controls say of its judge."""
    st.subheader("How true texts are")
    datasets, judges = _datasets_of(view), cached_reads.read_status()["judge_tripwire"]
    shares = [share for name in datasets for share in cached_reads.read_measured().get(name, ())]
    if not shares:
        st.caption("No text is accepted yet, so there is nothing to measure.")
        navigation.draw_job_button("Caption and grade", "annotate", ["caption", "grade"], key="grade")
        return
    rows = [
        {
            "dataset": share.dataset,
            "what": share.what[0],
            "true": _floor_percent(share.true / share.answers) if share.answers else None,
            "at least": _floor_percent(share.bound) if share.answers else None,
            "answers": share.answers,
            "accepted": _floor_percent(share.accepted / share.total) if share.total else None,
            **_judge_of(judges.get(share.dataset, {}), share.question),
            "in words": str(share),
        }
        for share in shares
    ]
    percent = st.column_config.NumberColumn(format="percent")
    config = dict.fromkeys(("true", "at least", "accepted"), percent)
    measure = guard_field("quality.truth", lambda row: _open_measurement(shares[row]))
    draw_table(rows, "quality.truth", "Measure", measure, config)
    draw_refusal("quality.truth")


def _open_measurement(share: MeasuredShare) -> None:
    person = read_parameter("person")  # who came from Review
    queue = cached_reads.draw_measurement(share.dataset, share.question, person or read_person_name())
    navigation.open_page("review", {"queue": [queue], **({"person": [person]} if person else {})})


def _floor_percent(share: float) -> float:
    """To whole percents: never more than it is."""
    return math.floor(100 * share + 1e-9) / 100


def _judge_of(judge: Mapping[str, Any], question: str) -> dict[str, Any]:
    """What the controls say of the judge of captions; nothing of other questions."""
    if question != "caption" or not judge:
        return {"judge": None, "state of the judge": None, "false ones it accepts": None}
    kinds = judge.get("kinds", {}).values()
    accepted, total = (sum(kind[name] for kind in kinds) for name in ("accepted", "total"))
    return {
        "judge": model_words(judge.get("label", "")),
        "state of the judge": "; ".join(filter(None, (judge["state"], judge["reason"]))),
        "false ones it accepts": f"{accepted} of {total}",
    }


def _list_coverage(view: ViewState) -> list[DatasetCoverage]:
    return [row for row in cached_reads.read_coverage() if row.dataset in _datasets_of(view)]


def _draw_coverage(view: ViewState, coverage: Sequence[DatasetCoverage]) -> None:
    """Draw how much of each dataset is stored, and how many episodes each annotation lacks."""
    known = cached_reads.read_status()["annotations"].items()
    annotations = {name: counts for name, counts in known if name in annotators.names()}
    st.subheader("Coverage")
    sources, texts = st.columns(2, gap="large")
    with sources:
        names = ("dataset", "declared", "kept", "removed", "incomplete", "failed")
        rows = [{name: getattr(row, name) for name in names} for row in coverage]
        missing = ColumnFilter(column=COMPLETE, values=("false",))
        draw_table(
            rows, "quality.coverage", "Show",
            lambda row: _open_browse(
                view.with_filter(ColumnFilter(column="dataset", values=(coverage[row].dataset,))).with_filter(
                    missing if coverage[row].incomplete else replace(missing, values=())
                )
            ),
        )  # fmt: skip
    with texts:
        rows = [{"annotation": code_words(name), **counts} for name, counts in annotations.items()]
        by_row = list(annotations)
        draw_table(
            rows, "quality.annotations", "Annotate",
            lambda row: navigation.open_page("jobs", {"job": ["annotate"], "names": [by_row[row]]}),
        )  # fmt: skip


def _draw_failures() -> None:
    """Draw the failures by reason; a selected row shows the episodes behind it."""
    failures = cached_reads.read_status()["failures"]
    if not failures:
        return
    st.subheader("Work that failed")
    named = [(str(failure["work"]), str(failure["reason"])) for failure in failures]
    draw_table(
        failures, "quality.failures", "Show episodes",
        lambda row: st.session_state.update({_FAILED: named[row]}),
    )  # fmt: skip
    if (selected := st.session_state.get(_FAILED)) in named:
        draw_failed_work(*selected)
