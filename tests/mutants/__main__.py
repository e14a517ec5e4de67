"""`make mutants`: changes ARES at random, runs the tests that enter the changed function, counts what they notice.

Exit status 1 when fewer than 85 of 100 changes are noticed. The seed that is printed repeats a run.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from cosmic_ray.mutating import use_mutation
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome

from tests.mutants.changes import OPERATORS, Change, sample
from tests.mutants.record import Record, write_settings

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("ares/store", "ares/curation", "ares/export", "ares/rubric", "annotators/grade")
# Tests of those rooms and of what shows their work to a user: commands, exports, searches, reviews. Others enter them,
# too, but tell nobody what is wrong there.
_TESTS = (
    "tests/ares/store", "tests/ares/curation", "tests/ares/export", "tests/ares/rubric", "tests/annotators/grade",
    "tests/ares/search", "tests/ares/review", "tests/ares/doctor", "tests/ares/repair", "tests/contracts",
    "tests/ingest/lerobot/test_depth_video.py", "tests/judges/test_attack.py", "tests/app/cli",
    "tests/test_recorded_outputs.py",
)  # fmt: skip
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
_PYTEST = (
    sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not nightly",
)  # fmt: skip
# Seconds of tests for one change, as they were recorded; what they may take by the clock, also on a busy machine.
_SECONDS, _LIMIT_SECONDS, _LIMIT_FACTOR = 240.0, 120.0, 10.0
# Changes whose tests are tried without the change.
_CHECKED = 3
_GOAL = 0.85


def _fill(root: Path) -> None:
    """Copy every file that git knows or would add, and link the sample data beside the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and (_ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, root / name)
    if (_ROOT.parent / "shared").is_dir():
        (root.parent / "shared").symlink_to(_ROOT.parent / "shared")


def _record(root: Path, folder: Path, tests: Sequence[str]) -> None:
    """Run the tests once, in the copy."""
    environment, options = write_settings(folder, [root / room for room in _ROOMS])
    command = [*_PYTEST, *options, "-n", "2", "--dist", "loadfile", *tests]
    status = subprocess.run(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL).returncode
    if status not in (0, 1):
        raise SystemExit(f"the tests could not be run: status {status}")


def _noticing(change: Change, record: Record) -> str:
    """Which of the tests of a change fails, "" when none does."""
    chosen, total = list[str](), 0.0
    for test in record.tests_of(change):
        total += record.seconds[test]
        if chosen and total > _SECONDS:
            break
        chosen.append(test)
    if not chosen:
        return ""
    command = shlex.join([*_PYTEST, "-x", "--no-header", "--tb=no", *chosen])
    outcome, printed = run_tests(command, _LIMIT_SECONDS + _LIMIT_FACTOR * total)
    if outcome is TestOutcome.INCOMPETENT or ("no tests ran" in printed and "error" not in printed.lower()):
        raise SystemExit(f"the tests cannot be run: {printed[-300:]}")
    if outcome is TestOutcome.SURVIVED:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, re.MULTILINE)
    return failed[1] if failed else "what ran out of time" if printed == "timeout" else "a run that broke off"


def _is_program(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _try_changes(
    root: Path, record: Record, changes: Sequence[Change], seconds: float
) -> tuple[int, list[str]]:
    """How many were noticed before the time is over, and those that nothing noticed."""
    noticed, survived, ends = 0, list[str](), time.monotonic() + seconds
    equivalent = set(_EQUIVALENT.read_text().splitlines())
    for number, change in enumerate(changes, 1):
        started = time.monotonic()
        if started > ends:
            break
        if number <= _CHECKED and (failing := _noticing(change, record)):
            raise SystemExit(f"without any change: {failing}")
        with use_mutation(root / change.path, OPERATORS[change.operator], change.occurrence) as texts:
            lines = zip(*map(str.splitlines, texts), strict=False)
            words = next(f"{old.strip()}  ->  {new.strip()}" for old, new in lines if old != new)
            if f"{change.path}: {words}" in equivalent or not _is_program(texts[1]):
                said = "changes nothing"
            elif failing := _noticing(change, record):
                noticed, said = noticed + 1, f"noticed by {failing}"
            else:
                said = f"SURVIVED {len(record.tests_of(change))} tests"
                survived.append(f"{change.path}:{change.line}: {words}")
        took = time.monotonic() - started
        place = f"{change.path}:{change.line}"
        print(f"{number}/{len(changes)} {took:3.0f} s {said}: {place}: {words}", flush=True)
    return noticed, survived


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the tests, try changes, print those that nothing noticed; 1 below the goal."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", default="", help="seed of a run that is to be repeated")
    parser.add_argument("--count", type=int, default=100, help="how many changes are tried (100)")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new change after this time (60)")
    parser.add_argument("--goal", type=float, default=_GOAL, help=f"share that must be noticed ({_GOAL})")
    parser.add_argument("--match", default="", help="only files below this path, such as ares/rubric")
    parser.add_argument(
        "--tests", nargs="+", default=_TESTS, help="tests that are recorded (those of the folders)"
    )
    parser.add_argument("--record", default="", help="folder of a record, which is made where it is missing")
    options = parser.parse_args(arguments)
    seed = options.seed or secrets.token_hex(4)
    repeat = f"--seed {seed} --count {options.count}" + (f" --match {options.match}" if options.match else "")
    print(f'seed {seed}: repeat with ARGS="{repeat}"', flush=True)
    changes = sample(_ROOT, _ROOMS, seed, options.count, options.match)
    with tempfile.TemporaryDirectory(prefix="ares-mutants-") as folder:
        root, record = Path(folder, "repository"), Path(options.record or f"{folder}/record").resolve()
        _fill(root)
        os.environ["PYTHONPATH"] = str(root)
        with chdir(root):
            if not record.exists():
                _record(root, record, options.tests)
            noticed, survived = _try_changes(root, Record(record), changes, 60 * options.minutes)
    share = noticed / max(1, noticed + len(survived))
    for name in sorted(survived):
        print(f"SURVIVED: {name}")
    tried = noticed + len(survived)
    print(f"{noticed} of {tried} noticed ({share:.1%}); goal {options.goal:.0%}, seed {seed}")
    return 0 if share >= options.goal else 1


if __name__ == "__main__":
    sys.exit(main())
