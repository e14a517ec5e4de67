"""Benchmark 16: start-up time of the command line and of small ingestions, against a Python that does nothing."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ares
from app.demo import DEMO_FOLDER
from benchmarks.synthetic_episodes import add_synthetic_episodes
from benchmarks.synthetic_lerobot import write_lerobot_dataset
from benchmarks.timing import BenchmarkResult, run_command, time_alternately

_ARES = str(Path(sys.executable).parent / "ares")
_BARE_PYTHON = [sys.executable, "-c", "pass"]


def benchmark_startup() -> Iterator[BenchmarkResult]:
    """Time `ares --help`, `ares status` of workspaces from empty to a million episodes, and small ingestions."""
    yield _measure_command("`ares --help`", [_ARES, "--help"], "+0.2 s")
    for episodes in (0, 10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/workspace"
            ws = ares.open(path, create=True)
            add_synthetic_episodes(ws, episodes)
            ws.close()
            status = [_ARES, "status", "-w", path, "--json"]
            yield _measure_command(f"`ares status`, {episodes:,} episodes", status, "under 1 s")
    yield from _measure_small_ingestions()


def _measure_small_ingestions() -> Iterator[BenchmarkResult]:
    """CPU-seconds, of all its processes, of `ares ingest` of four episodes into a new workspace."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            "LeRobot": write_lerobot_dataset(Path(folder) / "made", 4),
            "RLDS": DEMO_FOLDER / "samples" / "rlds",
            "video": DEMO_FOLDER / "samples" / "video",
        }
        bare = _cpu_seconds(_BARE_PYTHON)
        for name, source in sources.items():
            rounds = []
            for number in range(5):
                workspace = f"{folder}/{name}{number}"
                rounds.append(
                    _cpu_seconds([_ARES, "ingest", "-w", workspace, "-q", str(source), "--limit=4"])
                )
            yield BenchmarkResult(
                number=16,
                work=f"`ares ingest` of four {name} episodes, CPU-seconds",
                ours_seconds=statistics.median(rounds),
                peer="`python -c pass`, CPU-seconds",
                peer_seconds=bare,
                target="under 1.5 CPU-seconds",
            )


def _cpu_seconds(arguments: list[str]) -> float:
    """User and system time of a program and of the processes that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run_command(arguments)()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
