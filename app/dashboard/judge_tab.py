"""The tab "Judges" of the page "Review": what judges say of all episodes, and what people and controls say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.column_words import code_words, producer_words
from app.dashboard.components import draw_bars
from app.dashboard.fields import draw_refusal, entered_text, guard_field
from app.dashboard.markdown_text import escape_markdown
from app.dashboard.selection_bar import read_person_name
from app.dashboard.view_state import ColumnFilter, ViewState, browse_address
from ares.episode import Json
from ares.settings import acting_as
from ares.store import producer_column

if TYPE_CHECKING:
    from ares.annotation import Producer
    from ares.review import Calibration, JudgedQuestion, JudgementCount, ShareEstimate


_JUDGE, _CAPTIONER = producer_column("grade"), producer_column("caption")
# Title, column and head of what the answer to one question is counted by.
_GROUPS = (
    ("By dataset", "dataset", "dataset"),
    ("By judge", _JUDGE, "judge"),
    ("By captioner", _CAPTIONER, "captioner"),
    ("Over time", "ingested", "ingested"),
    ("By what the source says of success", "success", "success"),
    ("By what people say of success", "person_success", "success"),
)
_MOST_BARS = 30
_QUESTION = "review.judge.question"
_CERTIFIED_NAME, _PRECISION, _CERTIFIED_WHERE = (
    f"review.certify.{name}" for name in ("name", "precision", "where")
)
_MEASURE = "accepted share of the decided, 95 %"


def draw_judges() -> None:
    """Draw the tab."""
    counts = cached_reads.read_judgements(None, "")
    producers = cached_reads.limited(cached_reads.workspace().stores.annotations.producers)
    if not counts:
        st.write("No judge has said anything yet: `ares annotate grade`.")
        navigation.draw_job_button("Grade captions", "annotate", ("grade",))
        _draw_agreement(producers)
        return
    st.subheader("What judges accept")
    st.caption(
        "Green is accepted, red refused, amber not decided; the dark mark is how far the accepted share of the decided "
        "is known. A click on a name, a part or a number opens its episodes."
    )
    _draw_rows("all", "question", [_count_row(count, "", producers) for count in counts])
    _draw_certificates()
    _draw_groups([count.question for count in counts], producers)
    _draw_agreement(producers)


def _draw_groups(questions: Sequence[JudgedQuestion], producers: Mapping[str, Producer]) -> None:
    """Draw the answers to one question, by everything that they are counted by."""
    st.subheader("One question in detail")
    names = [question.name for question in questions]
    selected = st.selectbox("Question", names, key=_QUESTION, width=320, format_func=_question_words)
    question = questions[names.index(str(selected))]
    for title, column, head in _GROUPS:
        counts = cached_reads.read_judgements(question, column)
        # One group says what the row above says.
        if len(counts) > 1 or (column not in ("success", "person_success") and counts):
            rows = [_count_row(count, column, producers) for count in counts]
            st.markdown(f"**{title}**")
            _draw_rows(column, head, rows)


def _draw_rows(key: str, head: str, rows: Sequence[dict[str, Json]], measure: str = _MEASURE) -> None:
    draw_bars(rows[:_MOST_BARS], head, measure, key=f"review.judge.{key}")
    if len(rows) > _MOST_BARS:
        st.caption(f"{_MOST_BARS} of {len(rows)}")


def _count_row(count: JudgementCount, column: str, producers: Mapping[str, Producer]) -> dict[str, Json]:
    """A bar of one question and group, with the link to the episodes of each part."""
    group = _group_filter(count, column)
    question, total = count.question, count.total
    undecided = sum(count.undecided.values())
    words = [
        ("good", "accepted", count.accepted, (question.accepted,)),
        ("open", "not decided", undecided, tuple(count.undecided)),
        ("bad", "refused", count.refused, (question.refused,)),
    ]
    parts = [
        _make_part(
            tone,
            number / total,
            f"{number:,} {label}",
            [*group, ColumnFilter(column=question.column, values=values)],
        )
        for tone, label, number, values in words
    ]
    every = tuple(value for _, _, number, values in words if number for value in values)
    name = _group_name(count, column, producers)
    href = _browse_link([*group, ColumnFilter(column=question.column, values=every)])
    text = f"{_estimate_text(count.share)} of {count.accepted + count.refused:,}"
    return _make_row(name, href, parts, count.share, text)


def _make_part(tone: str, share: float, label: str, filters: Iterable[ColumnFilter]) -> dict[str, Json]:
    return {"tone": tone, "share": share, "label": label, "href": _browse_link(filters)}


def _make_row(
    name: str, href: str, parts: Sequence[dict[str, Json]], share: ShareEstimate | None, text: str
) -> dict[str, Json]:
    interval: dict[str, Json] = {"low": share.low if share else None, "high": share.high if share else None}
    return {"name": name, "href": href, "parts": list[Json](parts), **interval, "text": text}


def _estimate_text(share: ShareEstimate | None) -> str:
    return f"{share.share:.2f} ({share.low:.2f}-{share.high:.2f})" if share else "none"


def _group_filter(count: JudgementCount, column: str) -> list[ColumnFilter]:
    """The filter of the episodes of a group."""
    if not column:
        return []
    if count.first_second is not None and count.end_second is not None:
        # The end of a range is part of it, and times have microseconds.
        return [ColumnFilter(column=column, low=count.first_second, high=count.end_second - 1e-6)]
    if not count.group:
        return [ColumnFilter(column=column, missing=True)]
    return [ColumnFilter(column=column, values=(count.group,))]


def _group_name(count: JudgementCount, column: str, producers: Mapping[str, Producer]) -> str:
    if not column:
        return _question_words(count.question.name)
    if column in (_JUDGE, _CAPTIONER) and count.group:
        return _producer_name(producers, count.group)
    known = {"true": "success", "false": "failure", "": "not known"}
    return known.get(count.group, count.group) if "success" in column else count.group or "none"


def _producer_name(producers: Mapping[str, Producer], maker_id: str) -> str:
    """A producer for people."""
    return producer_words(producers, maker_id) if maker_id else "no judge"


def _question_words(name: str) -> str:
    """The name of a question; a criterion as words."""
    return code_words(name) if name.isupper() else name


def _browse_link(filters: Iterable[ColumnFilter]) -> str:
    """The address of the page "Browse" with some filters."""
    return browse_address(ViewState(filters={item.column: item for item in filters}))


def _draw_agreement(producers: Mapping[str, Producer]) -> None:
    """Draw how far each judge agrees with people, by question and dataset."""
    st.subheader("Against people")
    reports = [report for report in cached_reads.read_calibrations() if report.judge]
    if not reports:
        st.caption("Nobody has answered yet. The questions are in the other tab.")
        return
    for name, pick, base in _MEASURES:
        rows = [_agreement_row(report, pick(report), producers) for report in reports]
        st.markdown(f"**{name}**: {base}")
        _draw_rows(name.lower(), "question, dataset, judge", rows, "share, 95 %; answers drawn at random")


_MEASURES: tuple[tuple[str, Callable[[Calibration], ShareEstimate | None], str], ...] = (
    ("Precision", lambda report: report.precision, "share of what the judge accepts that people call true"),
    ("Recall", lambda report: report.recall, "share of what people call true that the judge accepts"),
    ("Coverage", lambda report: report.coverage, "share of the answered on which the judge decides"),
)


def _agreement_row(
    report: Calibration, share: ShareEstimate | None, producers: Mapping[str, Producer]
) -> dict[str, Json]:
    """A bar of one judge beside people; it opens the episodes of the dataset that people reviewed."""
    reviewed = [
        ColumnFilter(column="dataset", values=(report.dataset,)),
        ColumnFilter(column="reviewed", values=("true",)),
    ]
    # The audit of instructions is no producer of annotations, and says itself what it is.
    judge = _producer_name(producers, report.judge) if report.judge in producers else report.model
    name = f"{_question_words(report.question)}, {report.dataset}, {judge}"
    parts = [_make_part("good", share.share, "reviewed", reviewed)] if share else []
    kappa = "" if report.kappa is None else f"; kappa {report.kappa:.2f}"
    text = f"{_estimate_text(share)} of {report.random_items}{kappa}"
    return _make_row(name, _browse_link(reviewed), parts, share, text)


def _draw_certificates() -> None:
    """Draw what people certify, and why it holds no more."""
    from ares.workspace import find_certified_sets

    stores = cached_reads.workspace().stores
    st.subheader("Certified sets")
    for item in cached_reads.limited(lambda: list(find_certified_sets(stores))):
        (st.warning if item.void else st.success)(escape_markdown(item.describe()))
    st.caption(
        "Accepted captions of which at least a share is true, with 95 % confidence. Half of the answers on captions "
        "drawn at random chooses a cut, the other half tests it. Where that does not show it, the page says how many "
        "answers are missing."
    )
    with st.form("review.certify"):
        columns = st.columns([2, 1, 3, 1], vertical_alignment="bottom")
        columns[0].text_input("Name of the set", "certified", 80, key=_CERTIFIED_NAME)
        columns[1].number_input("Precision", 0.5, 0.99, 0.95, 0.01, key=_PRECISION)
        columns[2].text_input(
            "Only episodes that fulfil (SQL)",
            key=_CERTIFIED_WHERE,
            placeholder="dataset = 'lids'",
            help="By columns of the source, and the same as in the queue that was answered. Empty: all.",
        )
        certify = guard_field(_CERTIFIED_NAME, _certify_set)
        columns[3].form_submit_button("Certify", on_click=certify)
    draw_refusal(_CERTIFIED_NAME)


def _certify_set() -> None:
    """Freeze what people's answers certify, or say why they do not."""
    name, where = entered_text(_CERTIFIED_NAME), entered_text(_CERTIFIED_WHERE)
    precision = float(entered_text(_PRECISION, "0.95"))
    sets = cached_reads.workspace().sets
    with acting_as(read_person_name()):
        cached_reads.limited(partial(sets.create_certified, name, precision, where=where), where)
