"""Disturbs an export at its writes: `python -m tests.torture.exports WORKSPACE FOLDER FORMAT FAULT SHARE`.

The set "first" is exported. SHARE is the write that fails, as a share of all of
them; "every"; or "kinds", which tries the first, the middle and the last of consecutive equal calls on one file. It
prints a line for each problem and, last, how many faults were tried. The process has opened no workspace before it
forks: threads of Lance do not survive that. But it has imported what an export does, so that a fork takes little time.
"""

from __future__ import annotations

import shutil
import sys
from itertools import count, groupby
from pathlib import Path
from typing import cast

from tests.torture.children import ChildEnd, import_as_in, import_everything, run_child
from tests.torture.syscalls import Fault, Injector

_SECONDS = 60.0


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file of an export by its path, but the one that differs each time."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.times.json"
    }


def select_writes(operations: list[str], fault: str, share: str) -> list[int]:
    """The numbers of the writes that fail, from 1, of the calls of an undisturbed export."""
    if share not in ("every", "kinds"):
        return [max(1, int(float(share) * len(operations)))]
    numbers, selected = count(1), set[int]()
    for operation, run in groupby(operations):
        same = [next(numbers) for _ in run]
        # Of a call that writes no bytes no half is written: that is a kill.
        if fault != "torn" or operation.startswith(("write ", "pwrite64 ")):
            selected |= set(same) if share == "every" else {same[0], same[len(same) // 2], same[-1]}
    return sorted(selected)


class DisturbedExport:
    """An export that faults disturb.

    Args:
        workspace: The workspace.
        folder: Where the export is written.
        format: Its format.
        fault: What happens at a write.
    """

    def __init__(self, workspace: str, folder: Path, format: str, fault: Fault) -> None:
        self._workspace, self.folder = workspace, folder / "exports" / "out"
        self._format, self._fault = format, fault

    def prepare(self) -> None:
        """Import what it needs."""
        import_everything()
        self.folder.parent.mkdir()
        import_as_in(self._export)

    def run(self, at: int = 0) -> tuple[Injector, ChildEnd]:
        """Run it with a fault at a write; 0 for none."""
        injector = Injector(folders=(str(self.folder.parent),), at=at, fault=self._fault if at else "")
        end = injector.run(lambda prepare: run_child(self._export, seconds=_SECONDS, prepare=prepare))
        return injector, end

    def start(self) -> dict[str, bytes]:
        """The files before it."""
        shutil.rmtree(self.folder.parent, ignore_errors=True)
        self.folder.parent.mkdir()
        return read_files(self.folder)

    def find_problem(self, at: int, before: dict[str, bytes], after: dict[str, bytes]) -> str:
        """What is wrong after a fault at a write, and after the same command again; "" for nothing."""
        self.start()
        injector, end = self.run(at)
        left, place = read_files(self.folder), f"write {at} ({injector.hit})"
        if self._fault == "ENOSPC" and end.status and "\nares.errors." not in end.errors:
            return f"{place}: no clear error, but {end.errors[-300:]}"
        # Complete, but for the marker that was about to go.
        if left != before and not left.items() >= after.items():
            return f"{place}: the export has {sorted(left.keys() ^ after.keys())[:5]}"
        is_done = left == after and self._names() == ["out"]
        errors = "" if is_done else run_child(self._export, seconds=_SECONDS).errors
        if read_files(self.folder) != after or self._names() != ["out"]:
            return f"{place}: the next run leaves another export; {errors[-300:]}"
        return ""

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.folder.parent.iterdir())

    def _export(self) -> None:
        from ares import open as open_workspace

        with open_workspace(self._workspace) as workspace:
            workspace.export("first", self.folder, format=self._format, quiet=True)


def main(workspace: str, folder: str, format: str, fault: str, share: str) -> int:
    """Try the faults; returns the number of problems."""
    export = DisturbedExport(workspace, Path(folder), format, cast("Fault", fault))
    export.prepare()
    before = export.start()
    operations = export.run()[0].operations
    after = read_files(export.folder)
    writes = select_writes(operations, fault, share)
    problems = [problem for at in writes if (problem := export.find_problem(at, before, after))]
    counts = f"{len(writes)} of {len(operations)} writes tried"
    print(*problems, f"{format} {fault}: {counts}, {len(problems)} problems", sep="\n")
    return len(problems)


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
