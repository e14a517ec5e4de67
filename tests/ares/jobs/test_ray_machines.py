"""An actor of a ray cluster is killed, a machine removed, another joins: no item fails, and the tables are equal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")


@pytest.mark.nightly
def test_a_killed_actor_and_a_removed_machine_cost_nothing(tmp_path: Path, demo_samples: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ares.jobs.two_machines", str(demo_samples / "video"), str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["kept"] == result["planned"] > 0
    assert result["equal"] and result["machines"] >= 2
