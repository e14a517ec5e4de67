"""Commands on a small workspace whose clock jumps or whose reads fail: they end with a word, and can be given again."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.clocks import jump_clock
from tests.torture.datasets import WRITERS
from tests.torture.syscalls import Injector
from tests.torture.trials import Attempt, Trial
from tests.torture.workspaces import WorkspaceState, read_state

_SECONDS = 120.0
_SEQUENCE = 5  # commands one after the other under one clock


@dataclass(slots=True)
class SmallWorkspace:
    """A small workspace, copies of which commands work on.

    Args:
        folder: Where everything is written.
    """

    folder: Path
    _expected: dict[str, tuple[ChildEnd, WorkspaceState, int]] = field(default_factory=dict)

    def commands(self) -> dict[str, list[str]]:
        """What is tried, by name."""
        steps = ["--where", "num_steps > 0"]
        return {
            "annotate": ["annotate", "motion"],
            "ingest": ["ingest", str(self.folder / "second")],
            "search": ["search", "cup"],
            "set create": ["set", "create", "more"],
            "set diff": ["set", "list"],
            "tag": ["tag", "add", "odd", *steps],
            "note": ["note", "it slips", *steps],
            "remove": ["remove", "--dataset", "first", "--yes"],
            "undo": ["undo"],
            "export": ["export", "all", str(self.folder / "exported"), "--format", "parquet"],
            "status": ["status"],
            "doctor": ["doctor"],
        }

    def copy(self) -> Path:
        """A fresh copy of the workspace."""
        first, start = self.folder / "first", self.folder / "start"
        if not start.exists():
            WRITERS["mcap"](first, 3, "first")
            WRITERS["bag"](self.folder / "second", 2, "second")
            for command in (["ingest", str(first)], ["set", "create", "all"], ["tag", "add", "new"]):
                where = ["--where", "num_steps > 0"] if command[0] == "tag" else []
                end = run_ares([*command, *where, "-w", str(start), "-q"], seconds=_SECONDS)
                assert end.status == 0, (command, end.errors)
        workspace = self.folder / "ws"
        for path in (workspace, self.folder / "exported"):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(start, workspace)
        return workspace

    def run(self, name: str, workspace: Path, prepare: Callable[[], None] = lambda: None) -> ChildEnd:
        """Run one command."""
        if name == "export":
            shutil.rmtree(self.folder / "exported", ignore_errors=True)
        arguments = [*self.commands()[name], "-w", str(workspace), "--json", "-q"]
        return run_ares(arguments, seconds=_SECONDS, prepare=prepare)

    def undisturbed(self, name: str) -> tuple[ChildEnd, WorkspaceState, int]:
        """How a command ends, what it leaves, and how many reads it makes."""
        if name not in self._expected:
            workspace = self.copy()
            injector = Injector(folders=(str(workspace),), reads=True)
            end = injector.run(lambda prepare: self.run(name, workspace, prepare))
            state = read_workspace(workspace)
            assert isinstance(state, WorkspaceState), state
            self._expected[name] = end, state, injector.count
        return self._expected[name]


def read_workspace(workspace: Path) -> WorkspaceState | str:
    """What a workspace holds, or why it cannot be read."""
    end = run_child(lambda: read_state(str(workspace)), seconds=_SECONDS)
    return end.value if isinstance(end.value, WorkspaceState) else f"cannot be read: {end.errors[-400:]}"


def read_attempts(small: SmallWorkspace, seed: str) -> Iterator[Attempt]:
    """A random read of a random command fails with an I/O error, again and again."""
    for number in itertools.count():
        rng = random.Random(f"{seed} reads {number}")
        yield partial(_fail_read, small, rng.choice(sorted(small.commands())), rng.random())


def _fail_read(small: SmallWorkspace, name: str, share: float) -> Trial:
    expected, after, count = small.undisturbed(name)
    workspace = small.copy()
    at = 1 + int(share * count)
    injector = Injector(folders=(str(workspace),), at=at, fault="EIO", reads=True)
    end = injector.run(lambda prepare: small.run(name, workspace, prepare))
    problem = end.fault or ("" if end.status in (0, 1, 2) else f"status {end.status}: {end.errors[-300:]}")
    if not problem and end.status == expected.status:
        problem = _difference(workspace, after)
    elif not problem:
        again = small.run(name, workspace)
        problem = again.fault or _difference(workspace, after)
        if again.status != expected.status:
            problem = f"given again it ended with {again.status}: {again.errors[-300:]}"
    hit = injector.hit.replace(str(workspace), "")
    title = f"{name}: read {at} of {count} ({hit})"
    return Trial(group="a read of a command fails", name=title, problem=problem, seconds=end.seconds)


def clock_attempts(small: SmallWorkspace, seed: str) -> Iterator[Attempt]:
    """Random commands one after the other while the clock jumps, compared with a clock that goes."""
    for number in itertools.count():
        rng = random.Random(f"{seed} clocks {number}")
        names = rng.choices(sorted(small.commands()), k=_SEQUENCE)
        yield partial(_jump, small, names, f"{seed} {number}")


def _jump(small: SmallWorkspace, names: Sequence[str], seed: str) -> Trial:
    ends: list[list[ChildEnd]] = []
    states: list[WorkspaceState | str] = []
    for is_jumping in (False, True):
        workspace = small.copy()
        prepare = partial(jump_clock, random.Random(seed)) if is_jumping else lambda: None
        ends.append([small.run(name, workspace, prepare) for name in names])
        states.append(read_workspace(workspace))
    problem = next((end.fault for end in ends[1] if end.fault), "")
    for name, still, jumped in zip(names, *ends, strict=True):
        if not problem and still.status != jumped.status:
            problem = f"{name} ended with {jumped.status} in place of {still.status}: {jumped.errors[-300:]}"
    if not problem:
        before, after = states
        problem = _compare(before, after)
    seconds = sum(end.seconds for end in ends[1])
    return Trial(group="the clock jumps", name=", ".join(names), problem=problem, seconds=seconds)


def _difference(workspace: Path, expected: WorkspaceState) -> str:
    return _compare(expected, read_workspace(workspace))


def _compare(expected: WorkspaceState | str, found: WorkspaceState | str) -> str:
    if isinstance(expected, str) or isinstance(found, str):
        return f"the workspace {found if isinstance(found, str) else expected}"
    if found.findings:
        return f"doctor: {found.findings}"
    return found.difference(expected)
