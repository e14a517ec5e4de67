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
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 300.0
# Seconds between two kills, by engine: an actor of Ray has to import everything before it can do anything.
_PAUSES = {"local": (0.05, 0.8), "ray": (1.0, 6.0)}
# Of one job: an item at whose every attempt the worker is killed has failed, and is open for the next run.
_KILLS = {"local": 12, "ray": 6}
# Runs a command whose workers begin at once, also for few episodes.
_PROGRAM = """
import sys
import ingest.pipeline.run as run
run._IN_PROCESS_SECONDS, run._MAX_BATCH_SIZE = 0.001, 2
from app.cli.main import main
sys.exit(main())
"""
_WORKERS = (b"ares.jobs.worker_pool", b"ray::RayActorBody")


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
    expected = read_state(str(undisturbed)), _exported(undisturbed)
    for number in range(rounds):
        for engine in ("local", "ray") if find_spec("ray") else ("local",):
            rng = random.Random(f"{seed} {engine} {number}")
            yield partial(_trial, source, folder / f"{engine}-{number}", engine, rng, expected)


def _trial(
    source: Path,
    workspace: Path,
    engine: str,
    rng: random.Random,
    expected: tuple[WorkspaceState, dict[str, list[str]]],
) -> Trial:
    started, problem, killed = time.monotonic(), "", 0
    for command in _commands(source, workspace, engine):
        problem, more = _run(command, rng)
        killed += more
        if problem:
            break
    problem = problem or expected[0].difference(read_state(str(workspace)))
    problem = problem or ("" if _exported(workspace) == expected[1] else "the export differs")
    name = f"{workspace.name}, {killed} workers killed"
    return Trial(group="killed workers", name=name, problem=problem, seconds=time.monotonic() - started)


def _commands(source: Path, workspace: Path, engine: str) -> list[list[str]]:
    words: list[list[str]] = [
        ["ingest", str(source), "--engine", engine],
        ["annotate", "motion", "embed", "--engine", engine],
        ["set", "create", "all"],
        ["export", "all", f"{workspace}-exported", "--format", "parquet"],
    ]
    return [[*command, "-w", str(workspace), "--json"] for command in words]


def _run(command: Sequence[str], rng: random.Random | None) -> tuple[str, int]:
    """Run a command, and kill workers of it; what was wrong with its end, and how many were killed."""
    program = [sys.executable, "-c", _PROGRAM, *command]
    env = {**os.environ, "ARES_EMBED_MODEL": "hash:64"}
    pipe = subprocess.PIPE
    job = subprocess.Popen(
        program,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=env,
        start_new_session=True,
    )
    killed, deadline, engine = 0, time.monotonic() + _SECONDS, "ray" if "ray" in command else "local"
    while rng is not None and job.poll() is None and killed < _KILLS[engine] and time.monotonic() < deadline:
        time.sleep(rng.uniform(*_PAUSES[engine]))
        killed += _kill_one(job.pid, rng)
    try:
        answer, errors = job.communicate(timeout=max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return f"`ares {command[0]}` did not end in {_SECONDS:.0f} s", killed
    if job.returncode != 0 or "Traceback" in errors:
        return f"`ares {command[0]}`: status {job.returncode}: {errors[-300:]} {_failures(answer)}", killed
    json.loads(answer)
    return "", killed


def _kill_one(pid: int, rng: random.Random) -> int:
    """Kill a worker of a command; returns 0 where it has none."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            process = int(stat.parent.name)
            parents[process] = int(stat.read_text().rpartition(")")[2].split()[1])
            commands[process] = (stat.parent / "cmdline").read_bytes()
    workers = [
        process
        for process, words in commands.items()
        if any(word in words for word in _WORKERS) and pid in _ancestors(process, parents)
    ]
    if not workers:
        return 0
    with suppress(ProcessLookupError):
        os.kill(rng.choice(workers), signal.SIGKILL)
    return 1


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
