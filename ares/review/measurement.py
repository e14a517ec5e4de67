"""How many of the accepted captions of a dataset are true, by people's answers: a bound that holds at every look."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.console import count_of
from ares.errors import RequestError
from ares.review.answers import read_answer
from ares.review.labels import person_settings
from ares.review.measurement_drawing import (
    CAPTION,
    Drawing,
    MeasuredQuestion,
    Population,
    count_populations,
    draw_measurement,
    find_accepted_episodes,
    find_drawing,
    find_measured_question,
    find_measured_subjects,
    has_grown,
    list_drawings,
    list_people,
    read_drawn_items,
)
from ares.review.queue import QueueItem, ReviewQueue
from ares.store import batched, ids_filter, keep_newest_annotations

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.episode import Json
    from ares.review.answers import Answer
    from ares.store import Stores


# What is measured unless another share is asked for, and answers after which a measurement ends in any case.
USUAL_SHARE, MOST_ANSWERS = 0.90, 300
# Before anybody has answered, the share of true ones is as after 9.5 true and half a false one.
_TRUE_BEFORE, _FALSE_BEFORE = 9.5, 0.5
_ERROR, _BISECTIONS, _MOST_MISSING = 0.05, 50, 1_000_000
# Answers from which on a part is compared with the rest.
_LEAST_OF_PART = 20
_ROUNDING, _EPISODES_PER_READ = 1e-9, 10_000
_ADJUDICATED = "adjudicate"


@lru_cache(maxsize=10_000)
def bound_true_share(true: int, answers: int) -> float:
    """The lower bound of a share of true answers, with 95 % confidence at all looks at a growing sample together.

    The likelihoods of all shares are mixed by a beta distribution. Divided by the likelihood of the true share, the
    mixture is a martingale that reaches 20 in at most one of 20 samples (Ville, 1939; Robbins, 1970).

    Args:
        true: Answers that are true.
        answers: All answers.

    Returns:
        0.90 for 36 of 36, 0.95 for 81 of 81 and for 139 of 140.
    """
    if not true:
        return 0.0
    false = answers - true
    mixed = _log_beta(true + _TRUE_BEFORE, false + _FALSE_BEFORE) - _log_beta(_TRUE_BEFORE, _FALSE_BEFORE)
    low, high = 0.0, true / answers
    for _ in range(_BISECTIONS):
        share = (low + high) / 2
        ratio = mixed - true * math.log(share) - false * math.log1p(-share)
        low, high = (share, high) if ratio >= -math.log(_ERROR) else (low, share)
    return low


def _log_beta(first: float, second: float) -> float:
    return math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second)


def count_missing_answers(true: int, answers: int, at_least: float) -> int:
    """How many more answers show a share, if none of them is an error."""
    low, high = -1, 64
    while bound_true_share(true + high, answers + high) < at_least and high < _MOST_MISSING:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_shown = bound_true_share(true + middle, answers + middle) >= at_least
        low, high = (low, middle) if is_shown else (middle, high)
    return high


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
        question: "caption", "segment", "success", "instruction", or a criterion.
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
        known = self.true / self.drawn_from if self.drawn_from else 0.0
        return max(known, bound_true_share(self.true, self.answers))

    def best_bound(self) -> float:
        """The bound if all answers that are left were true."""
        asked = self.answers + self.unsure + self.unseen
        left = max(0, min(MOST_ANSWERS - self.answers, self.drawn_from - asked))
        known = (self.true + left) / self.drawn_from if self.drawn_from else 0.0
        return max(known, bound_true_share(self.true + left, self.answers + left))

    def is_finished(self, at_least: float) -> bool:
        """Whether a share is shown, cannot be shown any more, or was asked about for long enough."""
        is_decided = self.bound >= at_least or self.best_bound() < at_least
        return is_decided or self.answers >= MOST_ANSWERS

    def describe_missing(self, at_least: float) -> str:
        """How many answers show a share: "9 more without an error would show 90 %"."""
        missing = count_missing_answers(self.true, self.answers, at_least)
        if self.drawn_from:
            missing = min(missing, max(0, math.ceil(at_least * self.drawn_from - _ROUNDING) - self.true))
        count = f"{missing} more" if self.answers else count_of(missing, "answer")
        return f"{count} without an error would show {_format_share(at_least)}"

    def describe_bound(self) -> str:
        """The bound in short: "at least 87 % (31 answers)"."""
        if not self.answers:
            return "not measured"
        return f"at least {_format_share(self.bound)} ({count_of(self.answers, 'answer')})"

    def __str__(self) -> str:
        what, right = self.what
        if not self.answers:
            parts = [f"{what}: not measured: {self.describe_missing(USUAL_SHARE)}"]
        else:
            by = f"{count_of(self.answers, 'answer')} of {count_of(len(self.people), 'person', 'people')}"
            share = f"{_format_share(self.true / self.answers)} {right}"
            parts = [f"{what}: {share}, at least {_format_share(self.bound)} ({by})"]
        return "; ".join([*parts, *self._list_remarks()])

    def _list_remarks(self) -> Iterator[str]:
        if self.question not in _UNCHOSEN and self.total:
            yield f"{_format_share(self.accepted / self.total)} of all are accepted"
        if self.answers and self.measured < self.accepted:
            yield f"measured: {self.measured:,} of {self.accepted:,} episodes"
        for part in self.worse:
            yield f"worse where {part.name} is {part.value}: {part.true} of {part.answers} {self.what[1]}"
        if self.compared:
            yield f"two people agree on {self.agreed} of {self.compared}"
        if self.refused:
            yield f"{self.refused_true} of {self.refused} refused ones are {self.what[1]}, too"
        if self.unsure:
            yield f"{self.unsure} cannot be told"
        if self.unseen:
            yield f"{count_of(self.unseen, 'answer')} without a clip not counted"

    def to_json(self) -> dict[str, Json]:
        """The numbers, the bound, and "says", the line."""
        fields = {**asdict(self), "what": list(self.what), "people": list(self.people)}
        worse: list[Json] = [dict(part._asdict()) for part in self.worse]
        return {**fields, "worse": worse, "bound": round(self.bound, 6), "says": str(self)}


# Questions of which nothing is accepted or refused.
_UNCHOSEN = ("success", "instruction")


def _format_share(share: float) -> str:
    """A share in percent, never more than it is."""
    return f"{math.floor(100 * share + _ROUNDING)} %"


class _Verdict(NamedTuple):
    """What one person says of a subject."""

    person: str
    verdict: str
    is_shown: bool
    is_last_word: bool
    queue: str
    item: int


def _read_verdicts(
    stores: Stores, asked: str, items: Iterable[Mapping[str, Any]]
) -> dict[str, list[_Verdict]]:
    """What people say of the subjects of some items and counts, by subject."""
    rows = list(items)
    subjects, people = {row["subject"] for row in rows}, sorted(list_people(stores))
    ids = sorted({row["episode_id"] for row in rows})
    found = stores.annotations.find_annotations(ids, maker_ids=people) if people and ids else ()
    verdicts: dict[str, list[_Verdict]] = {}
    for annotation in keep_newest_annotations(found):
        answer = None if annotation.is_withdrawn else read_answer(annotation)
        if answer and answer.question == asked and annotation.subject in subjects:
            verdicts.setdefault(annotation.subject, []).append(_make_verdict(annotation, answer))
    return verdicts


def _make_verdict(annotation: Annotation, answer: Answer) -> _Verdict:
    person, is_last = answer.person.strip(), answer.drawn == _ADJUDICATED
    return _Verdict(person, answer.verdict, answer.shown, is_last, answer.queue, answer.item)


def _judge_verdicts(verdicts: Sequence[_Verdict], expected: str) -> str:
    """What people say of an item together: "true", "false", "unsure", "unseen", or "" where nobody has answered.

    An item on which people differ is false, until a third has decided.
    """
    shown = [item for item in verdicts if item.is_shown]
    if not shown:
        return "unseen" if verdicts else ""
    words = [item.verdict for item in shown if item.is_last_word] or [item.verdict for item in shown]
    told = {word for word in words if word != "unsure"}
    return "unsure" if not told else "true" if told == {expected} else "false"


def _count_asked(
    drawing: Drawing, rows: Sequence[Mapping[str, Any]], verdicts: Mapping[str, Sequence[_Verdict]]
) -> int:
    """How many items, from the first on, were asked: these are a random sample, which those behind would bias."""
    said = (item for items in verdicts.values() for item in items)
    asked = max((item.item + 1 for item in said if item.queue == drawing.queue.name), default=0)
    while asked < len(rows) and rows[asked]["subject"] in verdicts:
        asked += 1
    return asked


class _Measured(NamedTuple):
    """What was measured, and of which drawing."""

    share: MeasuredShare
    drawing: Drawing | None


def _read_measured(stores: Stores, population: Population, drawings: Iterable[Drawing]) -> _Measured:
    """What people's answers say of a population, by the newest drawing of its makers that is far enough.

    Answers about other makers do not count.
    """
    start = MeasuredShare(
        dataset=population.dataset,
        question=population.question.name,
        what=population.question.what,
        drawn_from=population.accepted,
        accepted=population.by_anybody,
        total=population.total,
    )
    measured = [
        _Measured(_read_drawing(stores, population, drawing), drawing)
        for drawing in drawings
        if _is_of(drawing, population)
    ]
    most = max((item.share.answers for item in measured), default=0)
    # One that was only begun is waited for: the one before speaks of what was there then.
    counting = (
        item
        for item in reversed(measured)
        if item.share.answers >= most or item.share.is_finished(USUAL_SHARE)
    )
    return next(counting, _Measured(start, None))


def _is_of(drawing: Drawing, population: Population) -> bool:
    key = (drawing.dataset, drawing.question, drawing.makers)
    return key == (population.dataset, population.question.name, population.makers)


def _read_drawing(stores: Stores, population: Population, drawing: Drawing) -> MeasuredShare:
    """What the answers to the items of a drawing say of what is there now."""
    current = dict(find_measured_subjects(stores, drawing, accepts_refuted=True))
    share, entered = _count_answers(stores, population.question, drawing, current)
    return replace(
        share,
        worse=tuple(_find_worse_parts(stores, entered)),
        measured=len(current),
        accepted=population.by_anybody,
        total=population.total,
    )


def _count_answers(
    stores: Stores, question: MeasuredQuestion, drawing: Drawing, current: Collection[str] | None = None
) -> tuple[MeasuredShare, list[_Entry]]:
    """The answers to the items of a drawing, counted, and those that enter the bound.

    Args:
        stores: Stores of the workspace.
        question: The question.
        drawing: The drawing.
        current: What of it is still as it was; None for all.
    """
    rows = read_drawn_items(stores, drawing)
    verdicts = _read_verdicts(stores, question.asked, rows)
    counts, entered, refused, answered = Counter[str](), list[_Entry](), list[bool](), list[list[_Verdict]]()
    for row in rows[: _count_asked(drawing, rows, verdicts)]:
        said = verdicts.get(row["subject"], [])
        outcome = _judge_verdicts(said, question.words.get(row["word"], "met"))
        is_told = outcome in ("true", "false")
        if is_told or outcome == "unsure":
            answered.append([item for item in said if item.is_shown])
        if is_told and row["word"] == question.refused != "":
            refused.append(outcome == "true")
        # An answer may be why a text was written again: an error stays, what was true leaves with its text.
        elif is_told and (outcome == "false" or current is None or row["subject"] in current):
            entered.append(_Entry(row["episode_id"], outcome == "true"))
        elif not is_told:
            counts[outcome] += 1
    several = [items for items in answered if len(items) > 1]
    share = MeasuredShare(
        dataset=drawing.dataset,
        question=question.name,
        what=question.what,
        answers=len(entered),
        true=sum(entry.is_true for entry in entered),
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


class _Entry(NamedTuple):
    """An answer that enters the bound."""

    episode_id: str
    is_true: bool


def _find_worse_parts(stores: Stores, entries: Sequence[_Entry]) -> Iterator[WorsePart]:
    """Yield the parts with 20 answers or more of which fewer are true than of the rest.

    By Fisher's exact test at 5 %, one-sided, divided by the number of parts.
    """
    episodes, columns = stores.tables.episodes, ["episode_id", "instruction", "success", "cameras"]
    late = ["person_success"] if "person_success" in episodes.columns() else []
    ids = ids_filter({entry.episode_id for entry in entries})
    rows = {row["episode_id"]: row for row in episodes.read_columns([*columns, *late], ids).to_pylist()}
    parts: dict[tuple[str, str], list[bool]] = {}
    for entry in entries:
        for part in _list_parts(rows.get(entry.episode_id)):
            parts.setdefault(part, []).append(entry.is_true)
    true, total = sum(entry.is_true for entry in entries), len(entries)
    compared = {part: hits for part, hits in parts.items() if _LEAST_OF_PART <= len(hits) < total}
    for (name, value), hits in sorted(compared.items()):
        errors = len(hits) - sum(hits)
        if _chance_of_errors(errors, len(hits), total - true, total) * len(compared) <= _ERROR:
            yield WorsePart(name, value, sum(hits), len(hits))


def _list_parts(row: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if row is None:
        return
    said = row.get("person_success")
    outcome = row["success"] if said is None else said
    yield "outcome", {True: "success", False: "failure"}.get(outcome, "not known")
    if row["instruction"]:
        yield "task", row["instruction"]
    for camera in row["cameras"] or ():
        yield "camera", camera["name"]


def _chance_of_errors(errors: int, answers: int, all_errors: int, all_answers: int) -> float:
    """The chance that a random part of all answers has so many errors or more."""
    tail = sum(
        math.comb(all_errors, number) * math.comb(all_answers - all_errors, answers - number)
        for number in range(errors, min(all_errors, answers) + 1)
    )
    return tail / math.comb(all_answers, answers)


def read_measured_shares(stores: Stores) -> dict[str, list[MeasuredShare]]:
    """By dataset what was measured of each question, and of captions also where nothing was."""
    drawings, shares = list_drawings(stores), dict[str, list[MeasuredShare]]()
    names = dict.fromkeys([CAPTION, *sorted({drawing.question for drawing in drawings})])
    for name in names:
        populations = count_populations(stores, find_measured_question(stores, name), drawings)
        for dataset, population in populations.items():
            share = _read_measured(stores, population, drawings).share
            if share.answers or name == CAPTION:
                shares.setdefault(dataset, []).append(share)
    return dict(sorted(shares.items()))


class Measurement:
    """A measurement in use: asks one person, shows clips, and counts what all have answered.

    Args:
        stores: Stores of the workspace.
        dataset: The dataset.
        question: "caption", "segment", "success", "instruction", or a criterion such as "VERB".
        at_least: The share that is to be shown, above 0 and below 1.
        person: Who answers.
        drawing: What is asked; None for the last one, or a new one where more was graded since.

    Raises:
        RequestError: There is no such dataset or question, nothing to measure, or the share or the name is none.
    """

    def __init__(
        self,
        stores: Stores,
        dataset: str,
        question: str = CAPTION,
        *,
        at_least: float,
        person: str,
        drawing: Drawing | None = None,
    ) -> None:
        check_share(at_least)
        self.at_least, self.person = at_least, str(person_settings(person)["person"])
        self._stores, self._dataset = stores, dataset
        self._question = find_measured_question(stores, question)
        self._drawing = drawing
        self._queue: ReviewQueue | None = None
        self._shown: set[tuple[str, int]] = set()
        share = self.progress if drawing else self.share
        if not share.answers and share.best_bound() < at_least:
            most = f"{MOST_ANSWERS} answers without an error show {_format_share(share.best_bound())}"
            raise RequestError(f"{_format_share(at_least)} cannot be shown", most)

    @property
    def share(self) -> MeasuredShare:
        """What the answers of all people say now."""
        drawings = list_drawings(self._stores)
        return _read_measured(self._stores, self._find_population(drawings), drawings).share

    @property
    def progress(self) -> MeasuredShare:
        """The answers of all people to what is asked, without what the tables say; quicker than `share`."""
        return _count_answers(self._stores, self._question, self.drawing)[0]

    @property
    def drawing(self) -> Drawing:
        """What is asked; it is drawn when it is first needed, and again where more was graded since."""
        if self._drawing is None:
            self._drawing = self._find_drawing()
        return self._drawing

    @property
    def queue(self) -> ReviewQueue:
        """The queue of the drawing."""
        if self._queue is None:
            self._queue = ReviewQueue(self._stores, self.drawing.queue.name)
        return self._queue

    def next(self) -> QueueItem | None:
        """What the person is asked next; None where the measurement is finished, or nothing is left."""
        is_finished = self.progress.is_finished(self.at_least)
        return None if is_finished else self.queue.next(self.person)

    def clips(self, item: QueueItem) -> list[Path]:
        """Videos of an item, one for each camera, to be opened; answers count from then on."""
        from ares.media import browser_video

        episode = self._stores.tables.episodes.get_episode(item.episode_id)
        paths = [
            browser_video(camera.media, "h264", self._stores.media_cache) for camera in episode.good_cameras
        ]
        if paths:
            self._shown.add((item.queue, item.item))
        return paths

    def answer(self, item: QueueItem, verdict: str, **fields: Any) -> Annotation:
        """Store what the person says of an item: "met", "unmet" or "unsure"; of outcomes "success" or "failure".

        An answer before `clips` were asked for is kept, and does not count.

        Raises:
            RequestError: The answer is none that can be given.
        """
        is_shown = (item.queue, item.item) in self._shown
        return self.queue.answer(item, self.person, verdict, **{"shown": is_shown, **fields})

    def undo(self) -> QueueItem | None:
        """Take the last answer of the person back, and ask it again; None where nothing is left to take back."""
        return self.queue.undo(self.person)

    def __str__(self) -> str:
        return f"{self._dataset}: {self.share}"

    def _find_population(self, drawings: Iterable[Drawing]) -> Population:
        populations = count_populations(self._stores, self._question, drawings)
        if self._dataset not in populations:
            names = ", ".join(populations) or "none yet: `ares annotate` makes them"
            raise RequestError(
                f"dataset {self._dataset!r} has no {self._question.what[0]}", f"there are of: {names}"
            )
        return populations[self._dataset]

    def _find_drawing(self) -> Drawing:
        drawings = list_drawings(self._stores)
        population = self._find_population(drawings)
        known = [drawing for drawing in drawings if _is_of(drawing, population)]
        if known and not has_grown(self._stores, known[-1]):
            return known[-1]
        before = known[-1] if known else None
        answered = set[str]()
        for drawing in known:
            rows = read_drawn_items(self._stores, drawing)
            verdicts = _read_verdicts(self._stores, self._question.asked, rows)
            answered |= {subject for subject, said in verdicts.items() if any(item.is_shown for item in said)}
        return draw_measurement(self._stores, population, self.person, answered, before)


def open_measurement(stores: Stores, queue: str, person: str) -> Measurement | None:
    """The measurement that a queue was drawn for; None for another queue."""
    drawing = find_drawing(ReviewQueue(stores, queue).queue)
    if drawing is None:
        return None
    dataset, question = drawing.dataset, drawing.question
    return Measurement(stores, dataset, question, at_least=USUAL_SHARE, person=person, drawing=drawing)


def check_share(at_least: float) -> None:
    """Raise RequestError for a share that nothing can show."""
    if not 0 < at_least < 1:
        raise RequestError(f"a share of {at_least:g} cannot be shown", "give one above 0 and below 1")


def describe_measured(stores: Stores, episode_ids: Iterable[str]) -> dict[str, Json]:
    """What was measured of each dataset that some episodes are of, by question: the numbers, and "says", the line."""
    datasets, shares = _list_datasets(stores, episode_ids), read_measured_shares(stores)
    return {
        dataset: {share.question: share.to_json() for share in shares[dataset]}
        for dataset in sorted(datasets & shares.keys())
    }


def keep_measured_episodes(
    stores: Stores, episode_ids: Iterable[str], at_least: float, accepts_refuted: bool = False
) -> list[str]:
    """Those of some episodes whose captions were measured or accepted by people, where the bounds are enough.

    Args:
        stores: Stores of the workspace.
        episode_ids: The episodes; each of their datasets has to be measured.
        at_least: Share of true captions that is asked for.
        accepts_refuted: Whether captions of a refuted judge are among them.

    Raises:
        RequestError: The bound of a dataset is lower: says how many answers are missing.
    """
    check_share(at_least)
    ids, question, drawings = (
        list(episode_ids),
        find_measured_question(stores, CAPTION),
        list_drawings(stores),
    )
    populations, refusals = count_populations(stores, question, drawings), list[str]()
    measured = set[str]()
    for dataset in sorted(_list_datasets(stores, ids)):
        if dataset not in populations:
            refusals.append(f"{dataset}: no accepted captions")
            continue
        share, drawing = _read_measured(stores, populations[dataset], drawings)
        if drawing is None or share.bound < at_least:
            missing, name = share.describe_missing(at_least), shlex.quote(dataset)
            refusals.append(f"{dataset}: {share.describe_bound()}; {missing}: ares review measure {name}")
        else:
            subjects = find_measured_subjects(stores, drawing, accepts_refuted)
            measured.update(episode_id for _, episode_id in subjects)
    if refusals:
        raise RequestError(f"{_format_share(at_least)} of true captions is not shown", "; ".join(refusals))
    return [episode_id for episode_id in ids if episode_id in measured]


def refuse_unmeasured(
    stores: Stores, episode_ids: Iterable[str], at_least: float, accepts_refuted: bool = False
) -> None:
    """Raise RequestError as `keep_measured_episodes`, and for accepted captions that were not measured."""
    ids = list(episode_ids)
    measured = set(keep_measured_episodes(stores, ids, at_least, accepts_refuted))
    accepted = find_accepted_episodes(stores, accepts_refuted).intersection(ids)
    if others := len(accepted - measured):
        remedy = (
            f"`ares set create NAME --set SET --min-precision {at_least:g}` makes the set of the measured"
        )
        raise RequestError(
            f"{count_of(others, 'accepted caption')} of {len(accepted):,} not measured, as they came later",
            remedy,
        )


def _list_datasets(stores: Stores, episode_ids: Iterable[str]) -> set[str]:
    datasets = set[str]()
    for ids in batched(episode_ids, _EPISODES_PER_READ):
        rows = stores.tables.episodes.read_columns(["dataset"], ids_filter(ids))
        datasets.update(rows["dataset"].unique().to_pylist())
    return datasets
