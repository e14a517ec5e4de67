"""Benchmark 16: start-up time of the command line, against a Python that does nothing."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ares
from benchmarks.synthetic_episodes import add_synthetic_episodes
from benchmarks.timing import BenchmarkResult, run_command, time_alternately

_ARES = str(Path(sys.executable).parent / "ares")
_BARE_PYTHON = [sys.executable, "-c", "pass"]


def benchmark_startup() -> Iterator[BenchmarkResult]:
    """Time `ares --help`, and `ares status` of workspaces from empty to a million episodes."""
    yield _measure_command("`ares --help`", [_ARES, "--help"], "+0.2 s")
    for episodes in (0, 10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/workspace"
            ws = ares.open(path, create=True)
            add_synthetic_episodes(ws, episodes)
            ws.close()
            status = [_ARES, "status", "-w", path, "--json"]
            yield _measure_command(f"`ares status`, {episodes:,} episodes", status, "under 1 s")


def _measure_command(work: str, arguments: list[str], target: str) -> BenchmarkResult:
    ours, bare = time_alternately(run_command(arguments), run_command(_BARE_PYTHON))
    return BenchmarkResult(
        number=16,
        work=work,
        ours_seconds=ours,
        peer="`python -c pass`",
        peer_seconds=bare,
        target=target,
    )
