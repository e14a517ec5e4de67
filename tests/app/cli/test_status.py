"""`ares status` counts what is there without importing what only writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
        [sys.executable, "-c", _SCRIPT, path], capture_output=True, text=True, check=True, timeout=120
    )
    document = json.loads(done.stdout)
    assert document["episodes"] == document["tables"]["trajectories"]["rows"] == 50
    assert sum(document["datasets"].values()) == 50
    assert done.stderr.strip() == "[]"
