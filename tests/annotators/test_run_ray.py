"""Annotating on a ray cluster ends where annotating in place ends, whatever happens to the workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotators.base import Annotator, Options, Result, Work
from annotators.facts import fact
from annotators.run import annotate
from app.cli.main import main
from ares import registry
from ares.annotation import Cost, Maker
from ares.errors import AresError, RequestError
from ares.jobs.engine import Engine
from ares.settings import Settings
from ares.workspace import Workspace, open_workspace
from ingest.load import load

ray: Any = pytest.importorskip("ray", reason="ray is not installed: pip install 'ares-curation[ray]'")

Factory = Callable[[Options, Workspace], Annotator]
MAKER = Maker(annotator="fragile", version="1")


@pytest.fixture(scope="module", autouse=True)
def travelling(ray_cluster: None) -> None:
    """The workers cannot import a test module, so its functions travel whole."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def engine() -> Engine:
    from ares.jobs.ray import Ray

    return Ray(workers=1)


@pytest.fixture
def loaded(tmp_path: Path, demo_samples: Path, settings: Settings) -> tuple[Workspace, Workspace]:
    """Two workspaces alike: the demo videos, one of which went away after it was ingested."""
    video = tmp_path / "video"
    shutil.copytree(demo_samples / "video", video)
    first = open_workspace(str(tmp_path / "local"), settings)
    load(first, [str(video)], quiet=True)
    first.close()
    shutil.copytree(tmp_path / "local", tmp_path / "ray")
    min((video / "videos").glob("*_front.mp4")).unlink()
    return open_workspace(str(tmp_path / "local"), settings), open_workspace(str(tmp_path / "ray"), settings)


@pytest.fixture
def enter() -> Iterator[Callable[[Factory], None]]:
    """Enters a factory as "fragile", for one test."""
    yield lambda factory: registry.annotators.add("fragile", factory)
    registry.annotators.remove("fragile")


def state(ws: Workspace) -> dict[str, Any]:
    """Everything that two workspaces could be told apart by, but for times of day and vectors."""
    ids = sorted(ws.tables.episodes.ids())
    columns = sorted(set(ws.tables.episodes.columns()) - {"ingested"})
    facts = sorted(
        (one.annotation_id, one.subject, json.dumps(one.value, sort_keys=True), one.cost.calls)
        for one in ws.annotations.about(ids)
    )
    failures: Any = list(ws.annotations.find("failures"))
    return {
        "rows": sorted(ws.frame(columns).to_pylist(), key=lambda row: str(row["episode_id"])),
        "facts": facts,
        "makers": sorted(ws.annotations.makers()),
        "failures": [(key, value["reason"], value["detail"]) for key, value in failures],
        "unfinished": list(ws.annotations.find("unfinished_spaces")),
    }


def vectors(ws: Workspace) -> dict[str, Any]:
    """Cameras, seconds and vectors by space and episode."""
    return {
        f"{space}/{episode_id}": ws.tables.vectors(space).of(episode_id)
        for space in ws.tables.spaces()
        for episode_id in sorted(ws.tables.episodes.ids())
    }


def untimed(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**document, "seconds": 0} for document in documents]


def fragile(answer: Callable[[Work], Result | AresError], options: Options, ws: Workspace) -> Annotator:
    """An annotator that looks at one frame before it answers."""

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        found: list[Result | AresError] = []
        for work in works:
            try:
                work.frames.at("wrist", [0.0])
            except AresError as error:
                found.append(error)
            else:
                found.append(answer(work))
        return found

    return Annotator(maker=MAKER, process=process, wants=lambda episode: {"wrist": [0.0]}, batch=4)


def told(work: Work) -> Result:
    return Result(annotations=[fact(work, MAKER, {"pid": os.getpid()}, cost=Cost(calls=1))])


def dies_once(marker: Path, work: Work) -> Result:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return told(work)


def run(ws: Workspace, engine: Engine | None, *names: str, **asked: Any) -> list[dict[str, Any]]:
    options = Options(settings=ws.settings, device="cpu")
    return annotate(ws, names, options, quiet=True, engine=engine, **asked)


def counts(document: dict[str, Any]) -> tuple[int, ...]:
    return tuple(document[name] for name in ("planned", "kept", "already", "failed"))


def test_both_engines_reach_the_same_state_and_count_a_missing_video_alike(
    loaded: tuple[Workspace, Workspace], engine: Engine
) -> None:
    local, remote = loaded
    here, there = run(local, None, "motion", "embed"), run(remote, engine, "motion", "embed")
    assert untimed(here) == untimed(there)
    assert [counts(document) for document in there] == [(12, 12, 0, 0), (12, 11, 0, 1)]
    assert state(local) == state(remote)
    ours, theirs = vectors(local), vectors(remote)
    assert ours.keys() == theirs.keys() and len(ours) == 12
    for (cameras, seconds, rows), (other_cameras, other_seconds, others) in zip(
        ours.values(), theirs.values(), strict=True
    ):
        assert list(cameras) == list(other_cameras)
        np.testing.assert_array_equal(seconds, other_seconds)
        np.testing.assert_allclose(rows, others, atol=1e-6)  # threads of torch add up in another order
    again = run(remote, None, "motion", "embed")
    assert [counts(document) for document in again] == [(12, 0, 12, 0), (12, 0, 11, 1)]


def test_a_worker_that_is_killed_is_replaced_and_nothing_is_lost(
    loaded: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None], tmp_path: Path
) -> None:
    enter(partial(fragile, partial(dies_once, tmp_path / "died")))
    ws = loaded[1]
    (document,) = run(ws, engine, "fragile")
    assert (tmp_path / "died").exists()
    assert counts(document) == (12, 12, 0, 0) and document["calls"] == 12
    made = ws.annotations.about(sorted(ws.tables.episodes.ids()), ["fragile"])
    assert os.getpid() not in {one.value["pid"] for one in made}


def test_a_worker_with_another_model_is_refused(
    loaded: tuple[Workspace, Workspace], engine: Engine, enter: Callable[[Factory], None]
) -> None:
    driver = os.getpid()

    def factory(options: Options, ws: Workspace) -> Annotator:
        maker = Maker(annotator="fragile", version="1", model="here" if os.getpid() == driver else "there")
        return Annotator(maker=maker, process=lambda works: [told(work) for work in works])

    enter(factory)
    with pytest.raises(RequestError, match="another model than this machine"):
        run(loaded[1], engine, "fragile")
    assert loaded[1].annotations.counts().get("fragile", 0) == 0


def test_the_command_prints_one_document_and_nothing_else(
    loaded: tuple[Workspace, Workspace], capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["annotate", "motion", "-w", str(loaded[1].folder), "--engine", "ray", "--json"]
    assert main(words) == 0
    printed = capfd.readouterr().out
    assert counts(json.loads(printed)) == (12, 12, 0, 0)
    assert ray.is_initialized()  # a cluster that was there stays
