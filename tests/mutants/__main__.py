"""`make mutants`: changes a line of ARES at random, runs the tests that enter it, and counts what they notice.

Exit status 1 when fewer than 85 of 100 changes are noticed. The seed that is printed repeats a run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.mutations import Mutant, find_mutants
from tests.mutants.probe import FOLDER_VARIABLE, add_probes

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("ares/store", "ares/curation", "ares/export", "ares/rubric", "annotators/grade")
# Tests of those rooms and of what shows their work to a user: commands, exports, searches, reviews. Others enter them,
# too, but tell nobody what is wrong there. Recorded in eleven minutes beside the whole suite.
_TESTS = (
    "tests/ares/store", "tests/ares/curation", "tests/ares/export", "tests/ares/rubric", "tests/annotators/grade",
    "tests/ares/search", "tests/ares/review", "tests/ares/doctor", "tests/ares/repair", "tests/contracts",
    "tests/ingest/lerobot/test_depth_video.py", "tests/judges/test_attack.py", "tests/app/cli",
    "tests/test_recorded_outputs.py",
)  # fmt: skip
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# Tests are tried in this many runs: first the nearest and shortest ones, which notice most changes.
_FIRST_TESTS, _FIRST_SECONDS, _ALL_SECONDS = 30, 10.0, 240.0
# A test of another folder than that of the change comes as late as one of this folder that takes so much longer.
_FARTHER = 3
# A test may take this many seconds, with the fixtures of others, and so many times what it took when it was recorded:
# of a processor, which does not depend on what else runs, and of the clock, for one that waits for ever.
_PROCESSOR_SECONDS, _PROCESSOR_FACTOR = 60.0, 5.0
_CLOCK_SECONDS, _CLOCK_FACTOR = 180.0, 10.0
_OUT_OF_TIME = "what ran out of time"
# Changes whose first tests are tried without the change.
_CHECKED = 5
_SUITES = ("-m", "not nightly")
_OPTIONS = (
    *_SUITES, "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "tests.mutants.plugin",
    "--no-header", "--tb=no",
)  # fmt: skip
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
        """The tests that could notice a change: the shortest ones first, those of its folder before others."""
        file, near = f"{mutant.path}:", f"tests/{Path(mutant.path).parent}"
        keys = (
            [f"{file}{mutant.function}"]
            if mutant.function
            else [k for k in self.entering if k.startswith(file)]
        )
        found = {test for key in keys for test in self.entering.get(key, ())} & self.seconds.keys()
        if not mutant.function:
            found |= {test for test in self.seconds if test.startswith(near)}
        return sorted(
            found, key=lambda test: (self.seconds[test] * (1 if test.startswith(near) else _FARTHER), test)
        )


@dataclass(slots=True)
class Outcome:
    """What became of the changes that were tried; those with which tests never end count as noticed."""

    noticed: int = 0
    out_of_time: list[str] = field(default_factory=list)
    equivalent: list[str] = field(default_factory=list)
    survived: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Share of the noticed ones, without those that change nothing."""
        tried = self.noticed + len(self.survived)
        return self.noticed / tried if tried else 1.0


@dataclass(slots=True)
class Lab:
    """A copy of the repository, in which changes are tried.

    Args:
        root: The copy.
    """

    root: Path
    _starter: subprocess.Popen[str] | None = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process that tests are started from."""
        if self._starter is not None:
            self._starter.kill()
            self._starter.communicate()

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

    def pytest(self, arguments: Sequence[str], limits: Mapping[str, tuple[float, float]]) -> tuple[int, str]:
        """Run tests on the copy; their exit status (minus the signal that ended them) and what they print.

        Args:
            arguments: Those of pytest.
            limits: See `tests.mutants.plugin`.
        """
        if self._starter is None:
            self._starter = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.mutants.starter"], cwd=self.root, text=True,
                env={**self._environment(), "PYTHONDONTWRITEBYTECODE": "1"},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        assert self._starter.stdin is not None and self._starter.stdout is not None
        output = self.root / ".printed"
        print(json.dumps([arguments, str(output), limits]), file=self._starter.stdin, flush=True)
        status = self._starter.stdout.readline()
        if not status:
            raise SystemExit("the process that starts tests has ended")
        return int(status), output.read_text(errors="replace")

    def _environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.root), **more}

    def record(self, folder: Path, workers: int, tests: Sequence[str]) -> None:
        """Run tests once, and write what each enters into a folder."""
        folder.mkdir(parents=True)
        program = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        program += ["-p", "tests.mutants.plugin", "-n", str(workers), "--dist", "loadfile", *_SUITES, *tests]
        with self._probes():
            ended = subprocess.run(
                program, cwd=self.root, env=self._environment(**{FOLDER_VARIABLE: str(folder)}),
                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        print(ended.stdout[-600:], flush=True)
        if ended.returncode not in (0, 1):
            raise SystemExit(f"the tests could not be run: status {ended.returncode}")

    @contextmanager
    def _probes(self) -> Iterator[None]:
        """Meanwhile every function of the rooms says when it is entered."""
        paths = [path for room in _ROOMS for path in (self.root / room).rglob("*.py")]
        originals = {path: path.read_text() for path in paths}
        for path, text in originals.items():
            path.write_text(add_probes(path.relative_to(self.root).as_posix(), text))
        try:
            yield
        finally:
            for path, text in originals.items():
                path.write_text(text)
            subprocess.run([sys.executable, "-m", "compileall", "-q", *_ROOMS], cwd=self.root, check=True)

    def check(self, mutants: Sequence[Mutant], record: Record) -> None:
        """Run some of the tests without any change: they must pass, or what they notice means nothing."""
        runs = [next(_runs(record, record.tests_of(mutant)), []) for mutant in mutants]
        tests = sorted({test for chosen in runs for test in chosen})
        if tests and (noticed := self._failing(tests, record)):
            raise SystemExit(f"without any change: {noticed}")

    def noticing(self, mutant: Mutant, record: Record) -> str:
        """Which test fails with the change, or `_OUT_OF_TIME`; "" when none does."""
        path = self.root / mutant.path
        original = path.read_text()
        kept = path.stat()
        path.write_text(mutant.apply(original))
        try:
            runs = _runs(record, record.tests_of(mutant))
            return next(filter(None, (self._failing(tests, record) for tests in runs)), "")
        finally:
            path.write_text(original)
            os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))  # its compiled form is right again

    def _failing(self, tests: list[str], record: Record) -> str:
        status, printed = self.pytest([*_OPTIONS, *tests], _limits(tests, record))
        if status in (4, 5) and "no tests ran" in printed and "error" not in printed.lower():
            raise SystemExit(f"the tests of the record are not found: {printed[-300:]}")
        if status in (-signal.SIGPROF, -signal.SIGALRM):
            return _OUT_OF_TIME
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
        return (failed[1] if failed else f"status {status}") if status else ""


def _limits(tests: Sequence[str], record: Record) -> dict[str, tuple[float, float]]:
    """Seconds of a processor and of the clock by test, and by "" before the first and after the last one."""
    return {
        test: (_PROCESSOR_SECONDS + _PROCESSOR_FACTOR * seconds, _CLOCK_SECONDS + _CLOCK_FACTOR * seconds)
        for test, seconds in [("", 0.0), *((test, record.seconds[test]) for test in tests)]
    }


def _runs(record: Record, tests: list[str]) -> Iterator[list[str]]:
    """The nearest tests, then the others, within a time."""
    first, rest, total = list[str](), list[str](), 0.0
    for test in tests:
        total += record.seconds[test]
        if total > _ALL_SECONDS and (first or rest):
            break
        (first if len(first) < _FIRST_TESTS and total <= _FIRST_SECONDS else rest).append(test)
    yield from filter(None, (first, rest))


def read_record(folder: Path) -> Record:
    """The records of all processes of a run, those that tests started included."""
    seconds: dict[str, float] = {}
    entering: dict[str, set[str]] = {}
    for file in folder.glob("*.json"):
        for test, (took, functions) in json.loads(file.read_text()).items():
            seconds[test] = seconds.get(test, 0.0) + took
            for function in functions:
                entering.setdefault(function, set()).add(test)
    for file in folder.glob("*.entered"):
        for line in file.read_text().splitlines():
            test, _, function = line.partition("\t")
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
        if noticed := lab.noticing(mutant, record):
            outcome.noticed += 1
            outcome.out_of_time += [name] if noticed == _OUT_OF_TIME else []
            said = f"noticed by {noticed}"
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
        recorded = Path(options.record or f"{folder}/record")
        with Lab(Path(folder) / "repository") as lab:
            lab.fill()
            if not recorded.exists():
                lab.record(recorded, options.workers, options.tests or _TESTS)
            lab.check(mutants[:_CHECKED], read_record(recorded))
            outcome = try_mutants(lab, read_record(recorded), mutants, 60 * options.minutes, options.number)
    kinds = {
        "changes nothing": outcome.equivalent,
        "ran out of time": outcome.out_of_time,
        "SURVIVED": outcome.survived,
    }
    for title, names in kinds.items():
        for name in sorted(names):
            print(f"{title}: {name}")
    print(
        f"{outcome.noticed} of {outcome.noticed + len(outcome.survived)} noticed ({outcome.share:.1%}), "
        f"{len(outcome.equivalent)} that change nothing; goal {options.goal:.0%}, seed {seed}"
    )
    return 0 if outcome.share >= options.goal else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", default="", help="seed of a run that is to be repeated")
    parser.add_argument("--count", type=int, default=100, help="how many changes are tried (100)")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new change after this time (60)")
    parser.add_argument("--goal", type=float, default=_GOAL, help=f"share that must be noticed ({_GOAL})")
    parser.add_argument("--match", default="", help="only files below this path, such as ares/rubric")
    parser.add_argument("--number", type=int, default=0, help="only the change of this number of the sample")
    parser.add_argument("--workers", type=int, default=2, help="processes that record the tests (2)")
    parser.add_argument("--tests", nargs="+", help="tests that are recorded (those of the changed folders)")
    parser.add_argument("--record", default="", help="folder of a record, which is made where it is missing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
