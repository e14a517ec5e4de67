"""A fault of an exporter is one line that names it; a fault with one episode leaves that episode out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ares.errors import PluginError
from ares.registry import exporters
from ares.workspace import Workspace


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        (lambda *arguments: _raise(KeyError("task")), "exporter 'faulty' raised KeyError: 'task'"),
        (lambda *arguments: _raise(SystemExit(1)), "exporter 'faulty' raised SystemExit: 1"),
        (lambda stores: None, "exporter 'faulty' raised TypeError"),
        (lambda *arguments: {"episodes": 4}, "exporter 'faulty' returned no ExportReport: got a dict"),
    ],
)
def test_a_fault_names_the_exporter(
    exporter: Any, message: str, sample_workspace: Workspace, tmp_path: Path
) -> None:
    exporters.add("faulty", exporter)
    try:
        with pytest.raises(PluginError, match=message):
            sample_workspace.export("few", tmp_path / "out", format="faulty", quiet=True)
    finally:
        exporters.remove("faulty")
    assert not (tmp_path / "out").exists()


def test_an_episode_whose_video_fails_in_a_library_is_left_out(
    sample_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.export.lerobot import exporter
    from ares.export.lerobot.writer import prepare_video

    bad_id = min(sample_workspace.sets["few"].ids())

    def prepare_most(camera: Any, retimed: Any, rate_hz: float, scratch: Path, can_point: bool) -> Any:
        if scratch.name.startswith(bad_id):
            raise ValueError("a codec raised something of its own")
        return prepare_video(camera, retimed, rate_hz, scratch, can_point)

    monkeypatch.setattr(exporter, "prepare_video", prepare_most)
    report = sample_workspace.export("few", tmp_path / "out", format="lerobot", quiet=True)
    assert (report.episodes, report.failed) == (3, 1)
    assert "raised ValueError" in str(report.failures)
