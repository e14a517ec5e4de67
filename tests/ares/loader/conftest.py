"""A workspace of the committed samples whose sets are read step by step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ares import open as open_workspace
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    """Three videos as the set "video", four episodes of images as the set "rlds", and both; read only."""
    ws = open_workspace(tmp_path_factory.mktemp("torch") / "ws", create=True)
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), limit=4, quiet=True)
    ingest_paths(ws.stores, [str(demo_samples / "video")], limit=3, quiet=True)
    for format in ("rlds", "video"):
        ws.sets.create(format, ws.stores.tables.episodes.ids(f"format = '{format}'"), {})
    ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
    yield ws
    ws.close()
