"""Runs benchmarks by number, all of them by default, and prints one table."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from benchmarks.access import benchmark_frame_access
from benchmarks.embed import benchmark_random_vit
from benchmarks.facets import benchmark_facets, benchmark_table_operations
from benchmarks.ingest import benchmark_lerobot, benchmark_rlds, benchmark_video
from benchmarks.memory import benchmark_memory
from benchmarks.memory import peaks_table as peaks
from benchmarks.startup import benchmark_startup
from benchmarks.text_search import benchmark_text_search
from benchmarks.timing import BenchmarkResult, results_table
from benchmarks.vectors import benchmark_vector_search

# Benchmark by its number in benchmarks/README.md.
BENCHMARKS: dict[int, Callable[[], Iterable[BenchmarkResult]]] = {
    1: benchmark_rlds,
    2: benchmark_lerobot,
    3: benchmark_video,
    6: benchmark_frame_access,
    7: benchmark_vector_search,
    9: benchmark_facets,
    10: benchmark_random_vit,
    16: benchmark_startup,
    18: benchmark_table_operations,
    19: benchmark_text_search,
}


# A benchmark without number, which prints a table of its own.
MEMORY = "memory"


def main() -> None:
    """Measure and print; an unknown number is an error that lists the known ones."""
    available = [*map(str, sorted(BENCHMARKS)), MEMORY]
    parser = argparse.ArgumentParser(description="Each benchmark runs ARES and its peer alternately.")
    parser.add_argument("numbers", nargs="*", help=f"of {', '.join(available)}; all when left out")
    parser.add_argument("--rows", nargs="+", type=int, help="sizes of benchmark 7, such as 1000000 10000000")
    arguments = parser.parse_args()
    requested = arguments.numbers or available
    unknown = sorted(set(requested) - set(available))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; choose from: {', '.join(available)}")
    print(f"{datetime.now(UTC):%Y-%m-%d}, {_machine()}\n")
    benchmarks = BENCHMARKS | (
        {7: partial(benchmark_vector_search, arguments.rows)} if arguments.rows else {}
    )
    numbers = [int(number) for number in requested if number != MEMORY]
    if numbers:
        print(results_table([row for number in numbers for row in benchmarks[number]()]), end="\n\n")
    if MEMORY in requested:
        print(peaks(benchmark_memory()))


def _machine() -> str:
    python = platform.python_version()
    return f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {python}"


if __name__ == "__main__":
    main()
