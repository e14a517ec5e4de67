"""`ares index`: a separate job, which `ares annotate` names and does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ares
from ares import console
from ares.workspace import Workspace
from ares_app.cli.main import main
from tests.annotators.motion.motion_workspace import write_episodes
from tests.workspaces import CommandResult


def test_a_long_step_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that writes nothing by itself says every ten seconds that it is at work, and on what."""
    lines: list[str] = []
    spoken = threading.Event()

    def note(text: str) -> None:
        lines.append(text)
        spoken.set()

    def take_long(*arguments: object) -> None:
        assert spoken.wait(300)
        with console.announce_if_slow("training the index"):
            spoken.clear()
            assert spoken.wait(300)

    path = str(tmp_path / "ws")
    ares.open(path, create=True).close()
    monkeypatch.setattr(console, "LINE_SECONDS", 0.01)
    monkeypatch.setattr(console, "_PATIENCE_SECONDS", 3600.0)
    monkeypatch.setattr(console, "print_message", note)
    monkeypatch.setattr("ares.store.lance_tables.Tables.refresh_indexes", take_long)
    assert main(["index", "-w", path]) == 0
    assert lines[0].startswith("ares index: ") and lines[0].endswith(" s so far")
    assert any(line.startswith("training the index: ") for line in lines)


def test_a_workspace_without_vectors_has_nothing_to_index(
    ws: Workspace, run_ares: Callable[..., CommandResult]
) -> None:
    assert run_ares("index", "-w", ws.path).out == "no vectors\n"


def test_annotate_says_that_an_index_is_due_and_builds_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    folder = write_episodes(tmp_path / "data", [rng.normal(size=(30, 3)).cumsum(axis=0) for _ in range(4)])
    with ares.open(tmp_path / "ws", create=True) as ws:
        ws.ingest(folder, rate_hz=10, quiet=True)
        monkeypatch.setattr("ares.store.vectors.index.FLAT_ROWS", 4)
        monkeypatch.setattr(
            "ares.store.lance_tables.Tables.refresh_indexes",
            lambda *_: pytest.fail("annotate waits for an index"),
        )
        capsys.readouterr()
        ws.annotate("motion")
        lines = capsys.readouterr().err.splitlines()
    due = [line for line in lines if "`ares index` makes searches fast" in line]
    assert len(due) == 2 and all(line.startswith("4 vectors of motion-") for line in due)
