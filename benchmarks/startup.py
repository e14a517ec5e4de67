"""Benchmark 16: how long the command line takes to start, against a Python that does nothing."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ares
from benchmarks.grow import grow
from benchmarks.timing import Row, command, in_turn

_ARES = str(Path(sys.executable).parent / "ares")
_BARE = [sys.executable, "-c", "pass"]


def startup() -> Iterator[Row]:
    """`ares --help`, and `ares status` of workspaces from empty to a million episodes."""
    yield _row("`ares --help`", [_ARES, "--help"], "+0.2 s")
    for episodes in (0, 10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/workspace"
            ws = ares.open(path)
            grow(ws, episodes)
            ws.close()
            status = [_ARES, "status", "-w", path, "--json"]
            yield _row(f"`ares status`, {episodes:,} episodes", status, "under 1 s")


def _row(work: str, words: list[str], target: str) -> Row:
    ours, bare = in_turn(command(words), command(_BARE))
    return Row(
        number=16,
        work=work,
        ours_seconds=ours,
        peer="`python -c pass`",
        peer_seconds=bare,
        target=target,
    )
