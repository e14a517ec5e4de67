"""Trials of `make torture`, their counts by class, and the table that is printed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_MAX_PROBLEMS_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One attempt to make ARES fail.

    Attributes:
        group: Class of the trial, one row of the table.
        name: What was tried, so that it can be repeated with the same seed.
        problem: What was not as it should be, or "".
        seconds: How long it took.
        peak_bytes: Most memory that the job and its processes had at one moment, or 0 where it was not measured.
        repeat: The arguments of `make torture` that try exactly this again.
    """

    group: str
    name: str
    problem: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0
    repeat: str = ""


# Tries one thing; whatever it chooses at random follows from the seed and its number alone.
Attempt = Callable[[], Trial]


@dataclass(slots=True)
class Tally:
    """Counts of one class of trials."""

    tried: int = 0
    failed: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    peak_bytes: int = 0


@dataclass(slots=True)
class Results:
    """All trials of one run, counted by class; those that failed are kept.

    Attributes:
        tallies: Counts by class.
        failed: The trials with a problem, in order.
        notes: What could not be tried here, and why.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    failed: list[Trial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """How many trials there were so far, and how many of them failed."""
        return f"{sum(tally.tried for tally in self.tallies.values())} tried, {len(self.failed)} failed"

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        tally = self.tallies.setdefault(trial.group, Tally())
        tally.tried += 1
        tally.seconds += trial.seconds
        tally.slowest = max(tally.slowest, trial.seconds)
        tally.peak_bytes = max(tally.peak_bytes, trial.peak_bytes)
        if trial.problem:
            tally.failed += 1
            self.failed.append(trial)
            print(_describe(trial), flush=True)


def _describe(trial: Trial) -> str:
    text = f"FAILED {trial.group}: {trial.name}: {_one_line(trial.problem)}"
    return f'{text}\n  repeat with: make torture ARGS="{trial.repeat}"' if trial.repeat else text


def print_table(results: Results, title: str) -> None:
    """Print the counts of every class as a table, and what failed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    table.add_column("class")
    for name in ("tried", "as it should be", "failed", "seconds", "share", "slowest, s", "peak, MB"):
        table.add_column(name, justify="right")
    total = sum(tally.seconds for tally in results.tallies.values())
    for group, tally in results.tallies.items():
        table.add_row(*map(Text, _cells(group, tally, total)))
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for note in results.notes:
        console.print(f"not tried: {note}")
    for trial in results.failed[:_MAX_PROBLEMS_SHOWN]:
        console.print(_describe(trial))


def _cells(group: str, tally: Tally, total: float) -> Sequence[str]:
    good = tally.tried - tally.failed
    peak = f"{tally.peak_bytes / 2**20:,.0f}" if tally.peak_bytes else ""
    share = tally.seconds / total if total else 0.0
    times = (f"{tally.seconds:.1f}", f"{share:.0%}", f"{tally.slowest:.1f}")
    return (group, str(tally.tried), str(good), str(tally.failed), *times, peak)


def _one_line(text: str) -> str:
    """The text with control characters escaped: what hostile files say is printed too."""
    return " ".join(text.split()).encode("unicode_escape").decode()[:600]
