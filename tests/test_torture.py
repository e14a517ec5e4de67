"""The short form of `make torture` finds nothing wrong, and what it prints can be repeated by its seed."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.torture.__main__ import PARTS, main
from tests.torture.trials import Trial


def test_the_short_form_is_clean(tmp_path: Path) -> None:
    """Of another seed each time; what it prints ends in the command that repeats it."""
    seed = secrets.token_hex(4)
    print(f'repeat with: make torture ARGS="--short --seed {seed}"')
    command = [sys.executable, "-m", "tests.torture", "--short", "--seed", seed, "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_problem_is_printed_and_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trials = [Trial(group="lies", name="good"), Trial(group="lies", name="bad", problem="it\x1b[2J fell")]

    def part(plan: object) -> Iterator[Trial]:
        yield from trials

    monkeypatch.setattr("tests.torture.__main__.import_everything", lambda: None)
    monkeypatch.setitem(PARTS, "corpus", part)
    arguments = ["--only", "corpus", "--seed", "5", "--keep", str(tmp_path)]
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert "seed 5" in printed and "bad: it\\x1b[2J fell" in printed and "\x1b" not in printed
    trials.pop()
    assert main(arguments) == 0
