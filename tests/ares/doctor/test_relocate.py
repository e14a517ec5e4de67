"""A relocation gives moved files their new paths everywhere, and touches nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ares.doctor import relocate_sources, run_checks
from ares.media import fingerprint
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths


def _relocate(workspace: Workspace, old: Path, new: Path) -> None:
    (finding,) = relocate_sources(workspace.stores, [(str(old), str(new))])
    assert (finding.repaired, finding.count) == (True, 24)


@pytest.mark.slow
def test_moves_in_a_row_and_back(video_ws: Workspace, tmp_path: Path, demo_samples: Path) -> None:
    before, second, third = (
        list(video_ws.stores.tables.episodes.read()),
        tmp_path / "second",
        tmp_path / "third",
    )
    shutil.copytree(demo_samples / "video", second)
    _relocate(video_ws, demo_samples / "video", second)
    second.rename(third)
    _relocate(video_ws, second, third)
    assert video_ws.stores.tables.episodes.count(f"source LIKE '{third}/%'") == 12
    _relocate(video_ws, third, demo_samples / "video")
    assert list(video_ws.stores.tables.episodes.read()) == before


@pytest.mark.slow
def test_a_dataset_at_the_old_path_is_another_one(
    video_ws: Workspace, tmp_path: Path, demo_samples: Path
) -> None:
    """A mount point is used again for other data: the earlier relocation does not apply to them."""
    old, new = demo_samples / "video", tmp_path / "new"
    shutil.copytree(old, new)
    _relocate(video_ws, old, new)
    ingest_paths(video_ws.stores, [str(old)], SourceOptions(dataset="second"), quiet=True)
    for dataset, folder in (("video", new), ("second", old)):
        sources = {
            episode.source for episode in video_ws.stores.tables.episodes.read(f"dataset = '{dataset}'")
        }
        assert sources and all(source.startswith(f"{folder}/") for source in sources)
    assert run_checks(video_ws.stores) == []


def test_stamps_are_those_of_the_new_files(
    video_ws: Workspace, tmp_path: Path, demo_samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy has other times of change: its content is compared once, and not by every later process."""
    shutil.copytree(demo_samples / "video", tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*.mp4"):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    _relocate(video_ws, demo_samples / "video", tmp_path / "copy")

    def refuse(*args: object) -> str:
        raise AssertionError("the content of a file was read")

    monkeypatch.setattr(fingerprint, "file_fingerprint", refuse)
    assert run_checks(video_ws.stores) == []
