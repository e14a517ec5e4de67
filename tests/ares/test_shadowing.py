"""Files of the user named `app.py`, `ingest.py` or `annotators/` stay his: ARES reads none, and stands in for none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What a script or the cells of a notebook do, with files of the user before and after ARES.
PROGRAM = """
import ingest
import ares
workspace = ares.open("ws", create=True)
assert workspace.ingest({data!r}, limit=2, quiet=True).kept == 2
workspace.annotate("motion", quiet=True)
import app, annotators
print(ingest.OWNER, app.OWNER, annotators.OWNER)
"""


@pytest.fixture
def lab(tmp_path: Path, demo_samples: Path) -> Path:
    """A folder with such files and the script `curate.py`."""
    for name in ("app.py", "ingest.py", "annotators/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("OWNER = 'user'\n")
    (tmp_path / "curate.py").write_text(PROGRAM.format(data=str(demo_samples / "video")))
    return tmp_path


def _printed(folder: Path, *arguments: str, path: str = "") -> str:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, stdout=-1, text=True, check=True).stdout


def test_a_script_beside_such_files(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert _printed(tmp_path_factory.mktemp("w"), str(lab / "curate.py")) == "user user user\n"


def test_a_notebook_beside_such_files(lab: Path) -> None:
    """The current folder is first on the path of a notebook, as it is with `-c`."""
    assert _printed(lab, "-c", (lab / "curate.py").read_text()) == "user user user\n"


def test_a_command_in_such_a_folder_that_is_also_first_on_the_path(lab: Path, demo_samples: Path) -> None:
    ingest = ("ingest", str(demo_samples / "video"), "--limit", "2", "-w", "ws")
    assert "kept 2" in _printed(lab, "-m", "ares", *ingest, path=str(lab))
