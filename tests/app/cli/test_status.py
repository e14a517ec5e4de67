"""`ares status` counts what is there without importing what only writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from app.cli.main import main
from ares.settings import Settings
from ares.workspace import open_workspace
from benchmarks.synthetic_episodes import add_synthetic_episodes

_SCRIPT = """
import sys
from app.cli.main import main
assert main(["status", "-w", sys.argv[1], "--json"]) == 0
print(sorted({"lancedb", "duckdb", "torch", "streamlit"} & set(sys.modules)), file=sys.stderr)
"""


def test_status_imports_no_library_that_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "ws")
    workspace = open_workspace(path, Settings())
    add_synthetic_episodes(workspace, 50)
    workspace.sync()
    assert workspace.stores.tables.segments.count() == 0  # its table is made by the first who asks
    workspace.close()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, path], capture_output=True, text=True, check=True, timeout=300
    )
    document = json.loads(done.stdout)
    assert document["episodes"] == document["tables"]["trajectories"]["rows"] == 50
    assert sum(document["datasets"].values()) == 50
    assert done.stderr.strip() == "[]"


def test_status_says_how_many_episodes_have_stamps_of_another_rate_than_they_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path = tmp_path / "lab", str(tmp_path / "ws")
    for name, rate_hz in (("slow", 18.5), ("good", 20.0)):
        (data / name).mkdir(parents=True)
        for number in range(2):
            values = np.random.default_rng(number).normal(size=(60, 2)).astype("float32")
            stamps = np.arange(60) / rate_hz
            np.savez(data / name / f"episode_{number}.npz", state=values, action=values, timestamps=stamps)
            (data / name / f"episode_{number}.json").write_text('{"fps": 20}')
    assert main(["ingest", str(data), "-w", path, "-q"]) == 0
    capsys.readouterr()
    assert main(["status", "-w", path]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "18.5 Hz" in line]
    assert line.split() == ["lab", "2", "20", "Hz", "18.5", "Hz"]
    assert main(["status", "-w", path, "--json"]) == 0
    (name,) = json.loads(capsys.readouterr().out)["clocks"]
    assert name == "lab"
