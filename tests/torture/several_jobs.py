"""Two or four jobs at once on one workspace: all end, and the workspace holds what they promise."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.torture.children import run_child
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 600.0
_WRITERS, _LONGEST_DELAY = 4, 1.5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Jobs that run at once.

    Attributes:
        name: For the report.
        commands: Their arguments of `ares`.
        expected: How many episodes are there afterwards; -1 where that depends on their order.
        may_refuse: Whether a job may end with a word, as one that finds nothing to take back.
    """

    name: str
    commands: Sequence[list[str]]
    expected: int
    may_refuse: bool = False


def job_attempts(sources: Sources, seed: str) -> Iterator[Attempt]:
    """Every pair of jobs once, then four random jobs again and again, each started a random moment after the first."""
    pairs = _pairs(sources)
    for number in itertools.count():
        rng = random.Random(f"{seed} jobs {number}")
        jobs = pairs[number] if number < len(pairs) else _random_jobs(sources, rng)
        delays = [0.0, *(rng.uniform(0, _LONGEST_DELAY) for _ in jobs.commands[1:])]
        yield partial(_try_jobs, sources, jobs, delays)


def _pairs(sources: Sources) -> list[Jobs]:
    commands = _commands(sources)
    pairs = [
        ("ingest second", "ingest second", 8),
        ("ingest first", "ingest second", 8),
        ("ingest second", "annotate", 8),
        ("ingest second", "export", 8),
        ("ingest second", "remove", 4),
        ("annotate", "remove", 0),
    ]
    return [
        Jobs(name=f"{first} and {second}", commands=[commands[first], commands[second]], expected=expected)
        for first, second, expected in pairs
    ]


def _random_jobs(sources: Sources, rng: random.Random) -> Jobs:
    commands = _commands(sources)
    names = rng.choices(sorted(commands), k=_WRITERS)
    is_known = not {"remove", "undo", "purge"} & {*names}
    expected = (8 if "ingest second" in names else 4) if is_known else -1
    return Jobs(
        name=", ".join(names), commands=[commands[name] for name in names], expected=expected, may_refuse=True
    )


def _commands(sources: Sources) -> dict[str, list[str]]:
    first = ["--dataset", sources.first.name, "--yes"]
    return {
        "ingest first": ["ingest", str(sources.first)],
        "ingest second": ["ingest", str(sources.second)],
        "annotate": ["annotate", "motion"],
        "export": ["export", "all", str(sources.folder / "exported"), "--format", "parquet"],
        "set create": ["set", "create", "more"],
        "tag": ["tag", "add", "odd", "--where", "num_steps > 0"],
        "remove": ["remove", *first],
        "purge": ["remove", "--purge", *first],
        "undo": ["undo"],
        "doctor": ["doctor", "--repair"],
    }


def _try_jobs(sources: Sources, jobs: Jobs, delays: Sequence[float]) -> Trial:
    workspace = sources.folder / "ws"
    _start_workspace(sources, workspace)
    started = time.monotonic()
    problem = _run_all(jobs, workspace, delays) or _check(workspace, jobs.expected)
    seconds = time.monotonic() - started
    return Trial(group=f"{len(delays)} jobs at once", name=jobs.name, problem=problem, seconds=seconds)


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


def _run_all(jobs: Jobs, workspace: Path, delays: Sequence[float]) -> str:
    """Run commands at once; what was wrong with their ends."""
    started, running = time.monotonic(), list[subprocess.Popen[str]]()
    for command, delay in sorted(zip(jobs.commands, delays, strict=True), key=lambda pair: pair[1]):
        time.sleep(max(0.0, started + delay - time.monotonic()))
        running.append(_start(command, workspace))
    problems = [_end_problem(process, jobs.may_refuse) for process in running]
    return next(filter(None, problems), "")


def _end_problem(job: subprocess.Popen[str], may_refuse: bool) -> str:
    name = f"`ares {' '.join(map(str, job.args[3:-3]))}`"  # type: ignore[index]
    try:
        answer, errors = job.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
        return f"{name} did not end in {_SECONDS:.0f} s"
    is_refused = may_refuse and job.returncode in (1, 2)
    if (job.returncode != 0 and not is_refused) or "Traceback" in errors:
        return f"{name} ended with status {job.returncode}: {errors[-300:]} {answer[-200:]}"
    if answer:
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
