"""How many calls a judge makes for a caption: measured on a dataset and kept, and before any measurement."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from annotators.models import price_usd
from ares.annotation import Cost
from ares.episode import Json

if TYPE_CHECKING:
    from annotators.base import Subject
    from ares.settings import Price
    from ares.store import Stores


# What a call of a judge is for; "failed" are those of captions that got no grade.
CallKind = Literal["slots", "observation", "comparison", "choice", "words", "question", "failed"]
CALL_KINDS: tuple[CallKind, ...] = get_args(CallKind)
# What calls are counted by: typed captions of the run, sentences without slots, the kinds of controls beside them, and
# the calls that compare values, which all share and which are counted by those that were expected.
CAPTIONS, SENTENCES, COMPARISONS = "captions", "sentences", "comparisons"
TEXT_KINDS = (CAPTIONS, SENTENCES)
# Rows beside the calls: texts about which something was asked, choices that were expected of controls, frames without
# content that were observed, and captions that failed after most of their calls were paid.
_OPEN, _EXPECTED, _SEEN, _TRIED = "asked", "expected", "seen", "tried"
# Of the expected choices those that no comparison of values can spare.
_UNSTATED = "unstated"
JUDGE_RATES = "judge_rates"
_NEAR_MISSES = ("near_miss", f"{SENTENCES}:near_miss")
# So many captions of a process count in full.
_MOST_COUNTED = 200
# What a process keeps for a dataset; what it notes beyond costs a quote little.
_MOST_ROWS = 1_000
# With fewer captions or controls of a kind the defaults are better.
_FEWEST_MEASURED = 5
# The default, a call for each that is expected, weighs as much as so many measured ones.
_EXPECTED_BEFORE = 0.1
# The same of choices of controls: a judge that calls all values the same pays for few of them.
_CHOICES_BEFORE = 1.0


@dataclass(frozen=True, slots=True)
class CallTotals:
    """Calls and their tokens, as numbers that need not be whole.

    Attributes:
        calls: Requests.
        tokens_in: Tokens that a model reads in them.
        tokens_out: Tokens that it writes.
    """

    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(
            self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        )

    def scaled(self, factor: float) -> CallTotals:
        """So many times as many."""
        return CallTotals(self.calls * factor, self.tokens_in * factor, self.tokens_out * factor)

    def to_cost(self, price: Price | None, is_remote: bool) -> Cost:
        """The cost in whole calls and tokens."""
        calls, tokens_in, tokens_out = round(self.calls), round(self.tokens_in), round(self.tokens_out)
        usd = price_usd(price, tokens_in, tokens_out) if is_remote else 0.0
        return Cost(calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, usd=usd)


# Calls for one caption, by kind.
CallRates = Mapping[CallKind, CallTotals]


class RateMeter:
    """Counts the calls of one judge by dataset, and keeps the counts in the log; safe to use from threads.

    Every process has a separate document for each dataset: what several write adds up.

    Args:
        stores: Stores of the workspace.
        maker_id: Producer of the grades.
    """

    def __init__(self, stores: Stores, maker_id: str) -> None:
        self._log, self._maker_id, self._process = stores.annotations, maker_id, uuid.uuid4().hex
        self._counts: dict[str, dict[str, list[float]]] = {}
        self._lock = threading.Lock()

    def add(self, dataset: str, kind: str, calls: Mapping[CallKind, Cost], count: float = 1.0) -> None:
        """Count what was paid; kept by `store`.

        Args:
            dataset: The dataset.
            kind: CAPTIONS, COMPARISONS or the kind of a control.
            calls: What was paid for one caption or control, or for the comparisons of several.
            count: 1, or the number of comparisons that were expected.
        """
        with self._lock:
            counts = self._counts.setdefault(dataset, {})
            total = counts.setdefault(kind, [0.0, 0.0, 0.0])
            if total[0] >= _MOST_COUNTED:
                _fade_counts(counts, kind)
            total[0] += count
            for name, cost in calls.items():
                row = counts.setdefault(f"{kind} {name}", [0.0, 0.0, 0.0])
                for position, amount in enumerate((cost.calls, cost.tokens_in, cost.tokens_out)):
                    row[position] += amount

    def add_open(self, dataset: str, kind: str) -> None:
        """Count a text about which something was asked: of sentences nobody knows before which ones code settles."""
        self._add_to_row(dataset, f"{kind} {_OPEN}", 1.0)

    def add_expected(self, subject: Subject, calls: ControlCalls) -> None:
        """Count the choices that were expected of controls of captions like one, and what no comparison spares."""
        for name, counts in ((_EXPECTED, calls.choices), (_UNSTATED, calls.unstated)):
            for kind, count in counts.items():
                self._add_to_row(subject.episode.dataset, f"{control_kind(kind, subject)} {name}", count)

    def add_known(self, dataset: str, *, blank_frames: Collection[str] = (), tried: str = "") -> None:
        """Note what costs nothing any more.

        Args:
            dataset: The dataset.
            blank_frames: Keys of frames without content that were observed.
            tried: Id of a caption that failed after its frames were observed; its replies so far are kept.
        """
        for name in (*(f"{_SEEN} {key}" for key in blank_frames), *([f"{_TRIED} {tried}"] if tried else ())):
            self._add_to_row(dataset, name, 1.0)

    def _add_to_row(self, dataset: str, name: str, count: float) -> None:
        with self._lock:
            counts = self._counts.setdefault(dataset, {})
            if name in counts or len(counts) < _MOST_ROWS:
                counts.setdefault(name, [0.0, 0.0, 0.0])[0] += count

    def store(self) -> None:
        """Keep what was counted so far."""
        with self._lock:
            documents = {
                _document_key(self._maker_id, dataset) + self._process: {
                    name: list[Json](row) for name, row in counts.items()
                }
                for dataset, counts in self._counts.items()
            }
        if documents:
            self._log.put_documents(JUDGE_RATES, documents)


def _fade_counts(counts: Mapping[str, list[float]], kind: str) -> None:
    """Let older counts weigh less: the more pairs of values are known, the fewer are asked about."""
    for name, row in counts.items():
        if name.split()[0] == kind:
            row[:] = [amount * (1 - 1 / _MOST_COUNTED) for amount in row]


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """What a judge was measured to ask on a dataset.

    Attributes:
        rows: Counted captions and controls, and their calls by kind.
    """

    rows: Mapping[str, CallTotals]

    def per_text(self, kind: str) -> CallRates | None:
        """Calls for one caption or control of a kind; None where too few were counted."""
        count = self._row(kind).calls
        if count < _FEWEST_MEASURED:
            return None
        return {name: self._row(f"{kind} {name}").scaled(1 / count) for name in CALL_KINDS}

    def open_share(self, kind: str) -> float:
        """Share of the texts of a kind about which something was asked; 1 where too few were counted."""
        count, open_texts = self._row(kind).calls, self._row(f"{kind} {_OPEN}").calls
        return open_texts / count if open_texts and count >= _FEWEST_MEASURED else 1.0

    @property
    def same_share(self) -> float:
        """Share of different values that the judge calls the same, by the choices that near misses took."""
        expected, paid = (
            sum(self._row(f"{kind} {name}").calls for kind in _NEAR_MISSES) for name in (_EXPECTED, "choice")
        )
        return max(0.0, 1 - paid / expected) if expected >= _FEWEST_MEASURED else 0.0

    def expect_choices(self, choices: float, unstated: float) -> float:
        """Choices of controls: those of a judge without errors, less what this one spares by its comparisons."""
        return choices - self.same_share * (choices - unstated)

    def per_expected_choice(self, kind: str) -> float | None:
        """Paid choices of the controls of a kind for each one that was expected; None where too few were expected."""
        if self._row(f"{kind} {_EXPECTED}").calls < _FEWEST_MEASURED:
            return None
        rows = (self._row(f"{kind} {name}").calls for name in (_EXPECTED, _UNSTATED))
        expected = self.expect_choices(*rows) + _CHOICES_BEFORE
        return (self._row(f"{kind} choice").calls + _CHOICES_BEFORE) / expected

    def has_seen(self, blank_frames: str) -> bool:
        """Whether frames without content were observed."""
        return f"{_SEEN} {blank_frames}" in self.rows

    def has_tried(self, subject_id: str) -> bool:
        """Whether a caption failed after its frames were observed."""
        return f"{_TRIED} {subject_id}" in self.rows

    @property
    def comparisons(self) -> float:
        """Calls that compare values for each one that was expected."""
        paid, expected = self._row(f"{COMPARISONS} comparison").calls, self._row(COMPARISONS).calls
        return (paid + _EXPECTED_BEFORE) / (expected + _EXPECTED_BEFORE)

    @property
    def per_comparison(self) -> CallTotals:
        """One call that compares values, with its tokens; nothing where none was paid."""
        paid = self._row(f"{COMPARISONS} comparison")
        return paid.scaled(1 / paid.calls) if paid.calls else CallTotals()

    def _row(self, name: str) -> CallTotals:
        return self.rows.get(name, CallTotals())


def read_judge_rates(stores: Stores, maker_id: str, dataset: str) -> MeasuredRates:
    """Calls as they were measured, by all processes.

    Args:
        stores: Stores of the workspace.
        maker_id: Producer of the grades.
        dataset: The dataset.
    """
    rows: dict[str, CallTotals] = {}
    for name, totals in _stored_rows(stores, maker_id, dataset):
        rows[name] = rows.get(name, CallTotals()) + totals
    return MeasuredRates(rows)


def _stored_rows(stores: Stores, maker_id: str, dataset: str) -> Iterator[tuple[str, CallTotals]]:
    for _, document in stores.annotations.find_documents(JUDGE_RATES, _document_key(maker_id, dataset)):
        for name, row in document.items() if isinstance(document, dict) else ():
            if isinstance(row, list):
                yield name, CallTotals(*(float(str(amount)) for amount in row))


def _document_key(maker_id: str, dataset: str) -> str:
    return f"{maker_id}/{dataset}/"


def text_kind(subject: Subject) -> str:
    """What the calls of a caption are counted by: CAPTIONS, or SENTENCES for one whose slots a model has to fill."""
    caption = subject.annotation
    return CAPTIONS if caption is None or caption.value.get("slots") else SENTENCES


def control_kind(kind: str, subject: Subject) -> str:
    """What the calls of a control of a caption are counted by: its kind, those of sentences for themselves."""
    return kind if text_kind(subject) == CAPTIONS else f"{SENTENCES}:{kind}"


class CallExpectation(Protocol):
    """A judge, as far as a quote needs it."""

    def expect_calls(self, subject: Subject) -> CallRates:
        """Calls for one caption of a subject that was not observed, as they are expected before any measurement."""

    def count_open_observations(self, subject: Subject) -> int:
        """Observations that the captions of a subject share and that are still to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCalls:
    """Calls of the controls of some captions, for a judge without errors.

    Attributes:
        controls: Controls by kind.
        choices: Choices among values, by kind of control.
        unstated: Those of them that are left where a judge calls all values the same: about slots that the caption
            does not state, and about outcomes.
        observations: Observations of shuffled frames, and of segments whose captions labels refute, by kind of control.
        blank_frames: Keys of the frames without content, which are observed once each.
        comparisons: Calls that compare values whose answers are not known, and that captions and controls share.
    """

    controls: Mapping[str, int] = field(default_factory=dict)
    choices: Mapping[str, float] = field(default_factory=dict)
    unstated: Mapping[str, float] = field(default_factory=dict)
    observations: Mapping[str, int] = field(default_factory=dict)
    blank_frames: Collection[str] = ()
    comparisons: float = 0.0


class RunQuote:
    """The expected calls of a run: measured ones where a judge has worked on a dataset, else what it expects itself.

    Args:
        stores: Stores of the workspace.
        judge: The judge.
        maker_id: Producer of its grades.

    Attributes:
        total: All calls so far.
    """

    def __init__(self, stores: Stores, judge: CallExpectation, maker_id: str) -> None:
        self.total = CallTotals()
        self._stores, self._judge, self._maker_id = stores, judge, maker_id
        self._measured: dict[str, MeasuredRates] = {}
        self._segments: set[tuple[str, float, float]] = set()
        self._blank_frames: set[tuple[str, str]] = set()

    def has_tried(self, subject: Subject) -> bool:
        """Whether a caption failed after most of its calls were paid, whose replies are kept."""
        return self._rates(subject).has_tried(subject.id)

    def add_caption(self, subject: Subject) -> None:
        """A caption without its comparisons; an observation that others share is counted once."""
        segment = (subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
        kind, rates = text_kind(subject), self._rates(subject)
        if segment not in self._segments and not rates.has_tried(subject.id):
            self._segments.add(segment)
            observations = self._judge.count_open_observations(subject) * rates.open_share(kind)
            self._add(subject, kind, "observation", observations)
        for name, calls in (rates.per_text(kind) or self._judge.expect_calls(subject)).items():
            # Which sentences fill their slots in one call is known before.
            if name not in ("observation", "comparison", "slots"):
                self.total += calls

    def add_fills(self, subject: Subject, count: float) -> None:
        """Calls that fill the slots of sentences like the caption of a subject."""
        self._add(subject, SENTENCES, "slots", count)

    def add_controls(self, subject: Subject, calls: ControlCalls) -> None:
        """Controls of captions like one: as those of their kind were measured, else by the calls they ask for.

        Choices are measured by those that were expected: labels and equal values leave out more in one part of a
        dataset than in another.
        """
        rates = self._rates(subject)
        for name, count in calls.controls.items():
            kind = control_kind(name, subject)
            measured, per_choice = rates.per_text(kind), rates.per_expected_choice(kind)
            expected = rates.expect_choices(calls.choices.get(name, 0.0), calls.unstated.get(name, 0.0))
            left_out = {"comparison", "observation", *(() if per_choice is None else ("choice",))}
            for call in (measured or {}).keys() - left_out:
                self.total += measured[call].scaled(count)  # type: ignore[index]
            if not measured or per_choice is not None:
                self._add(subject, kind, "choice", expected * (1.0 if per_choice is None else per_choice))
            self._add(subject, kind, "observation", calls.observations.get(name, 0))
        dataset = subject.episode.dataset
        new_frames = {(dataset, key) for key in calls.blank_frames if not rates.has_seen(key)}
        self._add(subject, "blank", "observation", len(new_frames - self._blank_frames))
        self._blank_frames |= new_frames

    def add_comparisons(self, subject: Subject, expected: float) -> None:
        """Calls that compare values, of captions and controls together; as many of the expected as were measured."""
        rates = self._rates(subject)
        single = rates.per_comparison
        if not single.calls:
            single = _single_call(self._judge.expect_calls(subject), "comparison")
        self.total += single.scaled(expected * rates.comparisons)

    def _add(self, subject: Subject, text: str, kind: CallKind, count: float) -> None:
        """So many calls of a kind, with the tokens of those that were measured."""
        rates = self._rates(subject)
        known = [rates.per_text(text_kind) or {} for text_kind in (text, *TEXT_KINDS)]
        singles = [_single_call(calls, kind) for calls in (*known, self._judge.expect_calls(subject))]
        single = next((calls for calls in singles if calls.calls), CallTotals())
        self.total += single.scaled(count)

    def _rates(self, subject: Subject) -> MeasuredRates:
        dataset = subject.episode.dataset
        if dataset not in self._measured:
            self._measured[dataset] = read_judge_rates(self._stores, self._maker_id, dataset)
        return self._measured[dataset]


def _single_call(rates: CallRates, kind: CallKind) -> CallTotals:
    """One call of a kind; nothing where there is none."""
    totals = rates.get(kind, CallTotals())
    return totals.scaled(1 / totals.calls) if totals.calls else CallTotals()
