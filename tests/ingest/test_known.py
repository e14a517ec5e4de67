"""A dataset that comes again from another place is compared by the readers, each record once, at no risk to the run."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ares.episode import Episode, Record, Trajectory
from ares.errors import AresError, SourceError
from ares.jobs.engine import Local
from ares.registry import ingesters
from ares.settings import from_environment
from ares.workspace import Workspace, open_workspace
from ingest.base import Ingester, Item, Options, Source
from ingest.batch import read_all
from ingest.load import load

RECORDS = 520


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return open_workspace(str(tmp_path / "workspace"), from_environment({}))


def read(folder: str, number: int) -> Record:
    """A record of a folder; it tells of it, and where a file "deadly" lies number 7 kills the process that reads it."""
    import numpy as np

    with Path(folder, "read").open("a") as file:
        file.write(f"{number}\n")
    if number == 7 and Path(folder, "deadly").exists():
        os.kill(os.getpid(), signal.SIGSEGV)
    other = "other " if Path(folder, "changed").exists() and number == 9 else ""
    episode = Episode(
        episode_id=f"{number:016x}",
        format="told",
        dataset="told",
        version="",
        split="",
        key=str(number),
        source=f"{folder}/record {number}",
        content_hash=f"{other}{number}",
        instruction="push",
        instructions=("push",),
        robot="",
        num_steps=2,
        rate_hz=10.0,
        rate_source="source",
        cameras=(),
    )
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.array([0.0, 0.1])))


def open_told(path: str, options: Options) -> list[Source]:
    items = (
        Item(
            episode_id=f"{number:016x}",
            where=f"{path}, record {number}",
            load=functools.partial(read, path, number),
        )
        for number in range(RECORDS)
    )
    return [Source(format="told", dataset="told", version="", total=RECORDS, items=items, fragile=True)]


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Enters the format; the readers can import this module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setitem(sys.modules, "test_known", sys.modules[__name__])
    for function in (read, open_told):
        monkeypatch.setattr(function, "__module__", "test_known")
    ingesters.add("told", Ingester(name="told", recognises=lambda path: True, open=open_told))  # type: ignore[arg-type]
    yield
    ingesters.remove("told")


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made


def test_a_moved_dataset_is_there_already_and_each_record_is_read_once(ws: Workspace, tmp_path: Path) -> None:
    old, new = folder(tmp_path, "old"), folder(tmp_path, "new")
    assert load(ws, [str(old)], format="told", quiet=True).report.kept == RECORDS
    report = load(ws, [str(new)], format="told", quiet=True).report
    assert (report.planned, report.kept, report.already, report.failed) == (RECORDS, 0, RECORDS, 0)
    assert sorted(map(int, (new / "read").read_text().split())) == list(range(RECORDS))


def test_at_the_old_place_one_record_is_read_to_see_that_it_is_the_old_one(
    ws: Workspace, tmp_path: Path
) -> None:
    old = folder(tmp_path, "old")
    load(ws, [str(old)], format="told", quiet=True)
    (old / "read").unlink()
    assert load(ws, [str(old)], format="told", quiet=True).report.already == RECORDS
    assert (old / "read").read_text() == "0\n"


def test_a_record_that_kills_its_reader_costs_the_comparison_of_itself(ws: Workspace, tmp_path: Path) -> None:
    old, new = folder(tmp_path, "old"), folder(tmp_path, "new")
    load(ws, [str(old)], format="told", quiet=True)
    (new / "deadly").touch()
    (new / "changed").touch()
    report = load(ws, [str(new)], format="told", quiet=True).report
    assert (report.planned, report.already, report.failed) == (RECORDS, RECORDS - 1, 1)
    assert "record 9" in report.failures["another record has this identity already"].example
    assert not list(ws.annotations.find("failures")), "nothing failed of the episode that is there"
    assert "record 7" in report.warnings["it is there already, but cannot be read here: not compared"].example


def test_facts_of_another_job_between_ours_are_applied_too(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index passes over what was written with the rows only while nobody else writes facts."""
    from ares.annotation import Annotation, Column, Maker
    from ingest.checked import Checks

    maker = Maker(annotator="looked", version="1", columns=(Column(name="looked", type="bool", meaning="x"),))
    fact = Annotation(
        episode_id=f"{3:016x}",
        name="looked",
        value={"looked": True},
        maker_id=maker.maker_id,
        subject=f"{3:016x}",
        start_seconds=0.0,
        stop_seconds=1.0,
        created="2026-11-21T00:00:00+00:00",
    )
    enter = Checks.enter

    def disturbed(checks: Checks, facts: Sequence[tuple[str, ...]]) -> None:
        enter(checks, facts)
        ws.annotations.add_maker(maker)
        ws.annotations.append([fact])

    monkeypatch.setattr(Checks, "enter", disturbed)
    load(ws, [str(folder(tmp_path, "old"))], format="told", quiet=True)
    assert ws.tables.episodes.count("looked") == 1
    assert ws.tables.episodes.count("quality_findings = 0") == RECORDS


def test_what_the_checks_found_stands_in_the_rows_and_in_the_log(ws: Workspace, tmp_path: Path) -> None:
    load(ws, [str(folder(tmp_path, "old"))], format="told", quiet=True)
    rows = {row["episode_id"]: row for row in ws.frame(["episode_id", "quality_findings"]).to_pylist()}
    facts = ws.annotations.about(list(rows))
    assert len(facts) == RECORDS
    assert all(fact.value["quality_findings"] == rows[fact.episode_id]["quality_findings"] for fact in facts)
    assert ws.sync() == 0


def no_readers() -> Callable[[Sequence[Callable[[], Record]]], list[Record | AresError]]:
    os._exit(3)


def test_readers_that_cannot_start_end_the_run_in_one_line(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ares.errors import RequestError

    monkeypatch.setattr(no_readers, "__module__", "test_known")
    hire = Local.hire

    def hire_none(self: Local, run: object, **asked: object) -> object:
        return hire(self, run, **{**asked, "build": no_readers})  # type: ignore[arg-type]

    monkeypatch.setattr(Local, "hire", hire_none)
    with pytest.raises(RequestError, match="a worker process cannot start: exit status 3"):
        load(ws, [str(folder(tmp_path, "old"))], format="told", quiet=True)
    assert ws.tables.episodes.count() == 0 and not list(ws.annotations.find("failures"))


def test_errors_stand_where_their_records_would(tmp_path: Path) -> None:
    def fails() -> Record:
        raise SourceError("record is broken", "here")

    good = functools.partial(read, str(tmp_path), 1)
    first, second, third = read_all([good, fails, good])
    assert first is third and str(second) == "record is broken: here"
