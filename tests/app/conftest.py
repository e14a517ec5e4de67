"""Fixtures: a small real workspace with made-up captions and grades, some of which contain markup."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ares.annotation import Column, Producer
from ares.episode import Json
from ares.rubric import GRADE_COLUMNS
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from tests.app.contested_producers import MARKUP, annotate_with_several_producers, make_annotation
from tests.workspaces import copy_workspace


def _annotate(opened: Workspace) -> None:
    caption_column = Column(name="caption", type="string", meaning="what a captioner saw")
    captioner = Producer(
        annotator="caption", version="1", model="hand", columns=(caption_column,), fills_segments=True
    )
    judge = replace(
        captioner, annotator="grade", columns=GRADE_COLUMNS, subject_kind="annotation", after=("caption",),
        fills_segments=False,
    )  # fmt: skip
    for producer in (captioner, judge):
        opened.stores.annotations.add_producer(producer)
    grades = ("acceptable", "not_acceptable", "unsure")
    ruling: Json = {
        "criterion": "VERB", "verdict": "MET", "source": "probe", "observed": MARKUP, "reason": "fits",
        "evidence": [0.5, 1.5],
    }  # fmt: skip
    episodes = opened.stores.tables.episodes.read("dataset = 'metaworld_sawyer'")
    # Rows lie in the order in which the workers ended, which is another one each time.
    for number, episode in enumerate(sorted(episodes, key=lambda episode: episode.key)):
        text = MARKUP if number == 0 else episode.instruction
        caption = make_annotation(episode, captioner, span=(0.0, 4.0), text=text, caption=text)
        graded = make_annotation(
            episode, judge, caption.annotation_id, "annotation", (0.0, 4.0),
            grade=grades[number % 3], acceptable={0: True, 1: False}.get(number % 3), score=1.0, rulings=[ruling],
        )  # fmt: skip
        opened.stores.annotations.append([caption, graded])
    opened.sync()


@pytest.fixture(scope="session")
def annotated_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """The sample with made-up captions and grades, an episode with markup, and motion; only copied."""
    from ares_annotators.base import Options as AnnotateOptions
    from tests.annotators.runs import annotate
    from tests.ingesting import ingest_paths

    folder = tmp_path_factory.mktemp("dashboard") / "ws"
    with open_workspace(str(folder), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "rlds"), str(demo_samples / "video")])
        _add_episode_with_markup(opened)
        _annotate(opened)
        annotate(opened.stores, ["motion"], AnnotateOptions(settings=opened.settings), quiet=True)
    return folder


@pytest.fixture(scope="module")
def workspace(annotated_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A copy of `annotated_folder` that the tests of a file share."""
    copy = copy_workspace(annotated_folder, tmp_path_factory.mktemp("dashboard") / "ws")
    with open_workspace(str(copy), Settings()) as opened:
        yield opened


def _add_episode_with_markup(opened: Workspace) -> None:
    """Add an episode like the first one, with markup as its instruction."""
    from ares.episode import Record, make_episode_id

    first = min(opened.stores.tables.episodes.read("dataset = 'video'"), key=lambda episode: episode.key)
    new_id = make_episode_id(format="video", dataset="hostile", version="", split="", key="h")
    episode = replace(
        first, episode_id=new_id, dataset="hostile", key="h", instruction=MARKUP, instructions=(MARKUP,)
    )
    opened.stores.tables.episodes.add(
        [Record(episode=episode, trajectory=opened.stores.tables.trajectories.get(first.episode_id))]
    )


@pytest.fixture
def copied(workspace: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of `workspace` that a test may change."""
    from tests.ingesting import copy_open_workspace

    copy_open_workspace(workspace, tmp_path / "copied")
    with open_workspace(str(tmp_path / "copied"), Settings()) as own:
        yield own


@pytest.fixture(scope="session")
def contested_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """Four episodes: two captioners and two judges, and segments of a guest, all in `tests.app.contested_producers`."""
    from tests.ingesting import ingest_paths

    folder = tmp_path_factory.mktemp("contested") / "w"
    with open_workspace(str(folder), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=4, quiet=True)
        annotate_with_several_producers(opened)
    return folder


@pytest.fixture
def contested(contested_folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of `contested_folder` that a test may change."""
    with open_workspace(str(copy_workspace(contested_folder, tmp_path / "contested")), Settings()) as opened:
        yield opened


@pytest.fixture(scope="session")
def mapped_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """A few episodes with coordinates on the map."""
    import pyarrow as pa

    from tests.ingesting import ingest_paths

    folder = tmp_path_factory.mktemp("mapped") / "w"
    with open_workspace(str(folder), Settings()) as opened:
        ingest_paths(opened.stores, [str(demo_samples / "video")], limit=4, quiet=True)
        ids = sorted(opened.stores.tables.episodes.ids())
        coordinates = {"episode_id": ids, "map_x": [0.0, 0.1, 5.0, 5.1], "map_y": [0.0, 0.1, 5.0, 5.1]}
        opened.stores.tables.episodes.set_values(pa.table(coordinates))
    return folder


@pytest.fixture
def mapped(mapped_folder: Path, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of `mapped_folder` that a test may change."""
    with open_workspace(str(copy_workspace(mapped_folder, tmp_path / "mapped")), Settings()) as opened:
        yield opened
