"""Two jobs at once on one workspace, one of them killed: the other ends its work, and doctor mends what is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from app.cli.main import main
from ares.doctor import run_checks
from ares.settings import settings_from_environment
from ares.workspace import open_workspace

# Dies when it has written the signals of its second batch, and not yet the rows.
_DYING = """
import os, signal, sys
import annotators.runner.writer, ingest.pipeline.write
from ares.store.lance.trajectories import TrajectoryTable
annotators.runner.writer._ANNOTATIONS_PER_WRITE = ingest.pipeline.write._EPISODES_PER_WRITE = 3
real, calls = TrajectoryTable.write, [0]
def dying(*args, **kwargs):
    result = real(*args, **kwargs)
    calls[0] += 1
    if calls[0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
TrajectoryTable.write = dying
from app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def _start(program: list[str], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, *program, *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_job_beside_one_that_is_killed_ends_and_doctor_mends(demo_samples: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "ws")
    doomed = ["ingest", str(demo_samples / "rlds"), "--rate", "10", "-w", path]
    other = ["ingest", str(demo_samples / "video"), "-w", path]
    with _start(["-c", _DYING], *doomed) as dying, _start(["-m", "app.cli.main"], *other) as living:
        errors = living.communicate(timeout=300)[1]
        dying.communicate(timeout=300)
    assert dying.returncode == -signal.SIGKILL
    assert living.returncode == 0, errors
    workspace = open_workspace(path, settings_from_environment())
    findings = run_checks(workspace.stores, repair=True)
    assert all(finding.repaired for finding in findings)
    assert run_checks(workspace.stores) == []
    assert main(doomed) == 0
    assert workspace.stores.tables.episodes.count() == workspace.stores.tables.trajectories.count() == 24
    assert run_checks(workspace.stores) == []
    workspace.close()
