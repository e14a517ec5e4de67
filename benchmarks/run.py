"""Run benchmarks by number, all of them by default, and print one table."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

from benchmarks.access import access
from benchmarks.embed import random_vit
from benchmarks.facets import facets, operations
from benchmarks.ingest import lerobot, rlds, video
from benchmarks.memory import memory
from benchmarks.memory import table as peaks
from benchmarks.startup import startup
from benchmarks.timing import Row, table
from benchmarks.vectors import vectors

# Number (as in benchmarks/README.md) -> what measures it.
BENCHMARKS: dict[int, Callable[[], Iterable[Row]]] = {
    1: rlds,
    2: lerobot,
    3: video,
    6: access,
    7: vectors,
    9: facets,
    10: random_vit,
    16: startup,
    18: operations,
}


# Beside the numbers: a table of its own.
MEMORY = "memory"


def main() -> None:
    """Measure and print; a number that is not there ends with the list of those that are."""
    there = [*map(str, sorted(BENCHMARKS)), MEMORY]
    parser = argparse.ArgumentParser(description="Each benchmark runs ours and its peer in turn.")
    parser.add_argument("numbers", nargs="*", help=f"of {', '.join(there)}; all when left out")
    parser.add_argument("--rows", nargs="+", type=int, help="sizes of benchmark 7, such as 1000000 10000000")
    given = parser.parse_args()
    wanted = given.numbers or there
    unknown = sorted(set(wanted) - set(there))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are: {', '.join(there)}")
    print(f"{datetime.now(UTC):%Y-%m-%d}, {_machine()}\n")
    known = BENCHMARKS | ({7: partial(vectors, given.rows)} if given.rows else {})
    numbers = [int(one) for one in wanted if one != MEMORY]
    if numbers:
        print(table([row for number in numbers for row in known[number]()]), end="\n\n")
    if MEMORY in wanted:
        print(peaks(memory()))


def _machine() -> str:
    python = platform.python_version()
    return f"{os.cpu_count()} cores {platform.machine()}, {platform.system()}, Python {python}"


if __name__ == "__main__":
    main()
