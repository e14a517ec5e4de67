"""Two jobs at once on one workspace: both end, and the workspace holds what both of them promise."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.torture.children import run_child
from tests.torture.trials import Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the jobs work on.

    Attributes:
        first: A dataset of 4 episodes that every job finds ingested, frozen as the set "all".
        second: A dataset of 4 others.
        folder: Where workspaces and exports are written.
    """

    first: Path
    second: Path
    folder: Path


def two_job_trials(sources: Sources, rng: random.Random) -> Iterator[Trial]:
    """Every pair of jobs once, the second one started a random moment after the first."""
    workspace = sources.folder / "ws"
    ingest_first = ["ingest", str(sources.first)]
    ingest_second = ["ingest", str(sources.second)]
    remove_first = ["remove", "--dataset", sources.first.name, "--yes"]
    exported = str(sources.folder / "exported")
    pairs: dict[str, tuple[list[str], list[str], int]] = {
        "ingest and ingest of the same": (ingest_second, ingest_second, 8),
        "ingest and ingest of another": (ingest_first, ingest_second, 8),
        "ingest and annotate": (ingest_second, ["annotate", "motion"], 8),
        "ingest and export": (ingest_second, ["export", "all", exported, "--format", "parquet"], 8),
        "ingest and remove": (ingest_second, remove_first, 4),
        "annotate and remove": (["annotate", "motion"], remove_first, 0),
    }
    for name, (first, second, expected) in pairs.items():
        _start_workspace(sources, workspace)
        started = time.monotonic()
        problem = _run_both(first, second, workspace, rng.uniform(0, 1.5))
        problem = problem or _check(workspace, expected)
        yield Trial(group="two jobs at once", name=name, problem=problem, seconds=time.monotonic() - started)


def _start_workspace(sources: Sources, workspace: Path) -> None:
    for folder in (workspace, sources.folder / "exported"):
        shutil.rmtree(folder, ignore_errors=True)
    for command in (["ingest", str(sources.first)], ["set", "create", "all"]):
        done = _start(command, workspace)
        answer, errors = done.communicate(timeout=_SECONDS)
        assert done.returncode == 0, (command, answer, errors)


def _start(command: list[str], workspace: Path) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "app.cli.main", *command, "-w", str(workspace), "--json"]
    return subprocess.Popen(
        program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _run_both(first: list[str], second: list[str], workspace: Path, delay: float) -> str:
    """Run two commands at once; what was wrong with their ends."""
    jobs = [_start(first, workspace)]
    time.sleep(delay)
    jobs.append(_start(second, workspace))
    for job, command in zip(jobs, (first, second), strict=True):
        try:
            answer, errors = job.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            for running in jobs:
                running.kill()
            return f"`ares {command[0]}` did not end in {_SECONDS:.0f} s"
        if job.returncode != 0 or "Traceback" in errors:
            return f"`ares {command[0]}` ended with status {job.returncode}: {errors[-300:]} {answer[-200:]}"
        json.loads(answer)
    return ""


def _check(workspace: Path, expected: int) -> str:
    end = run_child(lambda: read_state(str(workspace)), seconds=_SECONDS)
    if not isinstance(end.value, WorkspaceState):
        return f"the workspace cannot be read: {end.errors[-300:]}"
    if end.value.findings:
        return f"doctor: {end.value.findings}"
    rows = [row for row in end.value.rows.values() if not row.get("removed")]
    if expected >= 0 and len(rows) != expected:
        return f"{len(rows)} episodes in place of {expected}"
    if end.value.trajectories < len(rows):
        return f"{end.value.trajectories} signals for {len(rows)} episodes"
    return ""
