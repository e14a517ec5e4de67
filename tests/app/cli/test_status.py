"""`ares status` counts what is there without importing what only writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ares.settings import Settings
from ares.workspace import open_workspace
from benchmarks.grow import grow

_SCRIPT = """
import sys
from app.cli.main import main
assert main(["status", "-w", sys.argv[1], "--json"]) == 0
print(sorted({"lancedb", "duckdb", "torch", "streamlit"} & set(sys.modules)), file=sys.stderr)
"""


def test_status_imports_no_library_that_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "ws")
    ws = open_workspace(path, Settings())
    grow(ws, 50)
    ws.sync()
    assert ws.tables.segments.count() == 0  # its table is made by the first who asks
    ws.close()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, path], capture_output=True, text=True, check=True, timeout=120
    )
    document = json.loads(done.stdout)
    assert document["episodes"] == document["tables"]["trajectories"]["rows"] == 50
    assert sum(document["datasets"].values()) == 50
    assert done.stderr.strip() == "[]"
