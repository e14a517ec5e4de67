"""Benchmark 19: the command line from its start to the answer of a text search, against a Python that does nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from benchmarks.embed import write_random_vit
from benchmarks.timing import BenchmarkResult, run_command, time_alternately

_ARES = str(Path(sys.executable).parent / "ares")
_BARE_PYTHON = [sys.executable, "-c", "pass"]
_SAMPLES = Path(__file__).parents[1] / "app" / "demo" / "samples" / "video"


def benchmark_text_search() -> Iterator[BenchmarkResult]:
    """Time searches of a small workspace, so that nearly all of it is what a process loads."""
    yield _measure("`import ares`", run_command([sys.executable, "-c", "import ares"]), "none")
    yield _measure("`ares --help`", run_command([_ARES, "--help"]), "+0.2 s")
    with tempfile.TemporaryDirectory() as folder:
        workspace = _embed(Path(folder))
        search = [_ARES, "search", "-w", str(workspace), "--json"]
        numbers = count()

        def search_new_text() -> None:
            subprocess.run(
                [*search, f"open drawer number {next(numbers)}"], check=True, stdout=subprocess.DEVNULL
            )

        def search_first() -> None:
            shutil.rmtree(workspace / "text-encoders")
            subprocess.run([*search, "open the drawer"], check=True, capture_output=True)

        yield _measure("text search, no encoder stored yet: the whole model", search_first, "none", rounds=3)
        yield _measure("text search, a new text", search_new_text, "below 2 s")
        yield _measure("text search, again", run_command([*search, "open the drawer"]), "below 0.8 s")
        words = run_command([*search, "open the drawer", "--by", "captions"])
        yield _measure("search by words alone", words, "none")
        with _dashboard(workspace):
            yield _measure("a new text, by a running dashboard", search_new_text, "below 0.4 s")


def _measure(work: str, ours: Callable[[], object], target: str, rounds: int = 7) -> BenchmarkResult:
    seconds, bare = time_alternately(ours, run_command(_BARE_PYTHON), rounds)
    return BenchmarkResult(
        number=19,
        work=work,
        ours_seconds=seconds,
        peer="`python -c pass`",
        peer_seconds=bare,
        target=target,
    )


def _embed(folder: Path) -> Path:
    """A workspace of the twelve episodes of a sample, embedded by a ViT-B/32 of random weights."""
    (folder / "model").mkdir()
    write_random_vit(folder / "model")
    workspace, spec = folder / "workspace", f"local-dir:{folder / 'model'}"
    for command in (["ingest", str(_SAMPLES)], ["annotate", "embed", "--model", spec]):
        subprocess.run([_ARES, *command, "-w", str(workspace)], check=True, capture_output=True)
    return workspace


@contextmanager
def _dashboard(workspace: Path) -> Iterator[None]:
    """A dashboard of the workspace that has answered a search."""
    command = [_ARES, "app", "-w", str(workspace), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "ARES dashboard" in line)
        yield
    finally:
        server.terminate()
        server.communicate()
