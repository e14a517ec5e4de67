"""A machine of a ray cluster is killed while a pool works, and another joins: no item fails, and all machines work.

By night: tests/ares/jobs/test_growing_pool.py has what a pool does then, on a cluster that costs nothing to start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


@pytest.mark.nightly
def test_a_killed_machine_costs_nothing_and_a_new_one_gets_work() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ares.jobs.two_machines"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["failed"] == []
    assert result["good"] == result["of"]
    assert (result["before"], result["machines"]) == (2, 3)
    assert "room for 1 worker now, and had for 2" in done.stderr
    assert "room for 2 workers now, and had for 1" in done.stderr
