"""Two jobs at once on one workspace, one of them killed: the other ends its work, and doctor mends what is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from app.cli.main import main
from ares.doctor import examine
from ares.settings import from_environment
from ares.workspace import open_workspace

# Dies when it has written the signals of its second batch, and not yet the rows.
_DYING = """
import os, signal, sys
import annotators.write, ingest.write
from ares.store.trajectories import TrajectoryTable
annotators.write._FACTS_PER_WRITE = ingest.write._EPISODES_PER_WRITE = 3
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


def _start(program: list[str], *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, *program, *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_job_beside_one_that_is_killed_ends_and_doctor_mends(demo_samples: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "ws")
    doomed = ["ingest", str(demo_samples / "rlds"), "--rate", "10", "-w", place]
    other = ["ingest", str(demo_samples / "video"), "-w", place]
    with _start(["-c", _DYING], *doomed) as dying, _start(["-m", "app.cli.main"], *other) as living:
        told = living.communicate(timeout=120)[1]
        dying.communicate(timeout=120)
    assert dying.returncode == -signal.SIGKILL
    assert living.returncode == 0, told
    ws = open_workspace(place, from_environment())
    found = examine(ws, repair=True)
    assert all(one.repaired for one in found)
    assert examine(ws) == []
    assert main(doomed) == 0
    assert ws.tables.episodes.count() == ws.tables.trajectories.count() == 24
    assert examine(ws) == []
    ws.close()
