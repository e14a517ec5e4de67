"""The short form of `make torture` finds nothing wrong, and what it finds can be repeated."""

from __future__ import annotations

import random
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.torture.__main__ import PARTS, main
from tests.torture.trials import Attempt, Trial


@pytest.mark.nightly
def test_the_short_form_of_two_parts_is_clean(tmp_path: Path) -> None:
    """Of other parts and of another seed each time; `make nightly` tries all of them for an hour."""
    seed = secrets.token_hex(4)
    parts = random.sample(sorted(PARTS.keys() - {"jobs", "actions"}), 2)
    arguments = ["--short", "--seed", seed, *(word for part in parts for word in ("--only", part))]
    print(f'repeat with: make torture ARGS="{" ".join(arguments)}"')
    command = [sys.executable, "-m", "tests.torture", *arguments, "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* tried, 0 failed", done.stdout) or "(seccomp)" in done.stdout


def test_what_fails_is_printed_with_the_command_that_tries_it_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def attempts(plan: object) -> Iterator[Attempt]:
        for number in range(5):
            problem = "it\x1b[2J fell" if number >= 3 else ""
            trial = Trial(group="lies", name=f"lie {number}", problem=problem)
            yield lambda trial=trial: trial  # type: ignore[misc]

    monkeypatch.setattr("tests.torture.__main__.import_everything", lambda: None)
    monkeypatch.setitem(PARTS, "corpus", attempts)
    assert main(["--only", "corpus", "--seed", "5", "--keep", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "5 tried, 2 failed" in printed and "lie 3: it\\x1b[2J fell" in printed and "\x1b" not in printed
    command = re.search(r'repeat with: make torture ARGS="(.*)"', printed)
    assert command and main([*command[1].split(), "--keep", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "1 tried, 1 failed" in printed and "lie 3" in printed and "lie 4" not in printed
    assert main([*command[1].replace("--trial 4", "--trial 1").split(), "--keep", str(tmp_path)]) == 0
