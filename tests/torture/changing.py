"""Sources that change while they are read: a file shrinks or vanishes at some read operation of the job."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.torture.children import ChildEnd, run_ares, run_child
from tests.torture.datasets import WRITERS, ingester_of
from tests.torture.syscalls import Fault, Injector
from tests.torture.trials import Trial
from tests.torture.workspaces import WorkspaceState, read_state

_EPISODES, _SECONDS = 4, 60.0
# Doctor says that the file has changed, as it should.
_TOLD_BY_DOCTOR = "each source file is where and what it was"
_CHANGES: tuple[Fault, ...] = ("shrink", "vanish")


@dataclass(slots=True)
class ChangingSource:
    """A dataset of one kind, and what an undisturbed run makes of it.

    Args:
        kind: Kind of the dataset.
        folder: Holds the good dataset, the copy that changes, and the workspace.
    """

    kind: str
    folder: Path
    _undisturbed: list[tuple[WorkspaceState, int]] = field(default_factory=list)

    def try_change(self, rng: random.Random) -> Trial:
        """Ingest a fresh copy; one file changes at a random read operation."""
        if not self._undisturbed:
            WRITERS[self.kind](self.folder / "good", _EPISODES)
            injector = Injector(folders=(str(self._lab),), reads=True)
            end, state = self._ingest(injector)
            assert end.status == 0 and state is not None and len(state.rows) == _EPISODES, (self.kind, end)
            self._undisturbed.append((state, injector.count))
        expected, count = self._undisturbed[0]
        change, at = rng.choice(_CHANGES), rng.randint(1, count)
        injector = Injector(folders=(str(self._lab),), at=at, fault=change, reads=True)
        end, state = self._ingest(injector)
        path = injector.hit.partition(" ")[2]
        problem = end.fault or _wrong_end(end)
        if not problem:
            problem = "the workspace cannot be read" if state is None else _wrong_rows(state, expected, path)
        name = f"{self.kind}: {change} at read {at} of {path.removeprefix(str(self._lab))}"
        return Trial(
            group="files that change",
            name=name,
            problem=problem,
            seconds=end.seconds,
            peak_bytes=end.peak_bytes,
        )

    @property
    def _lab(self) -> Path:
        return self.folder / "lab"

    def _ingest(self, injector: Injector) -> tuple[ChildEnd, WorkspaceState | None]:
        workspace = self.folder / "ws"
        for folder in (self._lab, workspace):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "good", self._lab)
        command = ["ingest", str(self._lab), "-w", str(workspace), "--json", "-q"]
        command += ["--format", ingester_of(self.kind)]
        end = injector.run(lambda prepare: run_ares(command, seconds=_SECONDS, prepare=prepare))
        value = run_child(lambda: read_state(str(workspace), repair=True), seconds=_SECONDS).value
        return end, value if isinstance(value, WorkspaceState) else None


def _wrong_end(end: ChildEnd) -> str:
    """What is wrong with the exit status and the answer; status 2 where nothing of the one dataset can be told."""
    if end.status == 2:
        return "" if end.errors.count("\n") <= 1 else f"more than one line: {end.errors[-300:]}"
    if end.status not in (0, 1):
        return f"exit status {end.status}: {end.errors[-300:]}"
    answer: dict[str, Any] = json.loads(end.output)
    unnamed = [entry for entry in answer["failures"] if "ingester '" in entry["reason"]]
    if unnamed:
        return f"an exception that no rule names: {unnamed[0]['reason']}: {unnamed[0]['example']}"
    return "exit status 0 with failures" if end.status == 0 and answer["failed"] else ""


def _wrong_rows(state: WorkspaceState, expected: WorkspaceState, changed: str) -> str:
    """What is wrong with the episodes that do not lie in the file that changed."""
    findings = [finding for finding in state.findings if not finding.startswith(_TOLD_BY_DOCTOR)]
    if findings:
        return f"doctor: {findings}"
    others = {key: row for key, row in expected.rows.items() if changed not in str(row)}
    if len(others) == len(expected.rows):
        return ""  # a file that describes all episodes
    for key, row in others.items():
        if state.rows.get(key) != row or state.signals.get(key) != expected.signals[key]:
            return f"an episode of another file is missing or changed: {key}"
    return ""
