"""Disturbs an export at its writes: `python -m tests.torture.exports WORKSPACE FOLDER FORMAT FAULT SHARE [SET]`.

The set "first" is exported, or SET is appended to an export of it. SHARE is the write that fails, as a share of all of
them, or "every". It prints a line for each problem and, last, how many faults were tried. The process has opened no
workspace before it forks: threads of Lance do not survive that.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import cast

from tests.torture.children import import_everything, run_child
from tests.torture.syscalls import Fault, Injector

_SECONDS = 60.0


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file of an export by its path, but the one that differs each time."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.times.json"
    }


class DisturbedExport:
    """An export that faults disturb.

    Args:
        workspace: The workspace.
        folder: Where the export is written.
        format: Its format.
        fault: What happens at a write.
        appended: The set that is appended to an export of "first"; "" to disturb that export.
    """

    def __init__(self, workspace: str, folder: Path, format: str, fault: Fault, appended: str) -> None:
        self._workspace, self._out = workspace, folder / "out"
        self._format, self._fault, self._appended = format, fault, appended

    def run(self, at: int = 0) -> Injector:
        """Run it with a fault at a write; 0 for none."""
        injector = Injector(folders=(str(self._out.parent),), at=at, fault=self._fault if at else "")
        injector.run(lambda prepare: run_child(self._export, seconds=_SECONDS, prepare=prepare))
        return injector

    def start(self) -> dict[str, bytes]:
        """The files before it."""
        shutil.rmtree(self._out.parent, ignore_errors=True)
        self._out.parent.mkdir()
        if self._appended:
            run_child(lambda: self._export(is_first=True), seconds=_SECONDS)
        return read_files(self._out)

    def find_problem(self, at: int, before: dict[str, bytes], after: dict[str, bytes]) -> str:
        """What is wrong after a fault at a write, and after the same command again; "" for nothing."""
        self.start()
        hit = self.run(at).hit
        left = read_files(self._out)
        # Complete, but for the marker that was about to go.
        if left != before and not left.items() >= after.items():
            return f"write {at} ({hit}): the export has {sorted(left.keys() ^ after.keys())[:5]}"
        is_done = left == after and self._names() == ["out"]
        errors = "" if is_done else run_child(self._export, seconds=_SECONDS).errors
        if read_files(self._out) != after or self._names() != ["out"]:
            return f"write {at} ({hit}): the next run leaves another export; {errors[-300:]}"
        return ""

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._out.parent.iterdir())

    def _export(self, is_first: bool = False) -> None:
        from ares import open as open_workspace

        is_append = bool(self._appended) and not is_first
        with open_workspace(self._workspace) as workspace:
            selection = self._appended if is_append else "first"
            workspace.export(selection, self._out, format=self._format, append=is_append, quiet=True)


def main(workspace: str, folder: str, format: str, fault: str, share: str, appended: str = "") -> int:
    """Try the faults; returns the number of problems."""
    import_everything()
    export = DisturbedExport(workspace, Path(folder) / "exports", format, cast("Fault", fault), appended)
    before = export.start()
    count = export.run().count
    after = read_files(Path(folder) / "exports" / "out")
    tried = range(1, count + 1) if share == "every" else [max(1, int(float(share) * count))]
    problems = [problem for at in tried if (problem := export.find_problem(at, before, after))]
    print(*problems, f"{len(tried)} of {count} writes tried", sep="\n")
    return len(problems)


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
