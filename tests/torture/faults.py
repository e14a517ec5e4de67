"""Kills a small ingestion at every write, fails its every file operation, and runs it again."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.syscalls import Fault, Injector
from tests.torture.trials import Trial
from tests.torture.workspaces import WorkspaceState, read_state

FAULTS: tuple[Fault, ...] = ("EIO", "ENOSPC", "kill", "torn")
_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallJob:
    """An ingestion that is disturbed.

    Attributes:
        source: Dataset.
        folder: Where workspaces are made.
        arguments: Further arguments of `ares ingest`.
        state: What an undisturbed run stores.
        operations: Number of its file operations that change the workspace.
        reads: Number of its read operations below the source and the workspace.
        seconds: How long it takes.
    """

    source: Path
    folder: Path
    arguments: tuple[str, ...]
    state: WorkspaceState
    operations: int
    reads: int
    seconds: float

    def command(self, workspace: Path) -> list[str]:
        """Arguments of `ares`."""
        return ["ingest", str(self.source), "-w", str(workspace), "--json", "-q", *self.arguments]


def measure(source: Path, folder: Path, arguments: Sequence[str] = ()) -> SmallJob:
    """Run a job undisturbed, and count its file operations."""
    folder.mkdir(parents=True, exist_ok=True)
    job = SmallJob(
        source=source,
        folder=folder,
        arguments=tuple(arguments),
        state=_EMPTY,
        operations=0,
        reads=0,
        seconds=0,
    )
    counts, ends = [], []
    for reads in (False, True):
        workspace = folder / "undisturbed"
        shutil.rmtree(workspace, ignore_errors=True)
        injector = Injector(folders=_folders(job, workspace, reads), reads=reads)
        end = injector.run(lambda prepare, at=workspace: run_ares(job.command(at), prepare=prepare))
        assert end.status == 0, (end.output, end.errors)
        counts.append(injector.count)
        ends.append(end)
    state = run_child(lambda: read_state(str(workspace)), seconds=_SECONDS)
    assert isinstance(state.value, WorkspaceState), state.errors
    return SmallJob(
        source=source,
        folder=folder,
        arguments=tuple(arguments),
        state=state.value,
        operations=counts[0],
        reads=counts[1],
        seconds=ends[0].seconds,
    )


def fault_trials(job: SmallJob, points: Iterable[tuple[Fault, int, bool]]) -> Iterator[Trial]:
    """Disturb the job at given operations: (what happens, number of the operation, whether reads are counted)."""
    for fault, at, reads in points:
        workspace = job.folder / "disturbed"
        shutil.rmtree(workspace, ignore_errors=True)
        injector = Injector(folders=_folders(job, workspace, reads), at=at, fault=fault, reads=reads)
        end = injector.run(lambda prepare, at=workspace: run_ares(job.command(at), prepare=prepare))
        kind = f"{'read' if reads else 'write'} operation {at}"
        hit = injector.hit.replace(str(job.folder), "")
        yield _trial(job, end, f"{fault} at", workspace, f"{kind} ({hit})", killed=fault in ("kill", "torn"))


def every_point(job: SmallJob) -> list[tuple[Fault, int, bool]]:
    """Every fault at every operation of the job."""
    points: list[tuple[Fault, int, bool]] = [
        (fault, at, False) for fault in FAULTS for at in range(1, job.operations + 1)
    ]
    return points + [("EIO", at, True) for at in range(1, job.reads + 1)]


def kill_trials(job: SmallJob, rng: random.Random, rounds: int) -> Iterator[Trial]:
    """Kill the job and its processes at random times."""
    for _ in range(rounds):
        workspace = job.folder / "killed"
        shutil.rmtree(workspace, ignore_errors=True)
        after = rng.uniform(0, job.seconds * 1.1)
        end = run_ares(job.command(workspace), kill_after=after)
        yield _trial(job, end, "kill -9 at a random time", workspace, f"after {after:.3f} s", killed=True)


def _trial(job: SmallJob, end: ChildEnd, group: str, workspace: Path, name: str, *, killed: bool) -> Trial:
    group = f"{group} an operation" if group.endswith(" at") else group
    problem = "" if killed and end.status == -9 and not end.exceeded else end.fault
    again = run_child(lambda: _run_again(job, workspace), seconds=_SECONDS)
    problem = problem or again.fault or _compare(job, again.value)
    seconds = end.seconds + again.seconds
    return Trial(
        group=group,
        name=name,
        problem=problem,
        seconds=seconds,
        peak_bytes=max(end.peak_bytes, again.peak_bytes),
    )


def _run_again(job: SmallJob, workspace: Path) -> tuple[int, str, Any]:
    """The same command, undisturbed: its status, its answer, and what the workspace holds then."""
    from app.cli.main import main

    status, answer = _with_answer(lambda: main(job.command(workspace)))
    return status, answer, read_state(str(workspace)) if status == 0 else None


def _with_answer(command: Callable[[], int]) -> tuple[int, str]:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as answer:
        status = command()
    return status, answer.getvalue()


def _compare(job: SmallJob, result: Any) -> str:
    if result is None:
        return "the second run gave no result"
    status, answer, state = result
    if status != 0:
        return f"the second run ended with status {status}: {answer[-400:]}"
    counts = json.loads(answer)
    if counts["kept"] + counts["already"] != len(job.state.rows) or counts["failed"]:
        return f"the second run counts {counts}"
    difference: str = state.difference(job.state)
    return difference


def _folders(job: SmallJob, workspace: Path, reads: bool) -> tuple[str, ...]:
    return (str(workspace), str(job.source)) if reads else (str(workspace),)


_EMPTY = WorkspaceState(
    rows={}, episodes=0, signals={}, trajectories=0, vectors={}, annotations=[], failures=[], findings=[]
)
