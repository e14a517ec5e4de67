"""Commands on a few episodes import only what they use: most of their time would be imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.synthetic_lerobot import write_lerobot_dataset

_SCRIPT = """
import sys
from app.cli.main import main
sys.argv[0] = "ares"
assert main() == 0
print("imported:", *sorted(sys.modules), file=sys.stderr)
"""


def _imported_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return set(done.stderr.rpartition("imported:")[2].split())


_CALL = """
import sys
import ares
assert ares.check(sys.argv[1]).num_episodes == 2
print("imported:", *sorted(sys.modules), file=sys.stderr)
"""


def test_a_check_in_python_imports_no_pandas_and_no_pydantic(tmp_path: Path) -> None:
    """The program keeps pyarrow from importing pandas; a library must not, so it does without such conversions."""
    source = write_lerobot_dataset(tmp_path / "made", 2)
    done = subprocess.run(
        [sys.executable, "-c", _CALL, str(source)], capture_output=True, text=True, check=True, timeout=300
    )
    imported = set(done.stderr.rpartition("imported:")[2].split())
    assert "pyarrow" in imported
    assert imported & {"pandas", "pydantic", "lancedb", "duckdb", "scipy", "av", "torch"} == set()


def test_a_check_of_signals_imports_no_store_and_no_pandas(tmp_path: Path) -> None:
    source = write_lerobot_dataset(tmp_path / "made", 2, names=("shoulder", "elbow"))
    unused = {
        "lance",
        "lancedb",
        "pandas",
        "duckdb",
        "sqlglot",
        "scipy",
        "av",
        "PIL",
        "torch",
        "ray",
    }
    unused.add("ingest.check.video")
    assert _imported_by("check", str(source), "--json") & unused == set()


def test_an_ingestion_of_signals_imports_one_store_and_no_model_library(tmp_path: Path) -> None:
    source = write_lerobot_dataset(tmp_path / "made", 2)
    imported = _imported_by("ingest", "-w", str(tmp_path / "workspace"), str(source), "-q")
    assert "lance" in imported
    unused = {"lancedb", "duckdb", "sqlglot", "pandas", "scipy", "torch", "ray", "streamlit", "cv2"}
    assert imported & unused == set()
