"""A file of the user that has the name of a package of ARES is named in one line, and others are no problem."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_INGEST = "import ares; ares.open('w', create=True).ingest('data')"


def _run(folder: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    inherited = os.environ.get("PYTHONPATH", "")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, inherited]))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "name",
    [
        "ingest.py",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("annotators/__init__.py", "annotators/own.py")
        ),
    ],
)
def test_the_command_names_both_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    package = name.partition("/")[0].removesuffix(".py")
    assert "there is no workspace" in _run(tmp_path, "-m", "ares", "status").stderr
    ran = _run(tmp_path, "-m", "ares", "status", path=str(tmp_path))
    if name == "annotators/own.py":  # a folder without __init__.py hides nothing
        assert "there is no workspace" in ran.stderr
        return
    assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1
    assert f"{tmp_path / name} hides {ROOT / package / '__init__.py'}" in ran.stderr


@pytest.mark.slow
def test_the_first_verb_names_both_files_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "ingest.py").write_text("")
    ran = _run(tmp_path, "-c", _INGEST)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ares.errors.RequestError: the module 'ingest' is not the one of ARES: ")
    assert str(tmp_path / "ingest.py") in last and str(ROOT / "ingest" / "__init__.py") in last
    assert _run(tmp_path, "-c", "import ares; print(ares.open('v', create=True))").returncode == 0

    ran = _run(tmp_path, "-c", f"import ingest; {_INGEST}")
    assert "hides" in ran.stderr.splitlines()[-1], "also where the user has imported it"
