"""Timing: two pieces of work in turn, medians of both, and the row of the table that they make."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        number: Of the benchmark, as in benchmarks/README.md.
        work: What was done.
        ours_seconds: Median time of ARES.
        peer: What it is measured against.
        peer_seconds: Its median time.
        target: What the ratio or the difference should be, in words.
    """

    number: int
    work: str
    ours_seconds: float
    peer: str
    peer_seconds: float
    target: str

    @property
    def ratio(self) -> float:
        """Our time over the peer's; below 1 we are faster."""
        return self.ours_seconds / self.peer_seconds


def in_turn(ours: Callable[[], object], peer: Callable[[], object], rounds: int = 7) -> tuple[float, float]:
    """Median seconds of both, run alternately after one round that does not count."""
    ours(), peer()
    pairs = [(_seconds(ours), _seconds(peer)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def command(words: Sequence[str]) -> Callable[[], object]:
    """Work that runs a program to its end. Raises CalledProcessError when it fails."""
    return lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ["| # | work | ours | against | theirs | ratio | difference | target |", "|" + "---|" * 8]
    return "\n".join([*head, *map(_line, rows)])


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _line(row: Row) -> str:
    difference = row.ours_seconds - row.peer_seconds
    return (
        f"| {row.number} | {row.work} | {row.ours_seconds:.3f} s | {row.peer} | {row.peer_seconds:.3f} s "
        f"| {row.ratio:.2f} | {difference:+.3f} s | {row.target} |"
    )
