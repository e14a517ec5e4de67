"""A caption of an episode, without and with the grade of a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Annotation, Column, Producer
from ares.rubric import GRADE_COLUMNS, Rubric, make_grade_value
from ares.settings import Settings
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_annotators.grade import load_rubric
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

CAPTIONER = Producer(
    annotator="caption",
    version="1",
    model="m",
    columns=(Column(name="caption", type="string", meaning="Caption."),),
    kind="model",
    fills_segments=True,
)
JUDGE = Producer(
    annotator="grade",
    version="1",
    model="j",
    columns=(*GRADE_COLUMNS, *load_rubric("caption").verdict_columns),
    kind="model",
    subject_kind="annotation",
    after=("caption",),
)


@pytest.fixture(scope="module")
def rubric() -> Rubric:
    return load_rubric("caption")


@pytest.fixture(scope="session")
def two_videos(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """Folder of a workspace with two episodes, to be copied."""
    folder = tmp_path_factory.mktemp("two") / "ws"
    with open_workspace(str(folder), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=2, quiet=True)
        for producer in (CAPTIONER, JUDGE):
            opened.stores.annotations.add_producer(producer)
    return folder


@pytest.fixture
def workspace(two_videos: Path, tmp_path: Path) -> Iterator[Workspace]:
    with open_workspace(str(copy_workspace(two_videos, tmp_path / "ws")), Settings()) as opened:
        yield opened


@pytest.fixture
def caption(workspace: Workspace) -> Annotation:
    """A caption without a grade."""
    episode_id = min(workspace.stores.tables.episodes.ids())
    value = {"text": "lift the lid", "caption": "lift the lid"}
    annotation = make_annotation(CAPTIONER, episode_id, episode_id, value)
    workspace.stores.annotations.append([annotation])
    return annotation


@pytest.fixture
def judged(workspace: Workspace, caption: Annotation, rubric: Rubric) -> Annotation:
    """The same caption after a judge has accepted it."""
    rulings: list[dict[str, Any]] = [
        {"criterion": name, "verdict": "MET", "category": category} for name, category in rubric.categories
    ]
    grade = make_annotation(JUDGE, caption.episode_id, caption.annotation_id, make_grade_value(rulings))
    workspace.stores.annotations.append([grade])
    return caption


def make_annotation(producer: Producer, episode_id: str, subject: str, value: dict[str, Any]) -> Annotation:
    return Annotation(
        episode_id=episode_id,
        name=producer.annotator,
        value=value,
        maker_id=producer.maker_id,
        subject=subject,
        start_seconds=0.0,
        stop_seconds=5.0,
        created="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture
def row(workspace: Workspace, caption: Annotation) -> Callable[[], dict[str, Any]]:
    """The columns of the episode, after what was said has been applied."""

    def read() -> dict[str, Any]:
        workspace.sync()
        columns = ["caption", "grade", "acceptable", "grade_score"]
        rows: list[dict[str, Any]] = workspace.stores.tables.episodes.read_columns(
            columns, where=f"episode_id = '{caption.episode_id}'"
        ).to_pylist()
        return rows[0]

    return read


def fill_with_captions(stores: Stores, samples: Path, per_episode: int = 20) -> None:
    """40 captions of two episodes, half of which a judge has accepted, each with another margin."""
    ingest_paths(stores, [str(samples / "video")], limit=2, quiet=True)
    for producer in (CAPTIONER, JUDGE):
        stores.annotations.add_producer(producer)
    for number, episode_id in enumerate(sorted(stores.tables.episodes.ids()) * per_episode):
        draft = make_annotation(CAPTIONER, episode_id, episode_id, {"text": f"lift lid {number}"})
        caption = replace(draft, start_seconds=number / 20, stop_seconds=number / 20 + 1.0)
        stores.annotations.append([caption])
        if number % 2:
            ruling: dict[str, Any] = {
                "criterion": "VERB",
                "verdict": "MET",
                "category": "essential",
                "evidence": [0.5],
            }
            value = make_grade_value([{**ruling, "margin": number / 40}])
            stores.annotations.append([make_annotation(JUDGE, episode_id, caption.annotation_id, value)])
    stores.sync()
