"""A workspace of twelve real episodes with captions, vectors, a set and a failure, and copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from ares.annotation import Column, Producer
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import FrameVectors
from tests.ares.export.segments import segment
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

CAPTION = Producer(
    annotator="caption",
    version="1",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    fills_segments=True,
)
EMBED = Producer(annotator="embed", version="1", model="m")


@pytest.fixture(scope="session")
def curated_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """The folder of the workspace; no test changes it."""
    folder = tmp_path_factory.mktemp("curated") / "workspace"
    with closing(open_workspace(str(folder), Settings())) as workspace:
        ingest_paths(workspace.stores, [str(demo_samples / "video")], media="copy", quiet=True)
        annotate(workspace, sorted(workspace.stores.tables.episodes.ids()))
        workspace.sets.create("good", sorted(workspace.stores.tables.episodes.ids())[:5], {"where": ""})
    return folder


def annotate(workspace: Workspace, ids: list[str]) -> None:
    """Caption every episode with a different word, and embed it."""
    log = workspace.stores.annotations
    log.add_producer(CAPTION)
    log.add_producer(EMBED)
    for number, episode_id in enumerate(ids):
        text = f"lift zebra{number:02d}x quickly"
        value = {"text": text, "caption": text}
        vectors = np.eye(12, dtype=np.float32)[number : number + 1]
        rows = FrameVectors(episode_id=episode_id, camera="front", seconds=np.zeros(1), vectors=vectors)
        workspace.stores.tables.vectors("m").add([rows])
        log.append(
            [
                segment(CAPTION, episode_id, (0.0, 1.0), value),
                segment(EMBED, episode_id, (0.0, 1.0), {"space": "m", "frames": 1}),
            ]
        )
        log.put_documents(
            "failures",
            {f"grade/0123/{episode_id}": {"reason": "no reply", "detail": f"episode {episode_id}", "at": ""}},
        )
        workspace.stores.tables.texts("m").add([text], vectors)
    workspace.sync()


@pytest.fixture
def open_curated(curated_folder: Path, tmp_path: Path) -> Iterator[Callable[[], Workspace]]:
    """Opens a copy of the workspace of this test; every call is one more handle on it."""
    folder = tmp_path / "workspace"
    copy_workspace(curated_folder, folder)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(open_workspace(str(folder), Settings())))


@pytest.fixture
def curated(open_curated: Callable[[], Workspace]) -> Workspace:
    """A copy of the workspace that a test may change."""
    return open_curated()


@pytest.fixture
def ids(curated: Workspace) -> list[str]:
    """Ids of its episodes, sorted."""
    return sorted(curated.stores.tables.episodes.ids())
