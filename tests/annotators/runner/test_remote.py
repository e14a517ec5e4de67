"""Annotating on a ray cluster ends where annotating in place ends, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import Field

from ares import registry
from ares.annotation import Cost, Producer
from ares.episode import Json
from ares.errors import AresError, RequestError
from ares.jobs import Engine
from ares.settings import Settings
from ares.store import Stores
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Annotator, Options, Result, Work, new_annotation
from ares_annotators.options import AnnotatorOptions, takes_options
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")

pytestmark = pytest.mark.slow
Factory = Callable[[Options, Stores], Annotator]
PRODUCER = Producer(annotator="fragile", version="1")


@pytest.fixture(scope="module", autouse=True)
def pickled_by_value(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions are pickled by value."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Engine:
    from ares.jobs.ray_engine import RayEngine

    return RayEngine(max_workers=1)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """A workspace of the demo videos, one of which went away after it was ingested; it is only copied."""
    folder = tmp_path_factory.mktemp("remote")
    shutil.copytree(demo_samples / "video", folder / "video")
    with closing(open_workspace(str(folder / "w"), Settings())) as ws:
        ingest_paths(ws.stores, [str(folder / "video")], quiet=True)
    min((folder / "video" / "videos").glob("*_front.mp4")).unlink()
    return folder / "w"


@pytest.fixture
def workspaces(tmp_path: Path, ingested: Path, settings: Settings) -> tuple[Workspace, Workspace]:
    """Two workspaces alike."""
    for name in ("local", "ray"):
        shutil.copytree(ingested, tmp_path / name)
    return open_workspace(str(tmp_path / "local"), settings), open_workspace(str(tmp_path / "ray"), settings)


@pytest.fixture
def enter() -> Callable[[Factory], None]:
    """Registers a factory as "fragile", for one test."""
    return lambda factory: registry.annotators.add("fragile", factory)


def state(ws: Workspace) -> dict[str, Any]:
    """Everything in which two workspaces may differ, except for times of day and vectors."""
    ids = sorted(ws.stores.tables.episodes.ids())
    columns = sorted(set(ws.stores.tables.episodes.columns()) - {"ingested"})
    annotations = sorted(
        (
            annotation.annotation_id,
            annotation.subject,
            json.dumps(annotation.value, sort_keys=True),
            annotation.cost.calls,
        )
        for annotation in ws.stores.annotations.find_annotations(ids)
    )
    failures: Any = list(ws.stores.annotations.find_documents("failures"))
    return {
        "rows": sorted(
            ws.stores.tables.episodes.read_columns(columns).to_pylist(),
            key=lambda row: str(row["episode_id"]),
        ),
        "annotations": annotations,
        "makers": sorted(ws.stores.annotations.producers()),
        "failures": [(key, value["reason"], value["detail"]) for key, value in failures],
        "unfinished": list(ws.stores.annotations.find_documents("unfinished_spaces")),
    }


def vectors(ws: Workspace) -> dict[str, Any]:
    """Cameras, seconds and vectors by space and episode."""
    return {
        f"{space}/{episode_id}": ws.stores.tables.vectors(space).read(episode_id)
        for space in ws.stores.tables.spaces()
        for episode_id in sorted(ws.stores.tables.episodes.ids())
    }


def without_seconds(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reports without times, and without which episode came first to each warning: processes may overtake."""
    return [
        {
            **document,
            "seconds": 0,
            "warnings": [{**warning, "example": ""} for warning in document["warnings"]],
        }
        for document in documents
    ]


def fragile(answer: Callable[[Work], Result | AresError], options: Options, stores: Stores) -> Annotator:
    """An annotator that reads one frame before it answers."""

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        results: list[Result | AresError] = []
        for work in works:
            try:
                work.frames.at("wrist", [0.0])
            except AresError as error:
                results.append(error)
            else:
                results.append(answer(work))
        return results

    return SimpleNamespace(
        producer=PRODUCER, process=process, select_frames=lambda episode: {"wrist": [0.0]}, batch_size=4
    )


def annotate_process_id(work: Work) -> Result:
    return Result(annotations=[new_annotation(work, PRODUCER, {"pid": os.getpid()}, cost=Cost(calls=1))])


def dies_once(marker: Path, work: Work) -> Result:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return annotate_process_id(work)


def run(
    ws: Workspace,
    engine: Engine | None,
    *names: str,
    values: Mapping[str, Json] | None = None,
    **arguments: Any,
) -> list[dict[str, Any]]:
    options = Options(settings=ws.settings, device="cpu", values=values or {})
    reports = annotate(ws.stores, names, options, quiet=True, engine=engine, **arguments)
    return [report.to_json() for report in reports]


def counts(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(document[name] for name in ("planned", "kept", "already", "failed"))


@pytest.mark.nightly
def test_both_engines_reach_the_same_state_and_count_a_missing_video_alike(
    workspaces: tuple[Workspace, Workspace], engine: Engine
) -> None:
    local, remote = workspaces
    local_documents, remote_documents = (
        run(local, None, "motion", "embed"),
        run(remote, engine, "motion", "embed"),
    )
    assert without_seconds(local_documents) == without_seconds(remote_documents)
    assert [counts(document) for document in remote_documents] == [(12, 12, 0, 0), (12, 11, 0, 1)]
    assert state(local) == state(remote)
    local_vectors, remote_vectors = vectors(local), vectors(remote)
    assert local_vectors.keys() == remote_vectors.keys() and len(local_vectors) == 12
    for (cameras, seconds, rows), (other_cameras, other_seconds, others) in zip(
        local_vectors.values(), remote_vectors.values(), strict=True
    ):
        assert list(cameras) == list(other_cameras)
        np.testing.assert_array_equal(seconds, other_seconds)
        np.testing.assert_allclose(rows, others, atol=1e-6)  # threads of torch add up in another order
    again = run(remote, None, "motion", "embed")
    assert [counts(document) for document in again] == [(12, 0, 12, 0), (12, 0, 11, 1)]


@pytest.mark.nightly
def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(
    workspaces: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None], tmp_path: Path
) -> None:
    enter(partial(fragile, partial(dies_once, tmp_path / "died")))
    ws = workspaces[1]
    (document,) = run(ws, engine, "fragile")
    assert (tmp_path / "died").exists()
    assert counts(document) == (12, 12, 0, 0) and document["calls"] == 12
    annotations = ws.stores.annotations.find_annotations(sorted(ws.stores.tables.episodes.ids()), ["fragile"])
    assert os.getpid() not in {annotation.value["pid"] for annotation in annotations}


@pytest.mark.nightly
def test_a_worker_with_another_model_is_refused(
    workspaces: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None]
) -> None:
    driver = os.getpid()

    def factory(options: Options, stores: Stores) -> Annotator:
        producer = Producer(
            annotator="fragile", version="1", model="here" if os.getpid() == driver else "there"
        )
        return SimpleNamespace(
            producer=producer, process=lambda works: [annotate_process_id(work) for work in works]
        )

    enter(factory)
    with pytest.raises(RequestError, match="another model than this machine"):
        run(workspaces[1], engine, "fragile")
    assert workspaces[1].stores.annotations.count_episodes().get("fragile", 0) == 0


class WordOptions(AnnotatorOptions):
    """Options of an annotator that answers with a word."""

    word: str = Field(default="low", description="the answer")


def test_a_worker_gets_the_options_of_its_annotator(
    workspaces: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None]
) -> None:
    @takes_options(WordOptions)
    def factory(options: Options, stores: Stores) -> Annotator:
        word = options.parse(WordOptions).word
        producer = Producer(annotator="fragile", version="1", settings={"word": word})
        return SimpleNamespace(
            producer=producer,
            process=lambda works: [
                Result(annotations=[new_annotation(work, producer, {"word": word, "pid": os.getpid()})])
                for work in works
            ],
        )

    enter(factory)
    ws = workspaces[1]
    run(ws, engine, "fragile", values={"fragile.word": "high"})
    annotations = ws.stores.annotations.find_annotations(sorted(ws.stores.tables.episodes.ids()), ["fragile"])
    answers = [annotation.value for annotation in annotations]
    assert {answer["word"] for answer in answers} == {"high"}
    assert os.getpid() not in {answer["pid"] for answer in answers}


def test_motion_on_a_cluster_is_stored_before_a_model_begins_to_load(
    workspaces: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None]
) -> None:
    stored: list[int] = []

    def factory(options: Options, stores: Stores) -> Annotator:
        if options.load_models:
            ids = sorted(stores.tables.episodes.ids())
            stored.append(len(list(stores.annotations.find_annotations(ids, ["motion"]))))
        return fragile(annotate_process_id, options, stores)

    enter(factory)
    documents = run(workspaces[1], engine, "fragile", "motion")
    assert [document["annotator"] for document in documents] == ["fragile", "motion"] and stored[0] == 12


class CallCounter:
    """Counts the calls that run at the same time; the first ones wait until so many do."""

    def __init__(self, number: int) -> None:
        self.number, self.running, self.changed = number, 0, threading.Condition()
        self.is_reached = False

    def process(self, works: Sequence[Work]) -> list[Result]:
        with self.changed:
            self.running += 1
            self.is_reached |= self.running >= self.number
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.is_reached, 300)
        time.sleep(0.05)  # one call more would begin now
        with self.changed:
            running, self.running = self.running, self.running - 1
        return [Result(annotations=[new_annotation(work, PRODUCER, {"running": running})]) for work in works]


@pytest.mark.nightly
def test_a_limit_that_a_model_learns_from_its_calls_holds_where_the_calls_are_made(
    workspaces: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None]
) -> None:
    def factory(most: int, options: Options, stores: Stores) -> Annotator:
        process = CallCounter(most).process
        return SimpleNamespace(producer=PRODUCER, process=process, workers=6, call_limit=lambda: 1)

    for ws, either, most in ((workspaces[0], None, 1), (workspaces[1], engine, 6)):
        registry.annotators.remove("fragile")
        enter(partial(factory, most))
        run(ws, either, "fragile")
        annotations = ws.stores.annotations.find_annotations(
            sorted(ws.stores.tables.episodes.ids()), ["fragile"]
        )
        assert max(int(str(annotation.value["running"])) for annotation in annotations) == most
