"""The short form of `make torture` finds nothing wrong, and what it prints can be repeated by its seed."""

from __future__ import annotations

import random
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.torture.__main__ import PARTS, Plan, main
from tests.torture.trials import Attempt, Trial


@pytest.mark.nightly
def test_the_short_form_of_two_parts_is_clean(tmp_path: Path) -> None:
    """Of other parts and of another seed each time; `make nightly` tries all of them for an hour."""
    seed = secrets.token_hex(4)
    parts = random.sample([part for part in PARTS if part not in ("jobs", "workers")], 2)
    arguments = ["--short", "--seed", seed, *(word for part in parts for word in ("--only", part))]
    print(f'repeat with: make torture ARGS="{" ".join(arguments)}"')
    command = [sys.executable, "-m", "tests.torture", *arguments, "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def lies(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """What the attempts of the part "corpus" find."""
    found: list[Trial] = []

    def attempts(plan: object) -> Iterator[Attempt]:
        for trial in found:
            yield lambda trial=trial: trial  # type: ignore[misc]

    monkeypatch.setattr("tests.torture.__main__.import_everything", lambda: None)
    monkeypatch.setitem(PARTS, "corpus", attempts)
    return found


def test_a_problem_is_printed_and_is_the_exit_status(
    lies: list[Trial], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lies += [Trial(group="lies", name="good"), Trial(group="lies", name="bad", problem="it\x1b[2J fell")]
    arguments = ["--only", "corpus", "--seed", "5", "--keep", str(tmp_path)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "seed 5" in printed and "bad: it\\x1b[2J fell" in printed and "\x1b" not in printed
    lies.pop()
    assert main(arguments) == 0


def test_the_command_that_is_printed_tries_the_same_and_nothing_else(
    lies: list[Trial], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lies += [Trial(group="lies", name=f"lie {n}", problem="fell" if n == 3 else "") for n in range(5)]
    assert main(["--only", "corpus", "--seed", "5", "--keep", str(tmp_path)]) == 1
    command = re.search(r'repeat with: make torture ARGS="(.*)"', capsys.readouterr().out)
    assert command
    lies[4] = Trial(group="lies", name="lie 4", problem="fell, too")
    assert main([*command[1].split(), "--keep", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "lie 3" in printed and "1 tried" in printed and "lie 4" not in printed


def test_a_part_that_cannot_start_is_a_failure_and_the_others_go_on(
    lies: list[Trial], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(plan: object) -> Iterator[Attempt]:
        raise AssertionError("no good dataset")
        yield

    lies.append(Trial(group="lies", name="good"))
    monkeypatch.setitem(PARTS, "fuzz", broken)
    arguments = ["--only", "fuzz", "--only", "corpus", "--seed", "5", "--keep", str(tmp_path)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "no good dataset" in printed and "2 tried, 1 failed" in printed


@pytest.mark.parametrize("part", ["jobs", "clocks", "s3"])
def test_a_trial_follows_from_the_seed_and_its_number(part: str, tmp_path: Path) -> None:
    """Without it, the trials before would have to be tried again to repeat one."""

    def attempts(name: str) -> list[str]:
        plan = Plan(seed="7", folder=tmp_path / name, short=False, seconds=1, match="")
        return [repr(attempt.args[1:]) for attempt in islice(PARTS[part](plan), 12)]  # type: ignore[attr-defined]

    first = [text.replace("again", "first") for text in attempts("again")]
    assert first == attempts("first") and len({*first}) > 6
