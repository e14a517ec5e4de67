"""A fault of an annotator costs the episode at hand, is counted under the annotator's name, and the run goes on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ares.annotation import Column, Cost, Producer
from ares.errors import AresError, ModelError, PluginError
from ares.jobs import FAILURES
from ares.registry import annotators
from ares.workspace import Workspace
from ares_annotators.base import FrameVectors, Options, Result, Work, new_annotation
from tests.annotators.runs import annotate, estimate_cost
from tests.thinning import some_by_day

EPISODES = 12
COLUMNS = (
    Column(name="shade", type="int64", meaning="A shade."),
    Column(name="light", type="string", meaning="A light.", choices=("dim", "dark")),
)


class UnprintableError(BaseException):
    """An exception that is no Exception, and that cannot describe itself."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.fixture
def ws(module_ws: Workspace) -> Workspace:
    return module_ws


@pytest.fixture
def enter(request: pytest.FixtureRequest) -> Callable[..., Producer]:
    """Registers an annotator with a producer of this test alone, so that no other test has done its work."""

    def add(name: str, make_process: Callable[[Producer], Any], **parts: Any) -> Producer:
        producer = Producer(annotator=name, version=request.node.nodeid, columns=COLUMNS)
        annotator = SimpleNamespace(producer=producer, process=make_process(producer), **parts)
        annotators.add(name, lambda options, stores: annotator)
        return producer

    return add


def run(ws: Workspace, *names: str, **arguments: Any) -> list[dict[str, Any]]:
    reports = annotate(ws.stores, names, Options(settings=ws.settings), quiet=True, **arguments)
    return [report.to_json() for report in reports]


def good(producer: Producer) -> Callable[[Sequence[Work]], list[Result | AresError]]:
    return lambda works: [good_result(work, producer) for work in works]


def good_result(work: Work, producer: Producer) -> Result:
    return Result(annotations=[new_annotation(work, producer, {"shade": 1})])


def _raise(error: BaseException) -> Any:
    raise error


def _wrong(**changes: Any) -> Callable[[Work, Producer], Any]:
    def make(work: Work, producer: Producer) -> Result:
        return Result(annotations=[replace(good_result(work, producer).annotations[0], **changes)])

    return make


def _with_vectors(vectors: Any, episode_id: str = "") -> Callable[[Work, Producer], Any]:
    def make(work: Work, producer: Producer) -> Result:
        rows = FrameVectors(
            episode_id=episode_id or work.episode.episode_id,
            camera="front",
            seconds=np.zeros(1),
            vectors=vectors,
            space="fault-test",
        )
        return replace(good_result(work, producer), vectors=[rows])

    return make


# What a plug-in may do with one episode, all of it wrong.
FAULTS: dict[str, Callable[[Work, Producer], Any]] = {
    "raises": lambda work, producer: _raise(ValueError("no such\ncolumn")),
    "exits": lambda work, producer: _raise(SystemExit(3)),
    "runs out of memory": lambda work, producer: _raise(MemoryError()),
    "raises no exception": lambda work, producer: _raise(UnprintableError()),
    "raises an error of ARES": lambda work, producer: _raise(ModelError("no reply", "of the server")),
    "returns None": lambda work, producer: None,
    "returns a dict": lambda work, producer: {"shade": 1},
    "returns no list": lambda work, producer: Result(annotations={"shade": 1}),  # type: ignore[arg-type]
    "returns texts": lambda work, producer: Result(annotations=["shade"]),  # type: ignore[list-item]
    "answers for another episode": _wrong(episode_id="0" * 16),
    "answers as another producer": _wrong(maker_id="0" * 16),
    "value is no object": _wrong(value=[1, 2]),
    "value is NaN": _wrong(value={"shade": float("nan")}),
    "value is huge": _wrong(value={"shade": 2**70}),
    "value is text": _wrong(value={"shade": "dark"}),
    "value is no choice": _wrong(value={"light": "broken"}),
    "keys are numbers": _wrong(value={1: 2}),
    "span is NaN": _wrong(stop_seconds=float("nan")),
    "span is reversed": _wrong(start_seconds=0.5, stop_seconds=0.1),
    "span is too long": _wrong(stop_seconds=1e9),
    "span is text": _wrong(stop_seconds="1"),
    "cost is negative": _wrong(cost=Cost(usd=-1.0)),
    "subject is a number": _wrong(subject=7),
    "vectors are NaN": _with_vectors(np.full((1, 4), np.nan, np.float32)),
    "vectors have no unit length": _with_vectors(np.full((1, 4), 3, np.float32)),
    "vectors are flat": _with_vectors(np.ones(4, np.float32)),
    "vectors are a list": _with_vectors([[1.0, "x"]]),
    "more vectors than seconds": _with_vectors(np.eye(4, dtype=np.float32)[:2]),
    "vectors of another episode": _with_vectors(np.eye(4, dtype=np.float32)[:1], "0" * 16),
}


def faulty(
    producer: Producer, bad_id: str, fault: Callable[[Work, Producer], Any]
) -> Callable[[Sequence[Work]], list[Any]]:
    return lambda works: [
        fault(work, producer) if work.episode.episode_id == bad_id else good_result(work, producer)
        for work in works
    ]


@pytest.mark.parametrize("name", some_by_day(FAULTS, 4))
def test_a_fault_costs_its_episode_and_names_the_plugin(
    name: str, ws: Workspace, enter: Callable[..., Producer]
) -> None:
    order = random.Random(name)
    bad_id = order.choice(sorted(ws.stores.tables.episodes.ids()))
    producer = enter(
        "faulty",
        lambda producer: faulty(producer, bad_id, FAULTS[name]),
        batch_size=order.choice((1, 3, 5, 12)),
        workers=order.choice((1, 2)),
    )
    enter("good", good)
    bad, other = run(ws, "faulty", "good")
    assert (bad["planned"], bad["kept"], bad["failed"]) == (EPISODES, EPISODES - 1, 1)
    assert (other["kept"], other["failed"]) == (EPISODES, 0)
    (failure,) = bad["failures"]
    assert bad_id in failure["example"] and "\n" not in failure["example"]
    is_told_by_ares = name == "raises an error of ARES"
    assert ("annotator 'faulty'" in failure["reason"]) is not is_told_by_ares
    logged = [key for key, _ in ws.stores.annotations.find_documents(FAILURES, f"faulty/{producer.maker_id}")]
    assert [key.rsplit("/", 1)[-1] for key in logged] == [bad_id]
    assert ws.sync() == 0


def test_the_wrong_number_of_results_costs_one_episode(ws: Workspace, enter: Callable[..., Producer]) -> None:
    bad_id = min(ws.stores.tables.episodes.ids())

    def make_process(producer: Producer) -> Any:
        return lambda works: [
            good_result(work, producer) for work in works if work.episode.episode_id != bad_id
        ]

    enter("faulty", make_process, batch_size=6)
    (document,) = run(ws, "faulty")
    assert (document["kept"], document["failed"]) == (EPISODES - 1, 1)
    assert document["failures"][0]["reason"] == "annotator 'faulty' returned a wrong number of results"


def test_a_fault_in_the_choice_of_frames_costs_its_episode(
    ws: Workspace, enter: Callable[..., Producer]
) -> None:
    ids = sorted(ws.stores.tables.episodes.ids())
    requests: dict[str, Any] = {
        ids[0]: {"front": [float("nan")]},
        ids[1]: {"front": [1e9]},
        ids[2]: {"behind": [0.0]},
        ids[3]: ["front"],
        ids[4]: {"front": 0.0},
    }

    def select(subject: Any) -> Any:
        return requests.get(subject.episode.episode_id, {"front": [0.0]})

    def read(producer: Producer) -> Any:
        def process(works: Sequence[Work]) -> list[Result]:
            assert all(work.frames.at("front", [0.0]).shape[0] == 1 for work in works)
            return [good_result(work, producer) for work in works]

        return process

    enter("faulty", read, select_frames=select, batch_size=4)
    enter("good", read, select_frames=lambda subject: {"front": [0.0]}, batch_size=4)
    bad, other = run(ws, "faulty", "good")
    assert (bad["kept"], bad["failed"]) == (EPISODES - 5, 5)
    assert (other["kept"], other["failed"]) == (EPISODES, 0)


def test_an_annotator_that_cannot_be_made_leaves_the_others(
    ws: Workspace, enter: Callable[..., Producer]
) -> None:
    enter("good", good)
    annotators.add("unmade", lambda options, stores: 1 / 0)
    bad, other = run(ws, "unmade", "good")
    assert (bad["planned"], bad["kept"], bad["failed"], bad["maker"]) == (EPISODES, 0, EPISODES, "")
    assert bad["failures"][0]["reason"] == "annotator 'unmade' raised ZeroDivisionError"
    assert (other["annotator"], other["kept"]) == ("good", EPISODES)
    with pytest.raises(PluginError, match="annotator 'unmade' raised ZeroDivisionError"):
        run(ws, "unmade")


X = Producer(annotator="x", version="1")
UNKNOWN_TYPE = Column(name="a", type="flot", meaning="")  # type: ignore[arg-type]
NO_JSON: Any = {"a": object()}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (None, "has no method 'process'"),
        ({"producer": "mark"}, "has no producer"),
        ({}, "has no producer"),
        (
            {"producer": replace(X, columns=(UNKNOWN_TYPE,))},
            "has a column 'a' of an unknown type: got 'flot'; a type is bool, ",
        ),
        (
            {"producer": X, "batchsize": 4, "stores": 1},
            "has 'batchsize', which no run reads: did you mean 'batch_size'?",
        ),
        ({"producer": X, "batch_size": 0}, "batch_size"),
        ({"producer": replace(X, settings=NO_JSON)}, "raised TypeError"),
    ],
)
def test_a_factory_that_makes_no_annotator_is_one_line(ws: Workspace, made: Any, message: str) -> None:
    annotator = None if made is None else SimpleNamespace(process=lambda works: [], **made)
    annotators.add("unmade", lambda options, stores: annotator)
    with pytest.raises(PluginError, match=f"annotator 'unmade' .*{re.escape(message)}"):
        run(ws, "unmade")


def test_no_annotator_can_change_what_another_gets(ws: Workspace, enter: Callable[..., Producer]) -> None:
    """Signals are read-only, and an annotation that waits to be stored is passed on as a copy."""
    enter("good", good)

    def spoil(works: Sequence[Work]) -> list[Result]:
        for work in works:
            assert work.subject.annotation and work.trajectory
            work.subject.annotation.value["shade"] = 99  # type: ignore[index]
            work.trajectory.timestamps[0] = 99
        return [good_result(work, producer) for work in works]

    producer = Producer(annotator="spoiler", version="1", subject_kind="annotation", after=("good",))
    spoiler = SimpleNamespace(producer=producer, process=spoil, needs_signals=True)
    annotators.add("spoiler", lambda options, stores: spoiler)
    first, second = run(ws, "good", "spoiler", where="success")
    assert first["failed"] == 0
    assert second["failures"][0]["reason"] == "annotator 'spoiler' raised ValueError"
    ids = ws.stores.tables.episodes.ids("success")
    values = [
        annotation.value for annotation in ws.stores.annotations.find_annotations(sorted(ids), ["good"])
    ]
    assert values and all(value == {"shade": 1} for value in values)


def test_a_fault_of_an_estimate_is_one_line(ws: Workspace, enter: Callable[..., Producer]) -> None:
    enter("faulty", good, estimate=lambda subject: "cheap")
    (document,) = run(ws, "faulty")
    assert document["failed"] == EPISODES
    assert document["failures"][0]["reason"] == "annotator 'faulty' estimated no cost"
    with pytest.raises(PluginError, match="annotator 'faulty' estimated no cost"):
        estimate_cost(ws.stores, ["faulty"], Options(settings=ws.settings))
