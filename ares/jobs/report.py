"""What a job leaves behind: counts of its items and its cost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields
from typing import Any

from ares.annotation import Cost
from ares.episode import Json
from ares.errors import AresError
from ares.jobs.job_results import JobCounts, ReasonCount


@dataclass(slots=True)
class Tally:
    """How often one reason occurred, and the first example of it."""

    count: int = 0
    example: str = ""


@dataclass(slots=True)
class Report:
    """Counts of one job; `kept + already + failed + open == planned` when it is done. Safe to update from threads."""

    planned: int = 0
    kept: int = 0
    already: int = 0
    failed: int = 0
    accepted: int = 0
    open: int = 0
    failures: dict[str, Tally] = field(default_factory=dict)
    warnings: dict[str, Tally] = field(default_factory=dict)
    lost: dict[str, Tally] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add_planned(self, items: int, already: int = 0) -> None:
        """Count items that were requested, some of which may exist already."""
        with self._lock:
            self.planned += items
            self.already += already

    def add_kept(self, cost: Cost | None = None, items: int = 1) -> None:
        """Count items as done by this job, with their total cost."""
        with self._lock:
            self.kept += items
            self.cost = self.cost + (cost or Cost())

    def add_cost(self, cost: Cost) -> None:
        """Count the cost of something that was not kept: a failure, or a test call."""
        with self._lock:
            self.cost = self.cost + cost

    def add_existing(self, items: int = 1) -> None:
        """Count planned items as existing already."""
        with self._lock:
            self.already += items

    def add_open(self, items: int = 1) -> None:
        """Count planned items that were not tried, and have not failed."""
        with self._lock:
            self.open += items

    def add_failure(self, error: AresError, where: str, is_accepted: bool = False) -> None:
        """Count one item as failed, under its reason; a person may have accepted that it does."""
        with self._lock:
            self.failed += 1
            self.accepted += is_accepted
            _add_to_tally(self.failures, error.reason, _failure_example(where, error.detail))

    def add_warning(self, reason: str, where: str, items: int = 1) -> None:
        """Count a problem that did not stop the items; `where` names the first of them."""
        with self._lock:
            _add_to_tally(self.warnings, reason, where, items)

    def add_lost(self, reason: str, where: str, items: int = 1) -> None:
        """Count data that was given and is stored nowhere; `where` names the first of it."""
        with self._lock:
            _add_to_tally(self.lost, reason, where, items)

    def lost_counts(self) -> tuple[ReasonCount, ...]:
        """What was lost by reason, the most frequent first."""
        return _reason_counts(self.lost)

    def fields(self) -> dict[str, Any]:
        """The counts as fields of `JobCounts`."""
        counts = {part.name: getattr(self, part.name) for part in fields(JobCounts)}
        reasons = {"failures": _reason_counts(self.failures), "warnings": _reason_counts(self.warnings)}
        return counts | reasons

    def to_json(self) -> dict[str, Json]:
        """The counts, as every command prints them."""
        return JobCounts(**self.fields()).to_json()


def _failure_example(where: str, detail: str) -> str:
    """Item and detail of a failure; a detail often begins with the item itself."""
    if not detail:
        return where
    return detail if detail.startswith(where) else f"{where}: {detail}"


def _add_to_tally(tallies: dict[str, Tally], reason: str, example: str, items: int = 1) -> None:
    tally = tallies.setdefault(reason, Tally(example=example))
    tally.count += items


def _reason_counts(tallies: dict[str, Tally]) -> tuple[ReasonCount, ...]:
    ordered = sorted(tallies.items(), key=lambda pair: (-pair[1].count, pair[0]))
    return tuple(
        ReasonCount(reason=reason, count=tally.count, example=tally.example) for reason, tally in ordered
    )
