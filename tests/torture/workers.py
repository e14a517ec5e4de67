"""Kills the workers of jobs at random times, on this machine and on Ray: each episode ends right, exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.torture.children import run_child
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 300.0
_POLL_SECONDS = 0.02
# How long a worker that was seen may go on at most: the first only so long that every job loses one, and later ones by
# engine, since an actor of Ray has to import everything before it does anything.
_FIRST_PAUSE, _PAUSES = 0.5, {"local": 1.0, "ray": 4.0}
# Of one job, whose items are tried again where their worker was killed.
_KILLS = {"local": 6, "ray": 4}
# An item at whose every attempt the worker was killed has failed, and is open for the next run.
_KILLED_EVERY_TIME = "its worker died every time"
# A killed worker leaves the file that it was writing; no table names it, and `ares doctor --repair` removes it.
_LEFT_BY_KILLS = "each file of vectors belongs to its table"
_WORKERS = (b"ares.jobs.worker_process", b"ray::RayActorBody")
_PROGRAM = "import sys, tests.torture.slow_jobs as jobs; sys.exit(jobs.run_slow_command())"
# Commands of which one worker at least is killed: on this machine annotators work in separate processes only where
# each has a GPU or cores for itself, and an export has none.
_HAVE_WORKERS = {"local": ("ingest",), "ray": ("ingest", "annotate")}
_ROOT = Path(__file__).resolve().parents[2]


def worker_attempts(source: Path, folder: Path, seed: str, rounds: int) -> Iterator[Attempt]:
    """Ingestion, annotation and export on every engine, so many times, against a run that nothing disturbs.

    Args:
        source: A dataset.
        folder: Where workspaces are written.
        seed: Chooses, with the number of the round, whom to kill, and when.
        rounds: How often each job is tried.
    """
    folder.mkdir(parents=True, exist_ok=True)
    undisturbed = folder / "undisturbed"
    for command in _commands(source, undisturbed, "local"):
        problem, _ = _run(command, None)
        assert not problem, problem
    expected = _read_results(undisturbed)
    assert not expected.state.findings, expected.state.findings
    for number in range(rounds):
        for engine in ("local", "ray") if find_spec("ray") else ("local",):
            rng = random.Random(f"{seed} {engine} {number}")
            yield partial(_trial, source, folder / f"{engine}-{number}", engine, rng, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResults:
    """What the jobs have stored and written.

    Attributes:
        state: What the workspace holds; nothing was repaired before it was read.
        exported: By exported table, the ids of its episodes, sorted and with repetitions.
    """

    state: WorkspaceState
    exported: dict[str, list[str]]

    def difference(self, other: JobResults) -> str:
        """What another workspace holds otherwise, in words; "" where each episode ended right, exactly once."""
        found = [line for line in other.state.findings if not line.startswith(_LEFT_BY_KILLS)]
        problem = self.state.difference(replace(other.state, findings=found))
        return problem or ("" if self.exported == other.exported else "the export differs")


def _read_results(workspace: Path) -> JobResults:
    """Read in a separate process: threads of libraries that ran here would not live on in forked children."""
    end = run_child(
        lambda: JobResults(state=read_state(str(workspace), repair=False), exported=_exported(workspace)),
        seconds=_SECONDS,
    )
    assert isinstance(end.value, JobResults), f"the workspace cannot be read: {end.errors[-300:]}"
    return end.value


def _trial(source: Path, workspace: Path, engine: str, rng: random.Random, expected: JobResults) -> Trial:
    started, problem, kills = time.monotonic(), "", dict[str, int]()
    for command in _commands(source, workspace, engine):
        problem, killed = _run(command, rng)
        kills |= {command[0]: killed} if killed else {}
        if _KILLED_EVERY_TIME in problem:
            problem, _ = _run(command, None)
        if problem:
            break
    problem = problem or expected.difference(_read_results(workspace))
    if not problem and not kills.keys() >= {*_HAVE_WORKERS[engine]}:
        problem = "not every job that has workers lost one: the trial shows nothing"
    counted = ", ".join(f"{count} of {name}" for name, count in kills.items())
    name = f"{workspace.name}, workers killed: {counted or 'none'}"
    return Trial(group="killed workers", name=name, problem=problem, seconds=time.monotonic() - started)


def _commands(source: Path, workspace: Path, engine: str) -> list[list[str]]:
    words: list[list[str]] = [
        ["ingest", str(source), "--engine", engine],
        ["annotate", "motion", "embed", "--engine", engine, "--workers", "2"],
        ["set", "create", "all"],
        ["export", "all", f"{workspace}-exported", "--format", "parquet"],
    ]
    return [[*command, "-w", str(workspace), "--json"] for command in words]


def _run(command: Sequence[str], rng: random.Random | None) -> tuple[str, int]:
    """Run a command, and kill workers of it; what was wrong with its end, and how many were killed."""
    job = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *command],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ARES_EMBED_MODEL": "hash:64", "PYTHONPATH": str(_ROOT)},
        start_new_session=True,
    )
    deadline = time.monotonic() + _SECONDS
    killed = 0 if rng is None else _kill_some(job, rng, "ray" if "ray" in command else "local", deadline)
    try:
        answer, errors = job.communicate(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return f"`ares {command[0]}` did not end in {_SECONDS:.0f} s", killed
    if job.returncode != 0 or "Traceback" in errors:
        return f"`ares {command[0]}`: status {job.returncode}: {errors[-300:]} {_failures(answer)}", killed
    json.loads(answer)
    return "", killed


def _kill_some(job: subprocess.Popen[str], rng: random.Random, engine: str, deadline: float) -> int:
    """Kill workers of a job, each a random time after one was seen; returns how many."""
    killed = 0
    while job.poll() is None and killed < _KILLS[engine] and time.monotonic() < deadline:
        if not _workers_of(job.pid):
            time.sleep(_POLL_SECONDS)
            continue
        time.sleep(rng.uniform(0.0, _PAUSES[engine] if killed else _FIRST_PAUSE))
        for worker in rng.sample(workers, 1) if (workers := sorted(_workers_of(job.pid))) else ():
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed += 1
    return killed


def _workers_of(pid: int) -> list[int]:
    """The worker processes of a command."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            process = int(stat.parent.name)
            parents[process] = int(stat.read_text().rpartition(")")[2].split()[1])
            commands[process] = (stat.parent / "cmdline").read_bytes()
    return [
        process
        for process, words in commands.items()
        if any(word in words for word in _WORKERS) and pid in _ancestors(process, parents)
    ]


def _ancestors(process: int, parents: dict[int, int]) -> Iterator[int]:
    while process := parents.get(process, 0):
        yield process


def _exported(workspace: Path) -> dict[str, list[str]]:
    """The ids of episodes in every exported table, in order and with repetitions."""
    import pyarrow.parquet as pq

    exported = workspace.with_name(f"{workspace.name}-exported")
    tables = {str(path.relative_to(exported)): pq.read_table(path) for path in exported.rglob("*.parquet")}
    return {
        name: sorted(map(str, table["episode_id"].to_pylist()))
        for name, table in tables.items()
        if "episode_id" in table.column_names
    }


def _failures(answer: str) -> str:
    """The failures that a command has reported, or the end of its answer."""
    with suppress(ValueError):
        documents = json.loads(answer)
        return str(
            [document["failures"] for document in (documents if isinstance(documents, list) else [documents])]
        )
    return answer[-300:]
