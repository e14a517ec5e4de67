"""Times two functions alternately and formats the medians as rows of a table."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult:
    """One row of the table of results.

    Attributes:
        number: Number of the benchmark in benchmarks/README.md.
        work: Description of the work.
        ours_seconds: Median time of ARES.
        peer: What ARES is compared with.
        peer_seconds: Median time of the peer.
        target: Target of the ratio or the difference, as text.
    """

    number: int
    work: str
    ours_seconds: float
    peer: str
    peer_seconds: float
    target: str

    @property
    def ratio(self) -> float:
        """Time of ARES divided by that of the peer; below 1, ARES is faster."""
        return self.ours_seconds / self.peer_seconds


def time_alternately(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int = 7
) -> tuple[float, float]:
    """Median seconds of both functions, run alternately after one round that is not counted."""
    ours(), peer()
    pairs = [(_time_once(ours), _time_once(peer)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def run_command(arguments: Sequence[str]) -> Callable[[], object]:
    """A function that runs a program to its end. It raises CalledProcessError when the program fails."""
    return lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def results_table(rows: Sequence[BenchmarkResult]) -> str:
    """Format results as a Markdown table."""
    head = ["| # | work | ours | against | theirs | ratio | difference | target |", "|" + "---|" * 8]
    return "\n".join([*head, *map(_line, rows)])


def _time_once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _line(row: BenchmarkResult) -> str:
    difference = row.ours_seconds - row.peer_seconds
    return (
        f"| {row.number} | {row.work} | {row.ours_seconds:.3f} s | {row.peer} | {row.peer_seconds:.3f} s "
        f"| {row.ratio:.2f} | {difference:+.3f} s | {row.target} |"
    )
