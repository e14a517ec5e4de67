"""Times `ares check`, `ares annotate motion` and `segment` on generated episodes, and the growth from size to size.

.venv/bin/python -m benchmarks.operation_speed check --episodes 10000
.venv/bin/python -m benchmarks.operation_speed motion --episodes 10000 100000
.venv/bin/python -m benchmarks.operation_speed segment --episodes 10000
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import ares
from benchmarks.synthetic_lerobot import TWO_ARMS, write_lerobot_dataset
from benchmarks.timing import processor_seconds


def main() -> None:
    """Print the seconds by the wall and by the processors for each number of episodes, and the exponents of growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("operation", choices=["check", "motion", "segment"])
    parser.add_argument("--episodes", type=int, nargs="+", default=[10_000])
    arguments = parser.parse_args()
    operation, sizes = arguments.operation, sorted(arguments.episodes)
    measure = _check if operation == "check" else partial(_annotate, operation)
    seconds = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            wall, cpu, outcome = measure(Path(folder), size)
        seconds.append((wall, cpu))
        print(f"{size} episodes: {wall:.1f} s, processors {cpu:.1f} s, {outcome}")
    if len(sizes) > 1:
        growth = log(sizes[-1] / sizes[0])
        exponents = [log(last / first) / growth for first, last in zip(seconds[0], seconds[-1], strict=True)]
        print(f"exponent of growth: {exponents[0]:.2f}, processors {exponents[1]:.2f}")


def _check(folder: Path, episodes: int) -> tuple[float, float, str]:
    """The library call on episodes of 160 steps of two arms."""
    dataset = write_lerobot_dataset(folder / "generated", episodes, steps=160, rate_hz=20, names=TWO_ARMS)
    report, wall, cpu = _timed(lambda: ares.check(str(dataset)))
    return wall, cpu, f"checked {report.num_episodes}, clean {report.is_clean}"


def _annotate(name: str, folder: Path, episodes: int) -> tuple[float, float, str]:
    """Episodes of 30 steps, 7 + 7 dimensions, without the ingestion."""
    dataset = write_lerobot_dataset(folder / "generated", episodes)
    with ares.open(folder / "ws", create=True) as ws:
        ws.ingest(dataset, quiet=True)
        (report,), wall, cpu = _timed(lambda: ws.annotate(name, quiet=True))
    return wall, cpu, f"kept {report.kept}"


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the work gave, and its seconds by the wall and by the processors."""
    start, used = time.monotonic(), processor_seconds()
    result = work()
    return result, time.monotonic() - start, processor_seconds() - used


if __name__ == "__main__":
    main()
