"""The short form of `make torture` finds nothing wrong."""

from __future__ import annotations

import random
import re
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.torture.__main__ import PARTS


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
