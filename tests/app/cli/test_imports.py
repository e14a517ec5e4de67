"""Commands on a few episodes import only what they use: most of their time would be imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ares
from benchmarks.synthetic_lerobot import write_lerobot_dataset

pytestmark = pytest.mark.slow
_COMMAND = """
from ares_app.cli.main import main
sys.argv[0] = "ares"
try: status = main()
except SystemExit as end: status = end.code
assert not status
"""
_CALL = "import ares; assert ares.check(sys.argv[1]).num_episodes == 2"
_SIGNALS = {"lancedb", "pandas", "duckdb", "sqlglot", "scipy", "torch", "ray"}
# A program, its arguments, what it imports and what not.
_PROGRAMS = {
    # A program keeps pyarrow from importing pandas; a library must not, so it does without such conversions.
    "a check in Python": (_CALL, "{source}", "pyarrow", {"pydantic", "av", *_SIGNALS}),
    "a check": (
        _COMMAND, "check {source} --json", "pyarrow", {"lance", "av", "PIL", "ares_ingest.check.video", *_SIGNALS}
    ),
    "an ingestion": (_COMMAND, "ingest -w {new} {source} -q", "lance", {"streamlit", "cv2", *_SIGNALS} - {"duckdb"}),
    "status": (_COMMAND, "status -w {workspace}", "lance", {"lancedb", "duckdb", "torch", "streamlit"}),
    "help": (
        _COMMAND, "annotate --help", "argparse",
        {"torch", "open_clip", "transformers", "numpy", "lancedb", "pyarrow", "pydantic", "yaml",
         "ares_annotators.models"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("imports")
    source = write_lerobot_dataset(folder / "made", 2, names=("shoulder", "elbow"))
    with ares.open(folder / "workspace", create=True) as workspace:
        workspace.ingest(source, quiet=True)
    return {"source": source, "workspace": folder / "workspace", "new": folder / "new"}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_command_imports_what_it_uses(name: str, folders: dict[str, Path]) -> None:
    program, arguments, used, unused = _PROGRAMS[name]
    program = f"import sys\n{program}\nprint('imported:', *sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", program, *arguments.format(**folders).split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    imported = set(done.stderr.rpartition("imported:")[2].split())
    assert used in imported and imported & unused == set()
