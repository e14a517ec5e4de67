"""A fault of a ranker or an encoder is one line that names it, and leaves the other rankers alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ares.errors import PluginError
from ares.registry import encoders, rankers
from ares.search import Query, search
from ares.settings import Settings
from ares.store import Moment
from ares.workspace import Workspace, open_workspace
from ares_annotators.models import load_hash_encoder
from tests.ingesting import ingest_paths
from tests.workspaces import CommandResult


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Workspace]:
    workspace = open_workspace(
        str(tmp_path_factory.mktemp("faults") / "ws"), Settings(embed_model="faulty:8")
    )
    ingest_paths(workspace.stores, [str(demo_samples / "video")], limit=4, quiet=True)
    yield workspace
    workspace.close()


class _Ranker:
    """Does what the test says at each step."""

    query_parts: ClassVar[tuple[str, ...]] = ("text",)
    step: Callable[[str], Any] = staticmethod(lambda step: [])

    def __init__(self, stores: Any) -> None:
        self.step("make")

    def encode(self, query: Query) -> Any:
        return self.step("encode")

    def rank(self, encoded: Any, candidates: Any, limit: int) -> Any:
        return self.step("rank")


@pytest.fixture
def enter() -> Iterator[Callable[[Callable[[str], Any]], None]]:
    """Registers a ranker as "faulty", for one test."""

    def add(step: Callable[[str], Any]) -> None:
        rankers.add("faulty", type("Faulty", (_Ranker,), {"step": staticmethod(step)}))

    yield add
    rankers.remove("faulty")


def _fail_at(failing: str, error: BaseException) -> Callable[[str], Any]:
    def step(name: str) -> Any:
        if name == failing:
            raise error
        return ["encoded"] if name == "encode" else []

    return step


def _returning(ranked: Any) -> Callable[[str], Any]:
    return lambda name: ["encoded"] if name == "encode" else ranked


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("make", ValueError("no\nway")),
        ("encode", SystemExit(3)),
        ("rank", IndexError()),
        ("rank", SystemExit(3)),
    ],
)
def test_an_exception_is_an_error_that_names_the_ranker(
    step: str, error: BaseException, ws: Workspace, enter: Callable[..., None]
) -> None:
    enter(_fail_at(step, error))
    with pytest.raises(PluginError, match=rf"ranker 'faulty' raised {type(error).__name__}"):
        search(ws.stores, Query(text="drawer", by="faulty,captions"))
    assert search(ws.stores, Query(text="drawer", by="captions"))


@pytest.mark.parametrize(
    "ranked",
    [
        None,
        7,
        ["0123456789abcdef"],
        [Moment(episode_id="0" * 16, camera="", seconds=0.0, score=float("nan"))],
    ],
)
def test_a_wrong_ranking_is_an_error_that_names_the_ranker(
    ranked: Any, ws: Workspace, enter: Callable[..., None]
) -> None:
    enter(_returning(ranked))
    with pytest.raises(PluginError, match="ranker 'faulty'"):
        search(ws.stores, Query(text="drawer", by="faulty"))


def test_an_episode_that_does_not_exist_is_left_out(ws: Workspace, enter: Callable[..., None]) -> None:
    enter(_returning([Moment(episode_id="0" * 16, camera="", seconds=0.0, score=1.0)]))
    assert search(ws.stores, Query(text="drawer", by="faulty")) == []


def test_the_terminal_gets_one_line(
    ws: Workspace, enter: Callable[..., None], run_ares: Callable[..., CommandResult]
) -> None:
    enter(_fail_at("rank", KeyError("gripper")))
    result = run_ares("search", "drawer", "--by", "faulty", "-w", ws.path)
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert result.err.startswith("ares search: ranker 'faulty' raised KeyError: 'gripper' (test_faults.py:")


def test_a_fault_of_an_encoder_names_the_encoder(ws: Workspace) -> None:
    """The vectors were made when it worked."""
    works = [True]

    class Encoder:
        name, dim = "faulty-8", 8

        def encode_images(self, images: Any) -> Any:
            return load_hash_encoder("hash:8").encode_images(images)

        def encode_texts(self, texts: Any) -> Any:
            return np.eye(8, dtype=np.float32)[: len(texts)] if works[0] else 1 / 0

    encoders.add("faulty", lambda spec, device: Encoder())
    try:
        ws.annotate("embed", quiet=True)
        works[0] = False
        with pytest.raises(PluginError, match="encoder 'faulty' raised ZeroDivisionError"):
            search(ws.stores, Query(text="something that nobody searched for before", by="frames"))
    finally:
        encoders.remove("faulty")
