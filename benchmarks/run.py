"""Runs benchmarks by number, all of them by default, and prints one table."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from benchmarks.accelerator import benchmark_embedding
from benchmarks.access import benchmark_frame_access
from benchmarks.exports import (
    benchmark_lerobot_export,
    benchmark_loader,
    benchmark_rlds_export,
)
from benchmarks.facets import benchmark_facets, benchmark_table_operations
from benchmarks.ingest import benchmark_labels, benchmark_lerobot, benchmark_rlds, benchmark_video
from benchmarks.memory import memory_table
from benchmarks.startup import benchmark_startup, benchmark_text_search
from benchmarks.timing import BenchmarkResult, results_table
from benchmarks.vectors import benchmark_vector_search

# Benchmark by its number in benchmarks/README.md; each takes sizes, and the most rounds.
BENCHMARKS: dict[str, Callable[..., Iterator[BenchmarkResult]]] = {
    "1": benchmark_rlds,
    "2": benchmark_lerobot,
    "3": benchmark_video,
    "4": benchmark_lerobot_export,
    "5": benchmark_rlds_export,
    "6": benchmark_frame_access,
    "7": benchmark_vector_search,
    "9": benchmark_facets,
    "10": benchmark_embedding,
    "14": benchmark_loader,
    "16": benchmark_startup,
    "18": benchmark_table_operations,
    "19": benchmark_text_search,
    "23": benchmark_labels,
}
# A benchmark without number, which prints a separate table.
MEMORY = "memory"


def main() -> None:
    """Measure and print; an unknown number is an error that lists the known ones."""
    parser = argparse.ArgumentParser(description="Each benchmark runs ARES and its peer alternately.")
    available = [*BENCHMARKS, MEMORY]
    parser.add_argument("numbers", nargs="*", help=f"of {', '.join(available)}; all when left out")
    parser.add_argument("--sizes", nargs="+", type=int, help="in place of those of README.md")
    parser.add_argument("--rounds", type=int, help="at most so many; 0 shows only that a benchmark runs")
    arguments = parser.parse_args()
    requested = arguments.numbers or available
    if unknown := sorted(set(requested) - set(available)):
        parser.error(f"unknown benchmark {', '.join(unknown)}; choose from: {', '.join(available)}")
    sizes: dict[str, Any] = {"sizes": arguments.sizes} if arguments.sizes else {}
    rounds: dict[str, Any] = {} if arguments.rounds is None else {"rounds": arguments.rounds}
    print(f"{datetime.now(UTC):%Y-%m-%d}, {_machine_text()}\n")
    numbers = [number for number in requested if number != MEMORY]
    if numbers:
        rows = [row for number in numbers for row in BENCHMARKS[number](**sizes, **rounds)]
        print(results_table(rows), end="\n\n")
    if MEMORY in requested:
        print(memory_table(**sizes))


def _machine_text() -> str:
    python = platform.python_version()
    return f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {python}"


if __name__ == "__main__":
    main()
