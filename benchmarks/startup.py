"""Benchmarks 16 and 19: how long the command line takes to start, to ingest little and to answer a text search."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import ares
from ares_app.demo import DEMO_FOLDER
from benchmarks.synthetic_episodes import add_synthetic_episodes
from benchmarks.synthetic_lerobot import write_lerobot_dataset
from benchmarks.synthetic_media import write_random_vit
from benchmarks.timing import (
    BARE_PYTHON,
    BenchmarkResult,
    processor_seconds,
    run_command,
    time_against_python,
)

_ARES = (sys.executable, "-m", "ares")
_SAMPLES = DEMO_FOLDER / "samples"


def benchmark_startup(
    sizes: Sequence[int] = (0, 10_000, 100_000, 1_000_000), rounds: int = 7
) -> Iterator[BenchmarkResult]:
    """Time `ares --help`, `ares status` of workspaces of some sizes, and ingestions of four episodes."""
    yield time_against_python(16, "`ares --help`", run_command([*_ARES, "--help"]), "+0.2 s", rounds)
    for episodes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/workspace"
            with ares.open(path, create=True) as ws:
                add_synthetic_episodes(ws, episodes)
            status = run_command([*_ARES, "status", "-w", path, "--json"])
            yield time_against_python(
                16, f"`ares status`, {episodes:,} episodes", status, "under 1 s", rounds
            )
    with tempfile.TemporaryDirectory() as folder:
        yield from _measure_small_ingestions(Path(folder), max(1, min(rounds, 5)))


def _measure_small_ingestions(folder: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """CPU-seconds, of all its processes, of `ares ingest` of four episodes into a new workspace."""
    sources = {
        "LeRobot": write_lerobot_dataset(folder / "made", 4),
        "RLDS": _SAMPLES / "rlds",
        "video": _SAMPLES / "video",
    }
    bare = _cpu_seconds(BARE_PYTHON)
    for name, source in sources.items():
        ingest = [*_ARES, "ingest", "-q", str(source), "--limit=4", "-w"]
        seconds = [_cpu_seconds([*ingest, f"{folder}/{name}{number}"]) for number in range(rounds)]
        yield BenchmarkResult(
            number=16,
            work=f"`ares ingest` of four {name} episodes, CPU-seconds",
            ours_seconds=statistics.median(seconds),
            peer="`python -c pass`, CPU-seconds",
            peer_seconds=bare,
            target="under 1.5 CPU-seconds",
        )


def _cpu_seconds(arguments: Sequence[str]) -> float:
    """User and system time of a program and of the processes that it waits for."""
    before = processor_seconds(only_children=True)
    run_command(arguments)()
    return processor_seconds(only_children=True) - before


def benchmark_text_search(sizes: Sequence[int] = (12,), rounds: int = 7) -> Iterator[BenchmarkResult]:
    """Time searches of a workspace of so many episodes: nearly all of it is what a process loads."""
    importing = run_command([sys.executable, "-c", "import ares"])
    yield time_against_python(19, "`import ares`", importing, "none", rounds)
    for episodes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            yield from _measure_searches(_embedded_workspace(Path(folder), episodes), rounds)


def _measure_searches(workspace: Path, rounds: int) -> Iterator[BenchmarkResult]:
    search = [*_ARES, "search", "-w", str(workspace), "--json"]
    numbers = count()

    def search_new_text() -> None:
        run_command([*search, f"open drawer number {next(numbers)}"])()

    def search_first() -> None:
        shutil.rmtree(workspace / "text-encoders")
        run_command([*search, "open the drawer"])()

    words = run_command([*search, "open the drawer", "--by", "captions"])
    for work, run, target, most in (
        ("text search, no encoder stored yet: the whole model", search_first, "none", 3),
        ("text search, a new text", search_new_text, "below 2 s", rounds),
        ("search by words alone", words, "none", rounds),
    ):
        yield time_against_python(19, work, run, target, min(rounds, most))
    with _running_dashboard(workspace):
        work = "a new text, by a running dashboard"
        yield time_against_python(19, work, search_new_text, "below 0.4 s", rounds)


def _embedded_workspace(folder: Path, episodes: int) -> Path:
    """A workspace of episodes of a sample, embedded by a ViT-B/32 of random weights."""
    model, workspace = write_random_vit(folder / "model"), folder / "workspace"
    with ares.open(workspace, create=True) as ws:
        ws.ingest(_SAMPLES / "video", limit=episodes, quiet=True)
        ws.annotate("embed", model=f"local-dir:{model}", quiet=True)
    return workspace


@contextmanager
def _running_dashboard(workspace: Path) -> Iterator[None]:
    """A dashboard of the workspace that takes requests."""
    command = [*_ARES, "app", "-w", str(workspace), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "ARES dashboard" in line)
        yield
    finally:
        server.terminate()
        server.communicate()
