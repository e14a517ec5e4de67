"""How many calls a judge makes for a caption: measured on a dataset and kept, and before any measurement."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
# Captions are those of the run; controls are what is graded beside them to measure the judge.
GradedKind = Literal["captions", "controls"]
JUDGE_RATES = "judge_rates"
# So many captions of a process count in full.
_MOST_COUNTED = 200
# With fewer captions the defaults are better.
_FEWEST_MEASURED = 5


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

    Every process has a document of its own for each dataset: what several write adds up.

    Args:
        stores: Stores of the workspace.
        maker_id: Maker of the grades.
    """

    def __init__(self, stores: Stores, maker_id: str) -> None:
        self._log, self._maker_id, self._process = stores.annotations, maker_id, uuid.uuid4().hex
        self._counts: dict[str, dict[str, list[float]]] = {}
        self._lock = threading.Lock()

    def add(self, dataset: str, kind: GradedKind, calls: Mapping[CallKind, Cost]) -> None:
        """Count one caption or control, with what was paid for it; kept by `store`."""
        with self._lock:
            counts = self._counts.setdefault(dataset, {})
            count = counts.setdefault(kind, [0.0, 0.0, 0.0])
            if count[0] >= _MOST_COUNTED:
                _fade_counts(counts, kind)
            count[0] += 1
            for name, cost in calls.items():
                row = counts.setdefault(f"{kind} {name}", [0.0, 0.0, 0.0])
                for position, amount in enumerate((cost.calls, cost.tokens_in, cost.tokens_out)):
                    row[position] += amount

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


def _fade_counts(counts: Mapping[str, list[float]], kind: GradedKind) -> None:
    """Let older counts weigh less: the more pairs of values are known, the fewer are asked about."""
    for name, row in counts.items():
        if name.split()[0] == kind:
            row[:] = [amount * (1 - 1 / _MOST_COUNTED) for amount in row]


def read_judge_rates(stores: Stores, maker_id: str, dataset: str, kind: GradedKind) -> CallRates | None:
    """Calls for one caption or control as they were measured; None where too few were.

    Args:
        stores: Stores of the workspace.
        maker_id: Maker of the grades.
        dataset: The dataset.
        kind: Captions or controls.
    """
    rows: dict[str, CallTotals] = {}
    for name, totals in _stored_rows(stores, maker_id, dataset):
        rows[name] = rows.get(name, CallTotals()) + totals
    count = rows.get(kind, CallTotals()).calls
    if count < _FEWEST_MEASURED:
        return None
    return {name: rows.get(f"{kind} {name}", CallTotals()).scaled(1 / count) for name in CALL_KINDS}


def _stored_rows(stores: Stores, maker_id: str, dataset: str) -> Iterator[tuple[str, CallTotals]]:
    for _, document in stores.annotations.find_documents(JUDGE_RATES, _document_key(maker_id, dataset)):
        for name, row in document.items() if isinstance(document, dict) else ():
            if isinstance(row, list):
                yield name, CallTotals(*(float(str(amount)) for amount in row))


def _document_key(maker_id: str, dataset: str) -> str:
    return f"{maker_id}/{dataset}/"


class CallExpectation(Protocol):
    """A judge, as far as a quote needs it."""

    def expect_calls(self, subject: Subject) -> CallRates:
        """Calls for one caption of a subject that was not observed, as they are expected before any measurement."""

    def count_open_observations(self, subject: Subject) -> int:
        """Observations that the captions of a subject share and that are still to be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCalls:
    """Calls of controls before any were measured, for a judge without errors.

    Attributes:
        controls: Controls.
        observations: Observations of changed frames.
        choices: Choices among values.
        comparisons: Calls that compare values.
    """

    controls: float
    observations: float
    choices: float
    comparisons: float

    def scaled(self, factor: float) -> ControlCalls:
        """So many times as many."""
        return ControlCalls(
            controls=self.controls * factor,
            observations=self.observations * factor,
            choices=self.choices * factor,
            comparisons=self.comparisons * factor,
        )


class RunQuote:
    """The expected calls of a run: measured ones where a judge has worked on a dataset, else what it expects itself.

    Args:
        stores: Stores of the workspace.
        judge: The judge.
        maker_id: Maker of its grades.

    Attributes:
        total: All calls so far.
    """

    def __init__(self, stores: Stores, judge: CallExpectation, maker_id: str) -> None:
        self.total = CallTotals()
        self._stores, self._judge, self._maker_id = stores, judge, maker_id
        self._measured: dict[tuple[str, GradedKind], CallRates | None] = {}
        self._segments: set[tuple[str, float, float]] = set()

    def add_caption(self, subject: Subject) -> None:
        """A caption; an observation that others share is counted once."""
        rates = self._rates(subject, "captions")
        segment = (subject.episode.episode_id, subject.start_seconds, subject.stop_seconds)
        if segment not in self._segments:
            self._segments.add(segment)
            self._add_observations(subject, self._judge.count_open_observations(subject))
        self._add(rates, 1.0)

    def add_controls(self, subject: Subject, calls: ControlCalls) -> None:
        """Controls of captions like one: by what controls were measured to cost, else by the calls they ask for."""
        self._add_observations(subject, calls.observations)
        measured = self._measure(subject, "controls")
        if measured:
            self._add(measured, calls.controls)
            return
        expected = self._judge.expect_calls(subject)
        counts: Mapping[CallKind, float] = {"choice": calls.choices, "comparison": calls.comparisons}
        for kind, count in counts.items():
            per_caption = expected.get(kind, CallTotals())
            self.total += per_caption.scaled(count / max(per_caption.calls, 1e-9))

    def _add(self, rates: CallRates, count: float) -> None:
        for kind, calls in rates.items():
            if kind != "observation":
                self.total += calls.scaled(count)

    def _add_observations(self, subject: Subject, count: float) -> None:
        """Observations of one segment, with the tokens of those that were measured."""
        expected = self._judge.expect_calls(subject).get("observation", CallTotals())
        measured = (self._measure(subject, "captions") or {}).get("observation", CallTotals())
        per_segment = measured if measured.calls else expected
        self.total += per_segment.scaled(count / max(per_segment.calls, 1e-9))

    def _rates(self, subject: Subject, kind: GradedKind) -> CallRates:
        return self._measure(subject, kind) or self._judge.expect_calls(subject)

    def _measure(self, subject: Subject, kind: GradedKind) -> CallRates | None:
        key = (subject.episode.dataset, kind)
        if key not in self._measured:
            self._measured[key] = read_judge_rates(self._stores, self._maker_id, *key)
        return self._measured[key]
