"""The content hash of an episode: signals and videos, in any layout, and that of earlier versions beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ares.settings import Settings
from ares.workspace import open_workspace
from ingest.base import Source, SourceOptions
from ingest.lerobot import episode, lerobot
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths


def opened(folder: Path) -> Source:
    (source,) = lerobot.open(str(folder), SourceOptions())
    return source


def test_equal_signals_with_another_video_are_another_episode(tmp_path: Path) -> None:
    lengths = (6, 9, 7)
    first = write_good_folder(tmp_path / "a" / "made", version="v2.1", lengths=lengths)
    second = shutil.copytree(first, tmp_path / "b" / "made")
    front, left = sorted(second.rglob("episode_000001.mp4"))
    shutil.copy(front, left)
    loaded = [[item.load() for item in opened(folder).items] for folder in (first, second)]
    same = [
        one.episode.content_hash == other.episode.content_hash for one, other in zip(*loaded, strict=True)
    ]
    assert same == [True, False, True]
    assert [record.earlier_hash for record in loaded[0]] == [record.earlier_hash for record in loaded[1]]


def test_a_workspace_of_an_earlier_version_takes_its_episodes_for_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_good_folder(tmp_path / "made", version="v3.0", lengths=(6, 9, 7))
    workspace = open_workspace(str(tmp_path / "ws"), Settings())
    with monkeypatch.context() as earlier:
        hashes = episode._content_hashes
        earlier.setattr(episode, "_content_hashes", lambda *parts: (hashes(*parts)[1],) * 2)
        assert ingest_paths(workspace.stores, [str(folder)], quiet=True).counts.kept == 3
    moved = shutil.copytree(folder, tmp_path / "elsewhere" / "made")
    for path in moved.rglob("data/**/*.parquet"):  # as a recorder that writes its file again
        pq.write_table(pq.read_table(path), path, compression="zstd")
    counts = ingest_paths(workspace.stores, [str(moved)], quiet=True).counts
    assert (counts.kept, counts.already, counts.failed) == (0, 3, 0)
    workspace.close()
