"""The contract suite of annotators tries a guest that is installed beside ARES, a judge of segments too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_contract_suite_tries_the_guest(guest_folder: Path) -> None:
    suite = ["tests/contracts/test_annotators.py", "-k", "phases or brightness"]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *suite],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(guest_folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout
