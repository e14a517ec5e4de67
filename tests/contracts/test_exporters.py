"""What every installed exporter promises, ours and guests': every episode accounted for, a folder whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ares.curation import CurationSet
from ares.errors import AresError, RequestError
from ares.export.base import Exporter, ExportReport
from ares.registry import exporters
from ares.workspace import Workspace


@pytest.fixture(params=exporters.names())
def exporter(request: pytest.FixtureRequest) -> Exporter:
    plugin: Exporter = exporters.get(request.param)
    return plugin


@pytest.fixture
def everything(sample_workspace: Workspace) -> CurationSet:
    return sample_workspace.sets["all"]


def _export(exporter: Exporter, workspace: Workspace, selection: CurationSet, folder: Path) -> ExportReport:
    return exporter(workspace.stores, selection, folder, lambda episodes: None)


def test_every_episode_of_the_set_is_accounted_for(
    exporter: Exporter, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    report = _export(exporter, sample_workspace, everything, tmp_path / "out")
    assert report.episodes + report.failed == 24
    assert report.frames == sum(
        episode.num_steps for episode in sample_workspace.stores.tables.episodes.read()
    )
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_with_something_in_it_is_refused_and_stays(
    exporter: Exporter, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep me")
    with pytest.raises(RequestError):
        _export(exporter, sample_workspace, everything, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_export_that_fails_leaves_no_folder(
    exporter: Exporter, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    def stop(episodes: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exporter(sample_workspace.stores, everything, tmp_path / "out", stop)
    assert not (tmp_path / "out").exists()


def test_progress_adds_up_to_the_set(
    exporter: Exporter, sample_workspace: Workspace, everything: CurationSet, tmp_path: Path
) -> None:
    steps: list[int] = []
    exporter(sample_workspace.stores, everything, tmp_path / "out", steps.append)
    assert sum(steps) == 24


def test_a_set_whose_episodes_are_gone_is_no_silent_success(
    exporter: Exporter, sample_workspace: Workspace, tmp_path: Path
) -> None:
    gone = sample_workspace.sets.create("gone", ["0" * 16], {})
    try:
        report = _export(exporter, sample_workspace, gone, tmp_path / "out")
    except AresError as error:
        assert "0" * 16 in str(error)
        return
    assert report.failed == 1 and report.episodes == 0
