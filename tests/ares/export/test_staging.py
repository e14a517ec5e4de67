"""An export that was stopped leaves nothing half, and the next run writes the one of an undisturbed run."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from ares.errors import RequestError
from ares.workspace import Workspace
from tests.ares.export.segments import PERSON, append, segment
from tests.house.imports import ROOT
from tests.torture.datasets import write_video
from tests.torture.syscalls import can_inject


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "fault", "share"),
    [
        ("lerobot", "kill", "0.9"),
        ("lerobot", "ENOSPC", "0.5"),
        *(
            pytest.param(
                format,
                fault,
                "every" if fault in ("kill", "ENOSPC") else "kinds",
                marks=pytest.mark.nightly,
            )
            for format in ("lerobot", "lerobot-v2.1", "rlds", "parquet", "jsonl")
            for fault in ("kill", "ENOSPC", "torn", "EIO")
        ),
    ],
)
@pytest.mark.skipif(not can_inject(), reason="the kernel lets no process supervise another")
def test_a_fault_at_a_write_leaves_nothing_half_and_the_next_run_is_whole(
    small_workspace: Path, tmp_path: Path, format: str, fault: str, share: str
) -> None:
    arguments = [str(small_workspace), str(tmp_path), format, fault, share]
    command = [sys.executable, "-W", "ignore", "-m", "tests.torture.exports", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=7200, cwd=ROOT, check=False)
    print(answer.stdout)
    assert answer.returncode == 0, (answer.stdout, answer.stderr[-1000:])


@pytest.fixture(scope="module")
def small_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of a few frames, two of them, with a text of a person each, in the set "first"; closed."""
    folder = tmp_path_factory.mktemp("small")
    path = folder / "ws"
    write_video(folder / "videos", 4)
    with open_workspace(path, create=True) as ws:
        ws.ingest(folder / "videos", quiet=True)
        ids = sorted(ws.stores.tables.episodes.ids())
        append(ws, [PERSON], [segment(PERSON, id, (0.0, 0.4), {"text": f"reach {id}"}) for id in ids[:2]])
        ws.sets.create("first", ids[:2], {})
    return path


def test_two_exports_into_one_folder_do_not_meet(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second took what the first had written for the rest of a stopped one, and removed it."""
    refused: list[str] = []
    make_report = import_module("ares.export.parquet").make_export_report

    def reporting(*arguments: Any, **named: Any) -> Any:
        with pytest.raises(RequestError, match="another process writes this export") as raised:
            sample_workspace.export("few", tmp_path / "out", format="jsonl", quiet=True)
        refused.append(raised.value.detail)
        return make_report(*arguments, **named)

    monkeypatch.setattr("ares.export.parquet.make_export_report", reporting)
    sample_workspace.export("few", tmp_path / "out", format="parquet", quiet=True)
    assert refused == [f"{tmp_path / 'out'}; wait for its end, or name another folder"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
