"""A dataset that was moved is compared by the readers, each record once, and a crash costs one record."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ares.episode import Record, Trajectory
from ares.errors import SourceError
from ares.input import input_budgets
from ares.registry import ingesters
from ares.workspace import Workspace
from ares_ingest.base import Item, Source, SourceOptions
from ares_ingest.pipeline import find_datasets
from ares_ingest.pipeline.read import read_records
from tests.ingest.conftest import make_episode
from tests.ingesting import StubIngester, ingest_paths, request_for

RECORDS = 520


def read_record(folder: str, number: int) -> Record:
    """Read a record, and note that in the file "read"; "deadly" lets number 7 kill the reader, "stuck" all wait."""
    import numpy as np

    with Path(folder, "read").open("a") as file:
        file.write(f"{number}\n")
    if number == 7 and Path(folder, "deadly").exists():
        os.kill(os.getpid(), signal.SIGSEGV)
    if Path(folder, "stuck").exists():
        time.sleep(600)
    other = "other " if Path(folder, "changed").exists() and number == 9 else ""
    episode = make_episode(
        "numbered",
        str(number),
        episode_id=f"{number:016x}",
        source=f"{folder}/record {number}",
        content_hash=f"{other}{number}",
    )
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.array([0.0, 0.1])))


def open_numbered(path: str, options: SourceOptions) -> list[Source]:
    items = (
        Item(
            episode_id=f"{number:016x}",
            location=f"{path}, record {number}",
            load=functools.partial(read_record, path, number),
        )
        for number in range(RECORDS)
    )
    return [
        Source(format="numbered", dataset="numbered", version="", total=RECORDS, items=items, fragile=True)
    ]


@pytest.fixture(autouse=True)
def numbered_format(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registers the format; the readers can import this module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setitem(sys.modules, "test_identity", sys.modules[__name__])
    for function in (read_record, open_numbered):
        monkeypatch.setattr(function, "__module__", "test_identity")
    ingesters.add("numbered", StubIngester("numbered", open_numbered))  # type: ignore[arg-type]
    yield
    ingesters.remove("numbered")


def make_folder(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir()
    return path


def test_a_moved_dataset_is_there_already_and_each_record_is_read_once(ws: Workspace, tmp_path: Path) -> None:
    old, new = make_folder(tmp_path, "old"), make_folder(tmp_path, "new")
    assert ingest_paths(ws.stores, [str(old)], format="numbered", quiet=True).counts.kept == RECORDS
    report = ingest_paths(ws.stores, [str(new)], format="numbered", quiet=True).counts
    assert (report.planned, report.kept, report.already, report.failed) == (RECORDS, 0, RECORDS, 0)
    assert sorted(map(int, (new / "read").read_text().split())) == list(range(RECORDS))


@pytest.mark.slow
def test_a_plan_does_not_wait_for_a_record_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path, "stuck")
    (folder / "stuck").touch()
    monkeypatch.setenv("ARES_RECORD_SECONDS", "1")
    input_budgets.cache_clear()
    try:
        found = find_datasets(
            None, request_for([str(folder)], SourceOptions(), format="numbered"), sample=True
        )
    finally:
        input_budgets.cache_clear()
    (dataset,) = found.plan.datasets
    assert dataset.not_understood == (
        "the first record fails: the record took too long to read: more than 1 s",
    )


@pytest.mark.slow
def test_at_the_old_place_one_record_is_read_to_see_that_it_is_the_old_one(
    ws: Workspace, tmp_path: Path
) -> None:
    old = make_folder(tmp_path, "old")
    ingest_paths(ws.stores, [str(old)], format="numbered", quiet=True)
    (old / "read").unlink()
    assert ingest_paths(ws.stores, [str(old)], format="numbered", quiet=True).counts.already == RECORDS
    assert (old / "read").read_text() == "0\n"


@pytest.mark.nightly
def test_a_record_that_kills_its_reader_costs_the_comparison_of_itself(ws: Workspace, tmp_path: Path) -> None:
    old, new = make_folder(tmp_path, "old"), make_folder(tmp_path, "new")
    ingest_paths(ws.stores, [str(old)], format="numbered", quiet=True)
    (new / "deadly").touch()
    (new / "changed").touch()
    report = ingest_paths(ws.stores, [str(new)], format="numbered", quiet=True).counts
    assert (report.planned, report.already, report.failed) == (RECORDS, RECORDS - 1, 1)
    assert "record 9" in report.failures["another record has this identity already"].example
    assert not list(ws.stores.annotations.find_documents("failures")), "the stored episode has not failed"
    assert (
        "record 7"
        in report.warnings["already stored, but its source cannot be read here: not compared"].example
    )


@pytest.mark.slow
def test_facts_of_another_job_between_ours_are_applied_too(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Synchronisation skips the annotations of the checks only when no other job appended some meanwhile."""
    from ares.annotation import Annotation, Column, Producer
    from ares_ingest.pipeline.write import CheckAnnotationLog

    producer = Producer(
        annotator="other", version="1", columns=(Column(name="other", type="bool", meaning="x"),)
    )
    annotation = Annotation(
        episode_id=f"{3:016x}",
        name="other",
        value={"other": True},
        maker_id=producer.maker_id,
        subject=f"{3:016x}",
        start_seconds=0.0,
        stop_seconds=1.0,
        created="2026-11-21T00:00:00+00:00",
    )
    append = CheckAnnotationLog.append

    def append_and_disturb(check_log: CheckAnnotationLog, rows: Sequence[tuple[str, ...]]) -> None:
        append(check_log, rows)
        ws.stores.annotations.add_producer(producer)
        ws.stores.annotations.append([annotation])

    monkeypatch.setattr(CheckAnnotationLog, "append", append_and_disturb)
    ingest_paths(ws.stores, [str(make_folder(tmp_path, "old"))], format="numbered", quiet=True)
    assert ws.stores.tables.episodes.count("other") == 1
    assert ws.stores.tables.episodes.count("quality_findings IS NOT NULL") == RECORDS


def test_errors_stand_where_their_records_would(tmp_path: Path) -> None:
    def fails() -> Record:
        raise SourceError("record is broken", "here")

    good = functools.partial(read_record, str(tmp_path), 1)
    first, second, third = read_records([good, fails, good])
    assert first is third and str(second) == "record is broken: here"


@pytest.mark.slow
def test_a_record_that_kills_the_reader_of_a_plan_is_named_and_later_datasets_are_read(
    tmp_path: Path,
) -> None:
    deadly, good = make_folder(tmp_path, "deadly"), make_folder(tmp_path, "good")
    (deadly / "deadly").touch()
    request = request_for([str(deadly), str(good)], format="numbered")
    first, second = find_datasets(None, request, sample=True).plan.datasets
    assert [(failure.reason, failure.count) for failure in first.failures] == [
        ("its worker died every time", 1)
    ]
    assert (first.rate_hz, second.rate_hz, second.failures) == (10.0, 10.0, ())
