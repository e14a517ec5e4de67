"""What a job says while it runs, and leaves behind: progress, counts of its items, its cost, failures by reason."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO, TypedDict, cast

from ares.annotation import Cost, short_hash
from ares.console import is_quiet, showing_progress, visible
from ares.episode import Json
from ares.errors import AresError
from ares.jobs.job_results import JobCounts, ReasonCount
from ares.store import ids_filter

if TYPE_CHECKING:
    import rich.progress

    from ares.store import AnnotationStore, Stores


class CountFields(TypedDict):
    """The fields of `JobCounts`."""

    planned: int
    kept: int
    already: int
    failed: int
    accepted: int
    failures: tuple[ReasonCount, ...]
    warnings: tuple[ReasonCount, ...]
    seconds: float


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

    def fields(self) -> CountFields:
        """The counts as fields of `JobCounts`."""
        return {
            "planned": self.planned,
            "kept": self.kept,
            "already": self.already,
            "failed": self.failed,
            "accepted": self.accepted,
            "failures": _reason_counts(self.failures),
            "warnings": _reason_counts(self.warnings),
            "seconds": self.seconds,
        }

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


FAILURES = "failures"
# Documents: the reason that a person has accepted, by the key of the failure.
ACCEPTED_FAILURES = "accepted_failures"
JOBS = "jobs"
# The subject of a failure that belongs to no episode is this and a hash of the location.
_LOCATION = "at-"


def utc_now() -> str:
    """The present time in UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class FailureLog:
    """The failures of one kind of work; a subject that succeeds later is removed.

    Args:
        store: Where the failures are stored.
        scope: What the failures belong to ("ingest", "caption/<maker_id>").
    """

    def __init__(self, store: AnnotationStore, scope: str) -> None:
        self._store = store
        self._scope = scope
        self._has_failures = next(store.find_documents(FAILURES, f"{scope}/"), None) is not None
        self._accepted = {
            key: cast("dict[str, Json]", document).get("reason")
            for key, document in store.find_documents(ACCEPTED_FAILURES, f"{scope}/")
        }

    def record(self, failures: Mapping[str, AresError], successes: Iterable[str]) -> None:
        """Store failures by subject and remove those of subjects that are done now."""
        documents: dict[str, Json] = {
            self._key(subject): {"reason": error.reason, "detail": error.detail, "at": utc_now()}
            for subject, error in failures.items()
        }
        if documents:
            self._store.put_documents(FAILURES, documents)
        self._has_failures = self._has_failures or bool(documents)
        if not self._has_failures:
            return
        resolved = [key for key in map(self._key, successes) if key not in documents]
        if resolved:
            self._store.drop_documents(FAILURES, resolved)
            self._store.drop_documents(ACCEPTED_FAILURES, self._accepted.keys() & resolved)

    def record_locations(self, failures: Mapping[str, AresError]) -> None:
        """Store failures that belong to no episode, by their location: a path or a URL."""
        if not failures:
            return
        documents: dict[str, Json] = {
            self._key(location_subject(location)): {
                "reason": error.reason,
                "detail": error.detail or location,
                "location": location,
                "at": utc_now(),
            }
            for location, error in failures.items()
        }
        self._store.put_documents(FAILURES, documents)

    def forget_locations(self, paths: Collection[str]) -> None:
        """Drop the failures at and below some locations, which are about to be looked at anew."""
        below = tuple(f"{path.rstrip('/')}/" for path in paths)
        self._store.drop_documents(
            FAILURES,
            [
                key
                for key, document in self._store.find_documents(FAILURES, self._key(_LOCATION))
                if f"{cast('dict[str, str]', document)['location']}/".startswith(below)
            ],
        )

    def is_accepted(self, subject: str, error: AresError) -> bool:
        """Whether a person has accepted that this subject fails for this reason."""
        return self._accepted.get(self._key(subject)) == error.reason

    def read(self) -> Iterator[tuple[str, str]]:
        """Every subject that has failed and was not done since, with the reason."""
        for key, document in self._store.find_documents(FAILURES, f"{self._scope}/"):
            if isinstance(document, dict):
                yield key.rpartition("/")[2], str(document.get("reason", ""))

    def _key(self, subject: str) -> str:
        return f"{self._scope}/{subject}"


def location_subject(location: str) -> str:
    """The subject of a failure at a location: a path, a URL or the rest of a dataset."""
    return f"{_LOCATION}{short_hash(location)}"


def resolved_failures(stores: Stores, keys: Sequence[str]) -> Iterator[str]:
    """Those of some keys of failures ("SCOPE/SUBJECT") whose subject is done now. Raises StoreError."""
    subjects_by_scope: dict[str, list[str]] = {}
    for key in keys:
        scope, _, subject = key.rpartition("/")
        subjects_by_scope.setdefault(scope, []).append(subject)
    for scope, subjects in subjects_by_scope.items():
        if scope == "ingest":
            done = stores.tables.episodes.ids(ids_filter(subjects))
        else:
            done = stores.annotations.find_done_subjects(scope.partition("/")[2], subjects)
        yield from (f"{scope}/{subject}" for subject in subjects if subject in done)


def record_job(store: AnnotationStore, name: str, report: Mapping[str, Json]) -> None:
    """Store the report of a job under the time it ended."""
    store.put_documents(JOBS, {f"{utc_now()}/{name}": {"job": name, **report}})


_MOST_JOBS_MEASURED = 10


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """How fast earlier jobs of one kind were in a workspace.

    Attributes:
        jobs: Number of jobs.
        items: Items that they worked on, those left out that were done before.
        seconds: What that took.
    """

    jobs: int
    items: int
    seconds: float


def measure_rate(store: AnnotationStore, name: str, **same: Json) -> MeasuredRate | None:
    """The rate of the newest jobs of a name whose reports have these values; None where no such job did anything.

    The time of a run of several annotators is shared out by how long each of them worked.

    Args:
        store: The log.
        name: As for `record_job`.
        same: Values of fields of the report.
    """
    reports = [report for _, report in store.find_documents(JOBS) if isinstance(report, dict)]
    together: dict[object, float] = {}
    for report in reports:
        run = report.get("run_seconds")
        together[run] = together.get(run, 0.0) + float(cast("float", report.get("seconds", 0.0)))
    jobs, items, seconds = 0, 0, 0.0
    for report in reversed(reports):
        done = int(cast("int", report.get("kept", 0))) + int(cast("int", report.get("failed", 0)))
        if done and report["job"] == name and all(report.get(key) == value for key, value in same.items()):
            own, run = float(cast("float", report["seconds"])), report.get("run_seconds")
            share = own if run is None else float(cast("float", run)) * own / (together[run] or 1.0)
            jobs, items, seconds = jobs + 1, items + done, seconds + share
        if jobs == _MOST_JOBS_MEASURED:  # older ones may be of another machine
            break
    return MeasuredRate(jobs, items, seconds) if items else None


ProgressWatcher = Callable[[str, int, int | None], None]
_watchers: list[ProgressWatcher] = []


def watch_progress(watcher: ProgressWatcher) -> None:
    """Let a function hear, from any thread, what every `Progress` of this process counts: label, done and total."""
    _watchers.append(watcher)


# As after any silence, see `ares.console`.
LINE_SECONDS = 10.0
_BAR_SECONDS = 0.1
# A job that takes longer than this gets a bar, also before its first item.
_BAR_START_SECONDS = 1.0
# Columns of a terminal from which there is room for the bar itself, and for rate and time left beside the counts.
_WIDE, _MEDIUM = 80, 50
_REFRESHES_PER_SECOND = 4


class Progress:
    """Counts items towards a total and shows count, rate and time left. Safe to update from threads.

    On a terminal it draws a bar; elsewhere it writes a line every ten seconds, also while one item takes longer. A
    total that is passed was wrong, and is shown no more.

    Args:
        label: What is being done.
        total: Items planned, or None when not known.
        stream: Where to write; None for nowhere.
    """

    def __init__(self, label: str, total: int | None, stream: TextIO | None = sys.stderr) -> None:
        self._label, self._total = visible(label), total
        self._stream = None if is_quiet() else stream
        self._started_at = self._shown_at = time.monotonic()
        self._done = 0
        self._is_terminal = bool(self._stream and self._stream.isatty())
        self._bar: _Bar | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._stack = ExitStack()
        if self._stream:
            self._stack.enter_context(showing_progress())
            threading.Thread(target=self._keep_showing, name="progress", daemon=True).start()

    def advance(self, items: int = 1) -> None:
        """Count items that ended, whether they succeeded or failed."""
        with self._lock:
            self._done += items
            for watcher in _watchers:
                watcher(self._label, self._done, self._known_total())
            self._show_if_due(_BAR_SECONDS if self._is_terminal else LINE_SECONDS)

    def close(self) -> None:
        """Show the last state, if anything was shown before or the job took a second."""
        self._closed.set()
        self._stack.close()
        with self._lock:
            if time.monotonic() - self._started_at >= 1.0 or self._shown_at != self._started_at:
                self._show()
            if self._bar:
                self._bar.close()
                self._bar = None

    def line(self) -> str:
        """For example "embed 120/400, 35.2/s, 8 s left"."""
        rate, total = self._rate(), self._known_total()
        text = f"{self._label} {self._done}" + (f"/{total}" if total is not None else "")
        remaining = "" if not total or not rate else f", {(total - self._done) / rate:.0f} s left"
        return f"{text}, {rate:.1f}/s{remaining}"

    def _known_total(self) -> int | None:
        return None if self._total is None or self._done > self._total else self._total

    def _keep_showing(self) -> None:
        """Show a job again in which nothing was counted for long."""
        seconds = _BAR_START_SECONDS if self._is_terminal else LINE_SECONDS
        while not self._closed.wait(max(0.0, self._shown_at + seconds - time.monotonic())):
            with self._lock:
                if not self._closed.is_set():
                    self._show_if_due(seconds)

    def _show_if_due(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._shown_at >= seconds:
            self._shown_at = now
            self._show()

    def _rate(self) -> float:
        return self._done / max(time.monotonic() - self._started_at, 1e-9)

    def _show(self) -> None:
        if not self._stream:
            return
        # A full disk or a closed terminal must not end a job: its answer says what was done.
        with suppress(OSError, ValueError):
            if self._is_terminal:
                self._bar = self._bar or _Bar(self._label, self._total, self._stream)
                self._bar.update(self._done, self._known_total(), self._rate())
            else:
                self._stream.write(f"{self.line()}\n")
                self._stream.flush()


class _Bar:
    """A progress bar of rich, which is imported only here: label, bar, count, rate, time left."""

    def __init__(self, label: str, total: int | None, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import Progress

        # Warnings on standard error appear above the bar; standard output belongs to the command's answer.
        console = Console(file=stream)
        self._progress = Progress(
            *_bar_columns(console.width),
            console=console,
            redirect_stdout=False,
            refresh_per_second=_REFRESHES_PER_SECOND,
        )
        self._task = self._progress.add_task(label, total=total, rate=0.0)
        self._progress.start()

    def update(self, done: int, total: int | None, rate: float) -> None:
        self._progress.update(self._task, completed=done, rate=rate)
        self._progress.tasks[0].total = total  # the update takes None for no change

    def close(self) -> None:
        self._progress.stop()


def _bar_columns(width: int) -> list[rich.progress.ProgressColumn]:
    """Columns of a bar for a terminal of that width: a narrow one has no bar, a very narrow one only the counts."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    label = TextColumn("{task.description}", markup=False)
    timing = [
        TextColumn("{task.fields[rate]:.1f}/s"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    ]
    if width < _MEDIUM:
        return [label, MofNCompleteColumn()]
    if width < _WIDE:
        return [label, MofNCompleteColumn(), *timing]
    return [label, BarColumn(), MofNCompleteColumn(), *timing, TimeElapsedColumn()]
