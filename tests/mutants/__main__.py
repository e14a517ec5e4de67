"""`make mutants`: changes a line of ARES at random, runs the tests that enter it, and counts what they notice.

Exit status 1 when fewer than 85 of 100 changes are noticed. The seed that is printed repeats a run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.mutations import Mutant, find_mutants
from tests.mutants.plugin import FOLDER_VARIABLE

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("ares/store", "ares/curation", "ares/export", "ares/rubric", "annotators/grade")
# Tests that enter those rooms, without those of the pages, of a cluster, and of whole jobs in other processes.
_TESTS = ("tests/ares", "tests/annotators", "tests/contracts", "tests/app/cli", "tests/test_python_tour.py")
_WITHOUT = ("tests/ares/jobs", "tests/annotators/served", "tests/app/cli/test_killed.py")
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# Tests are tried in this many runs: first the nearest and shortest ones, which notice most changes.
_FIRST_TESTS, _FIRST_SECONDS, _ALL_SECONDS = 30, 10.0, 900.0
_STARTING_SECONDS, _SLOWER = 120.0, 10.0
_GOAL = 0.85


@dataclass(frozen=True, slots=True)
class Record:
    """Which tests enter which function.

    Attributes:
        seconds: How long each test took.
        entering: By "FILE:FIRST LINE" of a function, the tests that enter it.
    """

    seconds: dict[str, float]
    entering: dict[str, set[str]]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that could notice a change: those of its folder first, then the shortest ones."""
        file = f"{mutant.path}:"
        keys = (
            [f"{file}{mutant.function}"]
            if mutant.function
            else [k for k in self.entering if k.startswith(file)]
        )
        found = {test for key in keys for test in self.entering.get(key, ())}
        near = f"tests/{Path(mutant.path).parent}"
        return sorted(found, key=lambda test: (not test.startswith(near), self.seconds[test], test))


@dataclass(slots=True)
class Outcome:
    """What became of the changes that were tried."""

    noticed: int = 0
    equivalent: list[str] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the noticed ones, without those that change nothing."""
        tried = self.noticed + len(self.survived)
        return self.noticed / tried if tried else 1.0


@dataclass(frozen=True, slots=True)
class Lab:
    """A copy of the repository, in which changes are tried.

    Args:
        root: The copy.
    """

    root: Path

    def fill(self) -> None:
        """Copy every file that git knows or would add, and link the sample data beside the repository."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=_ROOT, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for name in listed.split("\0"):
            if name and (_ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(_ROOT / name, self.root / name)
        if (_ROOT.parent / "shared").is_dir():
            (self.root.parent / "shared").symlink_to(_ROOT.parent / "shared")

    def pytest(self, arguments: Sequence[str], seconds: float, **environ: str) -> tuple[int, str]:
        """Run tests on the copy; their exit status (-9 past the time) and what they print."""
        program = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(self.root), **environ}
        process = subprocess.Popen(
            program, cwd=self.root, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=seconds)
            return process.returncode, printed
        except subprocess.TimeoutExpired:
            return -9, ""
        finally:
            _end_group(process)

    def record(self, folder: Path, workers: int) -> None:
        """Run every test once, and write what each enters into a folder."""
        folder.mkdir(parents=True)
        arguments = ["-p", "tests.mutants.plugin", "-n", str(workers), "--dist", "loadfile", *_TESTS]
        arguments += [f"--ignore={path}" for path in _WITHOUT]
        status, printed = self.pytest(arguments, 4 * 3600, **{FOLDER_VARIABLE: str(folder)})
        print(printed[-600:], flush=True)
        if status not in (0, 1):
            raise SystemExit(f"the tests could not be run: status {status}")

    def is_noticed(self, mutant: Mutant, record: Record) -> bool:
        """Whether some test fails, or never ends, with the change."""
        path = self.root / mutant.path
        original = path.read_text()
        kept = path.stat()
        path.write_text(mutant.apply(original))
        try:
            return any(
                self._fails(tests, seconds) for tests, seconds in _runs(record, record.tests_of(mutant))
            )
        finally:
            path.write_text(original)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # its compiled form is right again

    def _fails(self, tests: list[str], seconds: float) -> bool:
        options = ["-x", "-p", "tests.mutants.plugin", "-p", "no:randomly", "--no-header", "--tb=no"]
        status, printed = self.pytest(
            [*options, *tests], _STARTING_SECONDS + _SLOWER * seconds, PYTHONDONTWRITEBYTECODE="1"
        )
        if status in (4, 5) and "no tests ran" in printed and "error" not in printed.lower():
            raise SystemExit(f"the tests of the record are not found: {printed[-300:]}")
        return status != 0


def _end_group(process: subprocess.Popen[str]) -> None:
    import signal
    from contextlib import suppress

    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _runs(record: Record, tests: list[str]) -> Iterator[tuple[list[str], float]]:
    """The nearest tests, then the others, within a time."""
    first, rest, total = list[str](), list[str](), 0.0
    for test in tests:
        total += record.seconds[test]
        if total > _ALL_SECONDS and (first or rest):
            break
        (first if len(first) < _FIRST_TESTS and total <= _FIRST_SECONDS else rest).append(test)
    for part in (first, rest):
        if part:
            yield part, sum(record.seconds[test] for test in part)


def read_record(folder: Path) -> Record:
    """The records of all processes of a run."""
    seconds: dict[str, float] = {}
    entering: dict[str, set[str]] = {}
    for file in folder.glob("*.json"):
        for test, (took, functions) in json.loads(file.read_text()).items():
            seconds[test] = seconds.get(test, 0.0) + took
            for function in functions:
                entering.setdefault(function, set()).add(test)
    return Record(seconds, entering)


def sample(rng: random.Random, count: int, match: str) -> list[Mutant]:
    """Random changes, as many of each room; files count by their number of possible changes."""
    chosen: list[Mutant] = []
    rooms = [room for room in _ROOMS if match.startswith(room) or room.startswith(match)] or list(_ROOMS)
    for number, room in enumerate(rooms):
        paths = sorted(path.relative_to(_ROOT).as_posix() for path in (_ROOT / room).rglob("*.py"))
        mutants = [
            mutant
            for path in paths
            if path.startswith(match)
            for mutant in find_mutants(path, (_ROOT / path).read_text())
        ]
        share = count // len(rooms) + (number < count % len(rooms))
        chosen += rng.sample(mutants, min(share, len(mutants)))
    rng.shuffle(chosen)
    return chosen


def try_mutants(
    lab: Lab, record: Record, mutants: Sequence[Mutant], seconds: float, only: int = 0
) -> Outcome:
    """Try changes one after the other until the time is over; or only the one of a number."""
    equivalent = set(_EQUIVALENT.read_text().splitlines())
    outcome, ends = Outcome(), time.monotonic() + seconds
    for number, mutant in enumerate(mutants, 1):
        if only not in (0, number):
            continue
        if time.monotonic() > ends:
            break
        started, name = time.monotonic(), str(mutant)
        if f"{mutant.path}: {mutant.change}" in equivalent:
            outcome.equivalent.append(name)
            continue
        if lab.is_noticed(mutant, record):
            outcome.noticed += 1
            said = "noticed"
        else:
            outcome.survived.append(name)
            said = f"SURVIVED {len(record.tests_of(mutant))} tests"
        took = time.monotonic() - started
        print(f"{number}/{len(mutants)} {outcome.share:.0%} {took:3.0f} s {said}: {name}", flush=True)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the tests, try changes, print those that nothing noticed; 1 below the goal."""
    options = _parse(arguments)
    seed = options.seed or secrets.token_hex(4)
    repeat = f"--seed {seed} --count {options.count}" + (f" --match {options.match}" if options.match else "")
    print(f'seed {seed}: repeat with ARGS="{repeat}"', flush=True)
    mutants = sample(random.Random(seed), options.count, options.match)
    with tempfile.TemporaryDirectory(prefix="ares-mutants-") as folder:
        lab = Lab(Path(folder) / "repository")
        lab.fill()
        recorded = Path(options.record or f"{folder}/record")
        if not recorded.exists():
            lab.record(recorded, options.workers)
        outcome = try_mutants(lab, read_record(recorded), mutants, 60 * options.minutes, options.number)
    for title, names in (("changes nothing", outcome.equivalent), ("SURVIVED", outcome.survived)):
        for name in sorted(names):
            print(f"{title}: {name}")
    print(
        f"{outcome.noticed} of {outcome.noticed + len(outcome.survived)} noticed ({outcome.share:.1%}), "
        f"{len(outcome.equivalent)} that change nothing; goal {_GOAL:.0%}, seed {seed}"
    )
    return 0 if outcome.share >= _GOAL else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", default="", help="seed of a run that is to be repeated")
    parser.add_argument("--count", type=int, default=200, help="how many changes are tried (default: 200)")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new change after this time (60)")
    parser.add_argument("--match", default="", help="only files below this path, such as ares/rubric")
    parser.add_argument("--number", type=int, default=0, help="only the change of this number of the sample")
    parser.add_argument("--workers", type=int, default=2, help="processes that record the tests (2)")
    parser.add_argument("--record", default="", help="folder of a record, which is made where it is missing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
