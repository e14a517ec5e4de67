"""The committed samples as a workspace to export from."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares import open as open_workspace
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ingesting import ingest_paths


@pytest.fixture(scope="session")
def sample_workspace(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Workspace:
    """Both samples, 12 episodes each, with the set "all", one per dataset, and "few" with two of each; read only."""
    ws = open_workspace(tmp_path_factory.mktemp("samples") / "ws", create=True)
    ingest_paths(ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), quiet=True)
    ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    ws.sets.create("all", ws.stores.tables.episodes.ids(), {"where": ""})
    for format in ("rlds", "video"):
        where = f"format = '{format}'"
        ws.sets.create(format, ws.stores.tables.episodes.ids(where), {"where": where})
    few = [id for format in ("rlds", "video") for id in sorted(ws.sets.ids(ws.sets[format]))[:2]]
    ws.sets.create("few", few, {})
    return ws
