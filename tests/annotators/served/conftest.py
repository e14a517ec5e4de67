"""A workspace of many small videos, and model servers in separate processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from benchmarks.synthetic_media import write_videos
from tests.annotators.served.scripted_server import ScriptedServer
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

NUM_EPISODES = 150
PRICE = Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0)


@pytest.fixture(scope="session")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of 150 episodes of three frames; it is only copied."""
    folder = tmp_path_factory.mktemp("served")
    videos = write_videos(folder / "videos", NUM_EPISODES, side=32)
    with open_workspace(str(folder / "workspace"), Settings()) as workspace:
        ingest_paths(workspace.stores, [str(videos)], quiet=True)
    return folder / "workspace"


@pytest.fixture
def folder(ingested: Path, tmp_path: Path) -> Path:
    """A copy of the workspace."""
    return copy_workspace(ingested, tmp_path / "workspace")


@pytest.fixture
def ws(folder: Path) -> Iterator[Workspace]:
    """The copy, opened with a price."""
    with open_workspace(str(folder), Settings(price=PRICE)) as workspace:
        yield workspace


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ScriptedServer]]:
    """Starts servers that end with the test; each has a separate log."""
    with ExitStack() as servers:

        def start(*arguments: Any, **more: Any) -> ScriptedServer:
            folder = tmp_path / f"server-{len(list(tmp_path.glob('server-*')))}"
            folder.mkdir()
            return servers.enter_context(ScriptedServer(folder, *arguments, **more))

        yield start
