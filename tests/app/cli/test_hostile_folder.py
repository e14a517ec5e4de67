"""No file of the folder in which a command is given is run, by the command or by any process that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

from ares.settings import drop_current_folder_from_path, inherited_environment
from ares_app.server.jobs import start_module_process

ROOT = Path(__file__).resolve().parents[3]
# What a script of pip has in its folder of programs.
PROGRAM = "import sys\nfrom ares.__main__ import main\nsys.exit(main())\n"
MODULES = (
    "json.py", "typing.py", "queue.py", "sqlite3.py", "sitecustomize.py", "usercustomize.py", "app.py",
    "numpy/__init__.py", "yaml/__init__.py", "evil-1.dist-info/entry_points.txt",
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with an episode, and files with the names of modules that write the file "ran" beside the folder."""
    folder = tmp_path / "hostile"
    for module in MODULES:
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        (folder / module).write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__file__ + '\\n')\n")
    # Damaged bytes can crash the library of this format, so that workers read it.
    with h5py.File(folder / "demo.hdf5", "w") as file:
        file["data/demo_0/actions"] = np.random.default_rng(1).normal(size=(9, 7)).astype(np.float32)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("way", ["program", "module"])
def test_files_of_the_folder_that_is_ingested_are_not_run(way: str, hostile: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ares"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    command = [str(program)] if way == "program" else ["-m", "ares"]
    inherited = os.environ.get("PYTHONPATH", "")
    ran = subprocess.run(
        [sys.executable, *command, "ingest", ".", "-w", str(tmp_path / "ws"), "--json"],
        cwd=hostile,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), inherited]))},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["kept"] == 1
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


@pytest.mark.slow
def test_the_processes_of_the_dashboard_run_no_file_of_the_folder(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "shown_path.py").write_text(
        "import json, sys, typing, numpy\nprint(json.dumps(sys.path))"
    )
    monkeypatch.chdir(hostile)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "mine"), *sys.path])
    # An empty entry is the current folder: that of PYTHONPATH=$UNSET:/opt/lib, for example.
    monkeypatch.setenv("PYTHONPATH", f":{ROOT}")
    with start_module_process("shown_path", [], None, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        path = json.loads(process.stdout.read())
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert str(tmp_path / "mine") in path and not {"", str(hostile)} & set(path)


def test_what_a_library_starts_has_not_the_folder_on_its_path(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    # monkeypatch puts back what the call changes.
    monkeypatch.setattr(sys, "path", ["", str(hostile), str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", f":{tmp_path}:.")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    drop_current_folder_from_path()
    assert not {"", str(hostile)} & set(sys.path) and str(tmp_path) in sys.path
    assert os.environ["PYTHONPATH"] == str(tmp_path)
    subprocess.run([sys.executable, "-c", "import json, numpy, typing"], check=True)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_folder_that_the_user_names_stays_on_the_path(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", f"{hostile}:src:")
    assert inherited_environment()["PYTHONPATH"] == f"{hostile}:{hostile / 'src'}"
    monkeypatch.setattr(sys, "path", [str(hostile), *sys.path])
    drop_current_folder_from_path()
    assert str(hostile) in sys.path
