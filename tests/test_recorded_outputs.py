"""What commands say of a workspace that an earlier version wrote: recorded then, and the same today.

A recording that is not there is written and fails the test once: delete one to record it anew, and look at the
difference before it is committed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.cli.main import main

FIXTURES = Path(__file__).resolve().parent / "fixtures"
RECORDED = FIXTURES / "recorded"
# One episode of each dataset: RLDS by reference, video copied, a duplicate of it, LeRobot by reference.
EPISODES = ("06dc169e0868dc95", "24f7e10eddd65841", "f7cdc2a835652209", "1292fd6b569268df")
COMMANDS = {
    "status": "status",
    "doctor": "doctor",
    "search-text": "search 'close the drawer' --limit 5",
    "search-captions": "search 'green drawer' --by captions --limit 5",
    "search-meaning": "search 'shut it' --by meaning --where acceptable --limit 5",
    "search-like": "search --like 24f7e10eddd65841 --limit 5",
    "search-motion": "search --like 06dc169e0868dc95 --by action --limit 5",
    "search-filter": "search drawer --where \"success AND array_has(objects, 'handle')\"",
    "set-list": "set list",
    "set-show": "set show accepted",
    "set-diff": "set diff accepted@1 drawers",
    "export-lerobot": "export accepted exports/lerobot --format lerobot",
    "export-parquet": "export drawers exports/parquet --format parquet",
    **{f"show-{episode}": f"show {episode}" for episode in EPISODES},
}


@pytest.fixture
def workspace(tmp_path: Path, reference_models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The recorded workspace, unpacked into the current folder; the models are those that wrote it."""
    with tarfile.open(FIXTURES / "workspace_v1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("ARES_WORKSPACE", "workspace")
    monkeypatch.setenv("ARES_EMBED_MODEL", f"local-dir:{reference_models / 'reference-clip'}")
    monkeypatch.chdir(tmp_path)
    yield tmp_path


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_said(
    name: str, form: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(COMMANDS[name]) + ["--json"] * (form == "json")
    status = main(words)
    said = _comparable(capsys.readouterr().out, workspace)
    compare_with_recording(
        f"{name}.{form}", f"{said}{_exported(workspace / 'exports')}exit status {status}\n"
    )


def compare_with_recording(name: str, said: str) -> None:
    file = RECORDED / name
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(said)
        pytest.fail(f"{file} was not there; it is recorded now")
    assert said == file.read_text()


def _comparable(text: str, folder: Path) -> str:
    """Without what differs from run to run: folders, durations, times of day, and digits that models leave open."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r'("?(?:seconds|p50_ms)"?: )[0-9.]+', r"\1N", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.:+]*Z?", "TIME", text)
    return re.sub(r"(\d\.\d\d)\d+", r"\1", text)


def _exported(folder: Path) -> str:
    """Files of an export, and what its tables hold: bytes of Parquet and mp4 files differ between libraries."""
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = _content(path)
        lines.append(
            f"{path.relative_to(folder)} {hashlib.sha256(content.encode()).hexdigest() if content else ''}"
        )
    return "\n".join(["", *lines, ""]) if lines else ""


def _content(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str)
    return "" if path.suffix == ".mp4" else path.name and _comparable(path.read_text(), path.parents[2])
