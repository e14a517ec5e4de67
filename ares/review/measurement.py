"""How many of the accepted captions of a dataset are true, by people's answers: a bound that holds at every look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.errors import RequestError
from ares.review.answers import (
    is_about_attribute,
    read_answers,
)
from ares.review.measurement_drawing import (
    CAPTION,
    Drawing,
    MeasuredQuestion,
    Subjects,
    find_measured_question,
    list_drawings,
    read_drawn_items,
)
from ares.statistics import bound_true_share, count_missing_answers, exact_tail
from ares.store import ids_filter

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores


# The end of the name under which a simulation answers in place of people.
NO_PERSON = "(no person)"
# What is measured unless another share is asked for, and answers after which a measurement ends in any case.
USUAL_SHARE, MOST_ANSWERS = 0.90, 300
_ERROR = 0.05
# Answers from which on a part is compared with the rest.
_LEAST_OF_PART = 20
_ROUNDING = 1e-9


class WorsePart(NamedTuple):
    """A part of the episodes in which fewer answers are true than in the rest.

    Attributes:
        name: "outcome", "task" or "camera".
        value: Which.
        true: True answers.
        answers: All answers.
    """

    name: str
    value: str
    true: int
    answers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredShare:
    """What people's answers say of what one maker says in a dataset.

    Attributes:
        dataset: The dataset.
        question: "caption", "segment", "success", "instruction", or the column of an attribute.
        what: What is measured, in words, and what it is where people agree.
        answers: Answers that enter the bound.
        true: Those of them that are true.
        drawn_from: How many the sample was drawn from; 0 before the first drawing.
        people: Who answered.
        unsure: Items on which people cannot tell.
        unseen: Items with answers by somebody who had not been shown the clip.
        refused: Answers on refused ones.
        refused_true: Those of them that are true: refused wrongly.
        compared: Items that two people answered.
        agreed: Those of them on which they agree.
        worse: Parts of the episodes that are worse than the rest.
        measured: What of what is accepted now was drawn from, or accepted by people.
        accepted: All that is accepted now.
        total: All that could be.
    """

    dataset: str
    question: str
    what: tuple[str, str]
    answers: int = 0
    true: int = 0
    drawn_from: int = 0
    people: tuple[str, ...] = ()
    unsure: int = 0
    unseen: int = 0
    refused: int = 0
    refused_true: int = 0
    compared: int = 0
    agreed: int = 0
    worse: tuple[WorsePart, ...] = ()
    measured: int = 0
    accepted: int = 0
    total: int = 0

    @property
    def bound(self) -> float:
        """At least this share is true, with 95 % confidence; what was answered altogether is known."""
        return self._bound(0)

    def best_bound(self) -> float:
        """The bound if all answers that are left were true."""
        return self._bound(self.count_possible())

    def count_possible(self) -> int:
        """How many more answers can enter the bound."""
        return max(0, min(MOST_ANSWERS, self.drawn_from - self.unsure) - self.answers)

    def _bound(self, more: int) -> float:
        true, count = self.true + more, max(1, self.drawn_from)
        return max(true / count, bound_true_share(true, self.answers + more))

    def is_finished(self, at_least: float) -> bool:
        """Whether a share is shown, cannot be shown any more, or was asked about for long enough."""
        return self.bound >= at_least or self.best_bound() < at_least or self.answers >= MOST_ANSWERS

    def describe_missing(self, at_least: float) -> str:
        """How many answers show a share: "9 more without an error would show 90 %"."""
        missing = count_missing_answers(self.true, self.answers, at_least)
        if self.drawn_from:
            missing = min(missing, max(0, math.ceil(at_least * self.drawn_from - _ROUNDING) - self.true))
        count = f"{missing} more" if self.answers else count_of(missing, "answer")
        return f"{count} without an error would show {format_share(at_least)}"

    def __str__(self) -> str:
        what, right = self.what
        if not self.answers:
            parts = [f"{what}: not measured: {self.describe_missing(USUAL_SHARE)}"]
        else:
            by = f"{count_of(self.answers, 'answer')} of {self._who}"
            share = f"{format_share(self.true / self.answers)} {right}"
            parts = [f"{what}: {share}, at least {format_share(self.bound)} ({by})"]
        return "; ".join([*parts, *self._list_remarks()])

    @property
    def _who(self) -> str:
        """The number of people; a simulation in their place by its name."""
        if self.people and all(name.endswith(NO_PERSON) for name in self.people):
            return ", ".join(self.people)
        return count_of(len(self.people), "person", "people")

    def _list_remarks(self) -> Iterator[str]:
        if self.what[0].startswith("accepted") and self.total:
            yield f"{format_share(self.accepted / self.total)} of all are accepted"
        if self.answers and self.measured < self.accepted:
            yield f"measured: {self.measured:,} of {count_of(self.accepted, 'episode', comma=True)}"
        for part in self.worse:
            yield f"worse where {part.name} is {part.value}: {part.true} of {part.answers} {self.what[1]}"
        if self.compared:
            yield f"two people agree on {self.agreed} of {self.compared}"
        if self.refused:
            yield f"{self.refused_true} of {self.refused} refused ones are {self.what[1]}"
        if self.unsure:
            yield f"{self.unsure} cannot be told"
        if self.unseen:
            yield f"{count_of(self.unseen, 'answer')} without a clip not counted"

    def to_json(self) -> dict[str, Json]:
        """The numbers, the bound, and "says", the line."""
        worse: list[Json] = [dict(part._asdict()) for part in self.worse]
        return {**asdict(self), "worse": worse, "bound": round(self.bound, 6), "says": str(self)}


def format_share(share: float) -> str:
    """A share in percent, never more than it is."""
    return f"{math.floor(100 * share + _ROUNDING)} %"


class _Verdict(NamedTuple):
    """What one person says of a subject."""

    person: str
    verdict: str
    is_shown: bool
    queue: str
    item: int


def _read_verdicts(
    stores: Stores, question: str, items: Sequence[Mapping[str, Any]]
) -> dict[str, list[_Verdict]]:
    """What people say of the subjects of some items and counts, by subject."""
    subjects = {row["subject"]: row.get("word") for row in items}
    verdicts: dict[str, list[_Verdict]] = {}
    for annotation, answer in read_answers(stores, {row["episode_id"] for row in items}):
        if answer.question == question and annotation.subject in subjects:
            if is_about_attribute(question) and answer.text != subjects[annotation.subject]:
                continue  # it was said of the value of another model
            words = answer.person.strip(), answer.verdict, answer.shown, answer.queue, answer.item
            verdicts.setdefault(annotation.subject, []).append(_Verdict(*words))
    return verdicts


def _judge_verdicts(verdicts: Sequence[_Verdict], expected: str) -> str:
    """What people say of an item together: "true", "false", "unsure", "unseen", or "" where nobody has answered.

    An item on which people differ is false, until one of them changes the answer.
    """
    shown = [item for item in verdicts if item.is_shown]
    if not shown:
        return "unseen" if verdicts else ""
    words = {item.verdict for item in shown} - {"unsure"}
    return "unsure" if not words else "true" if words == {expected} else "false"


def _count_requested(
    drawing: Drawing, rows: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Sequence[_Verdict]]
) -> int:
    """How many items, from the first on, were asked: these are a random sample, which those behind would bias."""
    answers = (item for items in verdicts.values() for item in items)
    count = max((item.item + 1 for item in answers if item.queue == drawing.queue.name), default=0)
    while count < len(rows) and rows[count]["subject"] in verdicts:
        count += 1
    return count


# Episode of an answer that enters the bound, and whether it is true.
Entry = tuple[str, bool]


class Measured(NamedTuple):
    """What was measured of a dataset, and by which drawing; None where nothing was drawn yet."""

    share: MeasuredShare
    drawing: Drawing | None


class Measurements:
    """What people measured of a question in all datasets; reads the tables once.

    Args:
        stores: Stores of the workspace.
        question: The question.
    """

    def __init__(self, stores: Stores, question: MeasuredQuestion) -> None:
        self._stores, self.question, self._drawings = stores, question, list_drawings(stores)
        self.subjects = Subjects(stores, question, self._drawings)
        self.populations = self.subjects.count_populations(stores, self._drawings)

    def drawings(self, dataset: str) -> list[Drawing]:
        """The drawings of what is measured of a dataset now, the oldest first; answers to others do not count."""
        key = (dataset, self.question.name, self.populations[dataset].makers)
        return [item for item in self._drawings if (item.dataset, item.question, item.makers) == key]

    def read(self, dataset: str) -> Measured:
        """What people's answers say of a dataset, by the newest drawing that is far enough."""
        population = self.populations[dataset]
        what = self.question.describe(population.makers, population.accepted)
        start = MeasuredShare(
            dataset=dataset, question=self.question.name, what=what, drawn_from=population.accepted
        )
        measured = [Measured(self._count(drawing), drawing) for drawing in self.drawings(dataset)]
        most = max((item.share.answers for item in measured), default=0)
        # One that was only begun is waited for: the one before speaks of what was there then.
        far = (
            item
            for item in reversed(measured)
            if item.share.answers >= most or item.share.is_finished(USUAL_SHARE)
        )
        share, drawing = next(far, Measured(start, None))
        return Measured(replace(share, accepted=population.by_anybody, total=population.total), drawing)

    def _count(self, drawing: Drawing) -> MeasuredShare:
        current = set(self.subjects.measured(drawing)["subject"].to_pylist())
        share, entered = count_answers(self._stores, self.question, drawing, current)
        return replace(share, worse=tuple(_find_worse_parts(self._stores, entered)), measured=len(current))


def count_answers(
    stores: Stores, question: MeasuredQuestion, drawing: Drawing, current: Collection[str] | None = None
) -> tuple[MeasuredShare, list[Entry]]:
    """The answers to the items of a drawing, counted, and those that enter the bound.

    Args:
        stores: Stores of the workspace.
        question: The question.
        drawing: The drawing.
        current: What of it is still as it was; None for all.
    """
    rows = read_drawn_items(stores, drawing)
    verdicts = _read_verdicts(stores, question.answered, rows)
    counts, entered, refused, answered = Counter[str](), list[Entry](), list[bool](), list[list[_Verdict]]()
    for row in rows[: _count_requested(drawing, rows, verdicts)]:
        answers = verdicts.get(row["subject"], [])
        outcome = _judge_verdicts(answers, question.words.get(row["word"], "met"))
        is_decided = outcome in ("true", "false")
        if is_decided or outcome == "unsure":
            answered.append([item for item in answers if item.is_shown])
        if is_decided and row["word"] == question.refused != "":
            refused.append(outcome == "true")
        # An answer may be why a text was written again: an error stays, what was true leaves with its text.
        elif is_decided and (outcome == "false" or current is None or row["subject"] in current):
            entered.append((row["episode_id"], outcome == "true"))
        elif not is_decided:
            counts[outcome] += 1
    several = [items for items in answered if len(items) > 1]
    share = MeasuredShare(
        dataset=drawing.dataset,
        question=question.name,
        what=question.describe(drawing.makers, drawing.accepted),
        answers=len(entered),
        true=sum(is_true for _, is_true in entered),
        drawn_from=drawing.accepted,
        people=tuple(sorted({item.person for items in answered for item in items})),
        unsure=counts["unsure"],
        unseen=counts["unseen"],
        refused=len(refused),
        refused_true=sum(refused),
        compared=len(several),
        agreed=sum(len({item.verdict for item in items}) == 1 for items in several),
    )
    return share, entered


def _find_worse_parts(stores: Stores, entries: Sequence[Entry]) -> Iterator[WorsePart]:
    """Yield the parts with 20 answers or more of which fewer are true than of the rest.

    By Fisher's exact test at 5 %, one-sided, divided by the number of parts.
    """
    columns = ["episode_id", "instruction", "success", "cameras"]
    ids = ids_filter({episode_id for episode_id, _ in entries})
    read = stores.tables.episodes.read_columns(columns, ids).to_pylist()
    rows = {row["episode_id"]: row for row in read}
    parts: dict[tuple[str, str], list[bool]] = {}
    for episode_id, is_true in entries:
        for part in _list_parts(rows.get(episode_id)):
            parts.setdefault(part, []).append(is_true)
    true, total = sum(is_true for _, is_true in entries), len(entries)
    compared = {part: hits for part, hits in parts.items() if _LEAST_OF_PART <= len(hits) < total}
    for (name, value), hits in sorted(compared.items()):
        errors = len(hits) - sum(hits)
        if exact_tail(errors, len(hits), total - true, total) * len(compared) <= _ERROR:
            yield WorsePart(name, value, sum(hits), len(hits))


def _list_parts(row: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if row is None:
        return
    yield "outcome", {True: "success", False: "failure"}.get(row["success"], "not known")
    if row["instruction"]:
        yield "task", row["instruction"]
    for camera in row["cameras"] or ():
        yield "camera", camera["name"]


def read_measured_shares(stores: Stores) -> dict[str, list[MeasuredShare]]:
    """By dataset what was measured of each question, and of captions also where nothing was."""
    shares, drawn = dict[str, list[MeasuredShare]](), {drawing.question for drawing in list_drawings(stores)}
    is_graded = find_measured_question(CAPTION).verdict in stores.tables.segments.columns()
    for name in dict.fromkeys([*([CAPTION] if is_graded else []), *sorted(drawn)]):
        measurements = Measurements(stores, find_measured_question(name))
        for dataset, population in measurements.populations.items():
            share = measurements.read(dataset).share
            if share.answers or (name == CAPTION and population.makers.judge):
                shares.setdefault(dataset, []).append(share)
    return dict(sorted(shares.items()))


def check_share(at_least: float) -> None:
    """Raise RequestError for a share that nothing can show."""
    if not 0 < at_least < 1:
        raise RequestError(f"a share of {at_least:g} cannot be shown", "give one above 0 and below 1")


def find_answered(stores: Stores, question: MeasuredQuestion, drawings: Iterable[Drawing]) -> set[str]:
    """The subjects of some drawings that somebody has answered who was shown the clip."""
    rows = [row for drawing in drawings for row in read_drawn_items(stores, drawing)]
    verdicts = _read_verdicts(stores, question.answered, rows)
    return {subject for subject, items in verdicts.items() if any(item.is_shown for item in items)}
