"""A workspace with five episodes of the demo."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.ingesting import ingest_paths

_VIDEOS = ("drawer-close_000", "drawer-close_009", "basketball_000", "box-close_000", "shelf-place_000")


@pytest.fixture(scope="session")
def ingested_demo(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """The workspace; it is only copied."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "videos").mkdir()
    rows = (demo_samples / "video" / "metadata.jsonl").read_text().splitlines()
    rows = [row for row in rows if any(f'"{name}"' in row for name in _VIDEOS)]
    (folder / "metadata.jsonl").write_text("\n".join(rows))
    for name in _VIDEOS:
        for video in (demo_samples / "video" / "videos").glob(f"{name}_*.mp4"):
            shutil.copy(video, folder / "videos")
    with open_workspace(str(folder / "workspace"), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(folder)], quiet=True)
    return folder / "workspace"


@pytest.fixture
def demo_ws(ingested_demo: Path, tmp_path: Path, settings: Settings) -> Iterator[Workspace]:
    """A copy of it."""
    folder = shutil.copytree(ingested_demo, tmp_path / "attacked")
    with open_workspace(str(folder), settings) as workspace:
        yield workspace
