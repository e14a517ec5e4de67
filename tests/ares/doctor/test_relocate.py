"""A relocation gives moved files their new paths everywhere, and touches nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ares.doctor import relocate_sources, run_checks
from ares.media import fingerprint
from ares.settings import settings_from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with closing(open_workspace(str(tmp_path / "workspace"), settings_from_environment({}))) as opened:
        yield opened


@pytest.fixture
def source(workspace: Workspace, tmp_path: Path, demo_samples: Path) -> Path:
    """A folder of twelve videos that were ingested as dataset "first"."""
    folder = tmp_path / "source"
    shutil.copytree(demo_samples / "video", folder)
    ingest_paths(workspace.stores, [str(folder)], SourceOptions(dataset="first"), quiet=True)
    return folder


def move(workspace: Workspace, old: Path, new: Path) -> int:
    """Move a folder and relocate its files; returns the number of files."""
    old.rename(new)
    (finding,) = relocate_sources(workspace.stores, [(str(old), str(new))])
    assert finding.repaired
    return finding.count


def sources(workspace: Workspace, where: str = "") -> set[str]:
    return {episode.source for episode in workspace.stores.tables.episodes.read(where)}


def test_the_filter_column_has_the_new_path(workspace: Workspace, source: Path, tmp_path: Path) -> None:
    move(workspace, source, tmp_path / "new")
    assert workspace.stores.tables.episodes.count(f"source LIKE '{tmp_path / 'new'}/%'") == 12
    assert workspace.stores.tables.episodes.count(f"source LIKE '{source}/%'") == 0


def test_moves_in_a_row_and_back(workspace: Workspace, source: Path, tmp_path: Path) -> None:
    before = list(workspace.stores.tables.episodes.read())
    assert move(workspace, source, tmp_path / "second") == 24
    assert move(workspace, tmp_path / "second", tmp_path / "third") == 24
    assert move(workspace, tmp_path / "third", source) == 24
    assert list(workspace.stores.tables.episodes.read()) == before


def test_a_dataset_at_the_old_path_is_another_one(
    workspace: Workspace, source: Path, tmp_path: Path, demo_samples: Path
) -> None:
    """A mount point is used again for other data: the earlier relocation does not apply to them."""
    move(workspace, source, tmp_path / "new")
    shutil.copytree(demo_samples / "video", source)
    ingest_paths(workspace.stores, [str(source)], SourceOptions(dataset="second"), quiet=True)
    assert all(path.startswith(f"{tmp_path / 'new'}/") for path in sources(workspace, "dataset = 'first'"))
    assert all(path.startswith(f"{source}/") for path in sources(workspace, "dataset = 'second'"))
    assert run_checks(workspace.stores) == []


def test_stamps_are_those_of_the_new_files(
    workspace: Workspace, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy has other times of change: its content is compared once, and not by every later process."""
    shutil.copytree(source, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*.mp4"):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    (finding,) = relocate_sources(workspace.stores, [(str(source), str(tmp_path / "copy"))])
    assert finding.count == 24

    def refuse(*args: object) -> str:
        raise AssertionError("the content of a file was read")

    monkeypatch.setattr(fingerprint, "file_fingerprint", refuse)
    assert run_checks(workspace.stores) == []
