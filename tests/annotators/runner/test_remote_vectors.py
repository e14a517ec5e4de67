"""Vectors that stay on workers until they are written: every failure leaves each of them once, or none of its run."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from annotators.base import Annotator, FrameVectors, Options, Result, Work, new_annotation
from annotators.models.doubles import HashEncoder
from ares import registry
from ares.annotation import Cost, Maker
from ares.doctor import run_checks
from ares.errors import AresError, ModelError, StoreError
from ares.jobs import KeptValue, PoolRequest
from ares.settings import settings_from_environment
from ares.store import Stores
from ares.store.vectors.tables import VectorTable
from ares.workspace import Workspace, open_workspace
from tests.annotators.runs import annotate
from tests.ingesting import ingest_paths

SETTINGS = settings_from_environment({})
MARK = Maker(annotator="mark", version="1")
_KEPT: dict[int, bytes] = {}
_NUMBERS = count()


@dataclass
class DistantEngine:
    """An engine whose workers share nothing with the run, and whose machines lose what they keep.

    Attributes:
        losses: How often they lose some of it, each time when it is to be written.
        every: The vectors of which results are lost then: of every second one, or of each.
        replies: Sizes of what came back from the workers, in bytes.
    """

    losses: int = 0
    every: int = 2
    replies: list[int] = field(default_factory=list)
    max_workers = most_workers = 2

    @property
    def keeper(self) -> DistantKeeper:
        return DistantKeeper()

    def pool(self, request: PoolRequest[Any, Any]) -> DistantPool:
        return DistantPool(self, request.make_builder())

    @staticmethod
    def put(value: Any) -> Callable[[], Any]:
        return lambda: value

    def close(self) -> None:
        _KEPT.clear()


class DistantKeeper:
    """Holds values as bytes; lost ones are empty."""

    def keep(self, values: Sequence[Any]) -> list[KeptValue]:
        # Two workers keep at once: no number is given twice.
        kept = [("worker", next(_NUMBERS)) for _ in values]
        _KEPT.update((number, pickle.dumps(value)) for (_, number), value in zip(kept, values, strict=True))
        return kept

    def fetch(self, kept: Sequence[KeptValue]) -> list[Any | None]:
        return [pickle.loads(_KEPT[number]) if _KEPT[number] else None for _, number in kept]

    def forget(self, kept: Sequence[KeptValue]) -> None:
        _KEPT.update((number, b"") for _, number in kept)


class DistantPool:
    """Its workers get and give only what can be pickled."""

    max_workers = most_workers = 2

    def __init__(self, engine: DistantEngine, build: Callable[[], Any]) -> None:
        self._engine, self._fn = engine, build()

    def map(self, batch: Sequence[Any]) -> Sequence[Any]:
        batch = pickle.loads(pickle.dumps(batch))
        if self._engine.losses and type(batch[0]).__name__ == "VectorWriteRequest":
            self._engine.losses -= 1
            for number in list(_KEPT)[:: self._engine.every]:
                _KEPT[number] = b""
        reply = pickle.dumps(self._fn(batch))
        self._engine.replies.append(len(reply))
        results: Sequence[Any] = pickle.loads(reply)
        return results

    def start(self) -> None:
        """Nothing has to be started."""


class Marker:
    """Makes 100 vectors of each episode, and fails where it is told to.

    Attributes:
        seen: Names of the episodes so far, with the number of steps that were read.
        failing: Names of episodes that fail when they come again.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.failing: set[str] = set()

    def process(self, works: Sequence[Work]) -> list[Result | AresError]:
        return [self._answer(work) for work in works]

    def _answer(self, work: Work) -> Result | AresError:
        assert work.trajectory is not None
        again = work.episode.key in {key for key, _ in self.seen}
        self.seen.append((work.episode.key, len(work.trajectory.timestamps)))
        if again and work.episode.key in self.failing:
            return ModelError("no luck")
        rows = FrameVectors(
            episode_id=work.episode.episode_id,
            camera="front",
            seconds=np.arange(100.0),
            vectors=HashEncoder(64).encode_texts([f"{work.episode.key} {number}" for number in range(100)]),
        )
        return Result(annotations=[new_annotation(work, MARK, {}, cost=Cost(calls=1))], vectors=[rows])


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    folder = tmp_path_factory.mktemp("distant") / "w"
    with closing(open_workspace(str(folder), SETTINGS)) as ws:
        ingest_paths(ws.stores, [str(demo_samples / "video")], quiet=True)
    return folder


@pytest.fixture
def ws(ingested: Path, tmp_path: Path) -> Workspace:
    shutil.copytree(ingested, tmp_path / "w")
    return open_workspace(str(tmp_path / "w"), SETTINGS)


@pytest.fixture
def marker() -> Iterator[Marker]:
    """What makes the vectors, entered as the annotator "mark" for one test."""
    marker = Marker()

    def factory(options: Options, stores: Stores) -> Annotator:
        return SimpleNamespace(
            maker=MARK, process=marker.process, space="marks", needs_signals=True, batch_size=5
        )

    registry.annotators.add("mark", factory)
    yield marker
    registry.annotators.remove("mark")


def run(ws: Workspace, engine: DistantEngine | None) -> dict[str, Any]:
    (report,) = annotate(ws.stores, ["mark"], Options(settings=ws.settings), quiet=True, engine=engine)
    return report.to_json()


def rows(ws: Workspace) -> list[tuple[Any, ...]]:
    """Every row of vectors; one that is there twice is twice in the list."""
    dataset = ws.stores.tables.connection.newest_version("vectors_marks")
    return sorted(tuple(map(str, row.values())) for row in dataset.to_table().to_pylist())


def facts(ws: Workspace) -> list[tuple[str, str]]:
    ids = sorted(ws.stores.tables.episodes.ids())
    found = ws.stores.annotations.find_annotations(ids, ["mark"])
    return sorted((fact.episode_id, fact.annotation_id) for fact in found)


def expected_rows(ws: Workspace, marker: Marker, tmp_path: Path) -> list[tuple[Any, ...]]:
    """The rows that a run on this machine makes in a copy of the workspace."""
    shutil.copytree(ws.stores.folder, tmp_path / "local")
    with closing(open_workspace(str(tmp_path / "local"), SETTINGS)) as local:
        run(local, None)
        expected = rows(local)
    marker.seen.clear()
    return expected


def test_vectors_and_signals_do_not_pass_through_the_run_and_are_what_they_are_in_place(
    ws: Workspace, marker: Marker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = expected_rows(ws, marker, tmp_path)
    monkeypatch.setattr(VectorTable, "add", None)
    engine = DistantEngine()
    report = run(ws, engine)
    assert (report["kept"], report["failed"], report["calls"]) == (12, 0, 12)
    assert rows(ws) == expected and len(expected) == 1200
    assert len(facts(ws)) == 12 and run_checks(ws.stores) == []
    # 5 results of 100 vectors of 64 are 128 kB.
    assert max(engine.replies) < 20_000
    # One file for all calls.
    dataset = ws.stores.tables.connection.newest_version("vectors_marks")
    assert len(dataset.get_fragments()) == 1


def test_vectors_that_are_lost_with_a_machine_are_made_again(
    ws: Workspace, marker: Marker, tmp_path: Path
) -> None:
    expected = expected_rows(ws, marker, tmp_path)
    report = run(ws, DistantEngine(losses=2))
    assert (report["kept"], report["failed"]) == (12, 0)
    assert report["calls"] == len(marker.seen) > 12  # each call is paid, and counted
    assert rows(ws) == expected and len(facts(ws)) == 12 and run_checks(ws.stores) == []


@pytest.mark.nightly
def test_an_episode_whose_vectors_are_lost_and_cannot_be_made_again_fails_alone(
    ws: Workspace, marker: Marker
) -> None:
    marker.failing = {episode.key for episode in ws.stores.tables.episodes.read()}
    report = run(ws, DistantEngine(losses=1))
    lost = len(marker.seen) - 12
    assert 0 < lost < 12 and (report["kept"], report["failed"]) == (12 - lost, lost)
    assert report["failures"][0]["reason"] == "no luck"
    assert len(rows(ws)) == 100 * (12 - lost) and len(facts(ws)) == 12 - lost
    marker.failing = set()
    again = run(ws, DistantEngine())
    assert (again["already"], again["kept"]) == (12 - lost, lost)
    assert len(rows(ws)) == 1200 and len(facts(ws)) == 12 and run_checks(ws.stores) == []


def test_vectors_that_are_always_lost_end_the_run_in_one_line(ws: Workspace, marker: Marker) -> None:
    with pytest.raises(StoreError, match="lost 10 times with the machines that held them"):
        run(ws, DistantEngine(losses=1000, every=1))
    assert facts(ws) == []


def test_a_run_that_is_killed_before_its_commit_leaves_files_that_doctor_removes(
    ws: Workspace, marker: Marker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = expected_rows(ws, marker, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(VectorTable, "append", _stop)
        with pytest.raises(KeyboardInterrupt):
            run(ws, DistantEngine())
    assert rows(ws) == [] and facts(ws) == []
    check = "each file of vectors belongs to its table"
    for repaired in (False, True):
        findings = {finding.check: finding for finding in run_checks(ws.stores, repair=repaired)}
        assert (findings[check].count, findings[check].repaired) == (1, repaired)
    assert run_checks(ws.stores) == []
    assert list(Path(ws.stores.folder, "lance", "vectors_marks.lance", "data").iterdir()) == []
    run(ws, DistantEngine())
    assert rows(ws) == expected and len(facts(ws)) == 12


@pytest.mark.nightly
def test_a_run_that_is_killed_between_vectors_and_facts_is_completed_by_the_next(
    ws: Workspace, marker: Marker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = expected_rows(ws, marker, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(type(ws.stores.annotations), "append", _stop)
        with pytest.raises(KeyboardInterrupt):
            run(ws, DistantEngine())
    assert rows(ws) == expected and facts(ws) == []
    run(ws, DistantEngine())
    assert rows(ws) == expected and len(facts(ws)) == 12 and run_checks(ws.stores) == []


def _stop(*arguments: Any) -> None:
    raise KeyboardInterrupt
