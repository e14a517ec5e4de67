"""Times two functions alternately, or the processors alone, and formats the medians as rows of a table."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BARE_PYTHON = (sys.executable, "-c", "pass")


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
    """Median seconds of both functions, run alternately after one round that counts only where it is all there is."""
    pairs = [(_time_once(ours), _time_once(peer)) for _ in range(rounds + 1)]
    counted = pairs[1:] or pairs
    return statistics.median(pair[0] for pair in counted), statistics.median(pair[1] for pair in counted)


def time_against_python(
    number: int, work: str, ours: Callable[[], object], target: str, rounds: int = 7
) -> BenchmarkResult:
    """A row of a benchmark whose peer is a Python that does nothing."""
    seconds, bare = time_alternately(ours, run_command(BARE_PYTHON), rounds)
    return BenchmarkResult(
        number=number,
        work=work,
        ours_seconds=seconds,
        peer="`python -c pass`",
        peer_seconds=bare,
        target=target,
    )


def run_command(arguments: Sequence[str]) -> Callable[[], object]:
    """A function that runs a program to its end. It raises CalledProcessError when the program fails."""
    return lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)


def processor_seconds(*, only_children: bool = False) -> float:
    """User and system time of this process so far, and of the processes for which it has waited, or of those alone."""
    counted = (
        (resource.RUSAGE_CHILDREN,) if only_children else (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    usage = [resource.getrusage(who) for who in counted]
    return sum(part.ru_utime + part.ru_stime for part in usage)


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
