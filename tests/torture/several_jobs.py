"""Two or four jobs at once on one workspace: all end, and the workspace holds what they promise."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.torture.children import run_child
from tests.torture.commands import Laboratory
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 600.0
_WRITERS, _LONGEST_DELAY = 4, 1.5
# Episodes of the dataset "first", which every job finds ingested, and of both.
_FIRST, _BOTH = 3, 5
_WORDS: dict[str, list[str]] = {
    "ingest first": ["ingest", "{first}"],
    "ingest second": ["ingest", "{second}"],
    "annotate": ["annotate", "motion"],
    "export": ["export", "all", "{exported}", "--format", "parquet"],
    "set create": ["set", "create", "more"],
    "tag": ["tag", "add", "odd", "--where", "num_steps > 0"],
    "remove": ["remove", "--dataset", "first", "--yes"],
    "purge": ["remove", "--purge", "--dataset", "first", "--yes"],
    "undo": ["undo"],
    "doctor": ["doctor", "--repair"],
}
# Two jobs, and how many episodes are there afterwards.
_PAIRS = (
    ("ingest second", "ingest second", _BOTH),
    ("ingest first", "ingest second", _BOTH),
    ("ingest second", "annotate", _BOTH),
    ("ingest second", "export", _BOTH),
    ("ingest second", "remove", _BOTH - _FIRST),
    ("annotate", "remove", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Jobs that run at once.

    Attributes:
        name: For the report.
        words: Their arguments of `ares`, see `Laboratory.run`.
        expected: How many episodes are there afterwards; -1 where that depends on their order.
        may_refuse: Whether a job may end with a word, as one that finds nothing to take back.
    """

    name: str
    words: Sequence[list[str]]
    expected: int
    may_refuse: bool = False


def job_attempts(laboratory: Laboratory, seed: str) -> Iterator[Attempt]:
    """Every pair of jobs once, then four random jobs again and again, each started a random moment after the first."""
    pairs = [
        Jobs(name=f"{first} and {second}", words=[_WORDS[first], _WORDS[second]], expected=expected)
        for first, second, expected in _PAIRS
    ]
    for number in itertools.count():
        rng = random.Random(f"{seed} jobs {number}")
        jobs = pairs[number] if number < len(pairs) else _random_jobs(rng)
        delays = [0.0, *(rng.uniform(0, _LONGEST_DELAY) for _ in jobs.words[1:])]
        yield partial(_try_jobs, laboratory, jobs, delays)


def _random_jobs(rng: random.Random) -> Jobs:
    names = rng.choices(sorted(_WORDS), k=_WRITERS)
    is_known = not {"remove", "undo", "purge"} & {*names}
    expected = (_BOTH if "ingest second" in names else _FIRST) if is_known else -1
    return Jobs(
        name=", ".join(names), words=[_WORDS[name] for name in names], expected=expected, may_refuse=True
    )


def _try_jobs(laboratory: Laboratory, jobs: Jobs, delays: Sequence[float]) -> Trial:
    workspace, started = laboratory.copy("small"), time.monotonic()
    problem = _run_all(laboratory, jobs, workspace, delays) or _check(workspace, jobs.expected)
    seconds = time.monotonic() - started
    return Trial(group=f"{len(delays)} jobs at once", name=jobs.name, problem=problem, seconds=seconds)


def _run_all(laboratory: Laboratory, jobs: Jobs, workspace: Path, delays: Sequence[float]) -> str:
    """Run commands at once; what was wrong with their ends."""
    started, running = time.monotonic(), list[subprocess.Popen[str]]()
    for words, delay in sorted(zip(jobs.words, delays, strict=True), key=lambda pair: pair[1]):
        time.sleep(max(0.0, started + delay - time.monotonic()))
        program = [sys.executable, "-m", "ares_app.cli.main", *laboratory.command_line(words, workspace)]
        running.append(
            subprocess.Popen(
                program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
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
    end = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS)
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
