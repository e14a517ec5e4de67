"""A fault of an ingester costs the record at hand; the other records and the other sources are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ares.episode import Record
from ares.errors import PluginError, SourceError
from ares.registry import ingesters
from ares.workspace import Workspace
from ares_ingest.base import Item, Source, SourceOptions
from tests.ingesting import StubIngester, ingest_paths, open_sources

EPISODES, BAD = 12, 4


@pytest.fixture
def enter() -> Iterator[Callable[[Any], None]]:
    """Registers an ingester as "faulty", for one test."""
    yield lambda ingester: ingesters.add("faulty", ingester)
    ingesters.remove("faulty")


def _raise(error: BaseException) -> Any:
    raise error


def _of_another_episode(record: Record) -> Record:
    return replace(record, episode=replace(record.episode, episode_id="0" * 16))


# What the ingester makes of the bad record.
FAULTS: dict[str, Callable[[Record], Any]] = {
    "raises": lambda record: _raise(ValueError("no such key")),
    "exits": lambda record: _raise(SystemExit(1)),
    "returns None": lambda record: None,
    "returns another episode": _of_another_episode,
    "has no signals": lambda record: replace(record, trajectory=None),  # type: ignore[arg-type]
    "has no rate": lambda record: replace(record, episode=replace(record.episode, rate_hz=0.0)),
    "has a text for its steps": lambda record: replace(
        record,
        episode=replace(record.episode, num_steps="many"),  # type: ignore[arg-type]
    ),
}


def _load(load: Callable[[], Record], fault: Callable[[Record], Any]) -> Any:
    return fault(load())


def faulty_ingester(change: Callable[[Sequence[Item]], Iterator[Any]]) -> StubIngester:
    """Reads videos, with the items changed."""

    def open_faulty(path: str, options: SourceOptions) -> list[Source]:
        (source,) = ingesters.get("video").open(path, options)  # type: ignore[attr-defined]
        return [replace(source, format="faulty", items=change(list(source.items)))]

    return StubIngester("faulty", open_faulty)


def ingest(ws: Workspace, samples: Path, **arguments: Any) -> Any:
    return ingest_paths(ws.stores, [str(samples / "video")], format="faulty", quiet=True, **arguments)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_its_record(
    name: str, ws: Workspace, enter: Callable[[Any], None], demo_samples: Path
) -> None:
    def change(items: Sequence[Item]) -> Iterator[Item]:
        for number, item in enumerate(items):
            load = partial(_load, item.load, FAULTS[name]) if number == BAD else item.load
            yield replace(item, load=load)

    enter(faulty_ingester(change))
    counts = ingest(ws, demo_samples).counts
    assert (counts.planned, counts.kept, counts.failed) == (EPISODES, EPISODES - 1, 1)
    ((reason, tally),) = counts.failures.items()
    assert "ingester '" in reason and tally.count == 1
    assert ws.stores.tables.episodes.count() == EPISODES - 1


@pytest.mark.parametrize(
    "error", [ValueError("no such key"), SourceError("shard is damaged"), OSError(5, "broken")]
)
def test_a_fault_in_the_list_of_items_keeps_what_was_listed(
    error: Exception, ws: Workspace, enter: Callable[[Any], None], demo_samples: Path
) -> None:
    def change(items: Sequence[Item]) -> Iterator[Item]:
        yield from items[:BAD]
        raise error

    enter(faulty_ingester(change))
    counts = ingest(ws, demo_samples).counts
    assert (counts.planned, counts.kept, counts.failed) == (BAD + 1, BAD, 1)
    assert "the rest of" in next(iter(counts.failures.values())).example


def test_an_item_that_is_none_ends_the_list_with_an_error(
    ws: Workspace, enter: Callable[[Any], None], demo_samples: Path
) -> None:
    enter(faulty_ingester(lambda items: iter([*items[:2], "an item"])))
    counts = ingest(ws, demo_samples).counts
    assert (counts.kept, counts.failed) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_no_table_can_store_costs_its_record(ws: Workspace, tmp_path: Path) -> None:
    for number, name in enumerate((b"a", b"b\xff\xfe", b"c" * 251)):
        arrays = {"state": np.full((3, 2), number), "action": np.full((3, 2), -number)}
        np.savez(tmp_path / os.fsdecode(name + b".npz"), **arrays)  # type: ignore[arg-type]
    counts = ingest_paths(ws.stores, [str(tmp_path)], format="npz", quiet=True).counts
    assert (counts.planned, counts.kept, counts.failed) == (3, 2, 1)
    assert "b\\udcff\\udcfe.npz" in counts.failures["file name is not UTF-8"].example


def test_a_fault_in_recognition_is_a_warning(
    ws: Workspace, enter: Callable[[Any], None], demo_samples: Path
) -> None:
    enter(StubIngester("faulty", lambda path, options: [], lambda path: _raise(KeyError("x"))))
    report = ingest_paths(ws.stores, [str(demo_samples / "video")], limit=1, quiet=True)
    assert any(
        "not tried: ingester 'faulty' raised KeyError" in warning for warning in report.counts.warnings
    )
    with pytest.raises(PluginError, match="ingester 'faulty' raised KeyError"):
        open_sources([str(demo_samples / "video")], SourceOptions(), format="faulty")


class ClaimsAlone:
    """Claims folders, and does not say of which formats it uses files, nor what it joins."""

    name = "faulty"

    def recognises(self, path: str) -> bool:
        return True

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        return []

    def claims(self, folder: object) -> str:
        return "dataset"


def test_an_ingester_of_folders_says_all_that_is_asked_of_it(
    enter: Callable[[Any], None], demo_samples: Path
) -> None:
    enter(ClaimsAlone())
    with pytest.raises(PluginError, match=r"claims folders and is no FolderIngester.*a subclass of"):
        open_sources([str(demo_samples / "video")], format="faulty")


@pytest.mark.slow
def test_duplicates_are_those_of_this_run(ws: Workspace, demo_samples: Path) -> None:
    paths = [str(demo_samples / "video")]
    first = ingest_paths(ws.stores, paths, quiet=True)
    second = ingest_paths(ws.stores, paths, SourceOptions(dataset="copy"), limit=5, quiet=True)
    third = ingest_paths(ws.stores, paths, SourceOptions(dataset="copy"), limit=7, quiet=True)
    fourth = ingest_paths(ws.stores, paths, quiet=True)
    assert [report.duplicates for report in (first, second, third, fourth)] == [0, 5, 2, 0]
    assert [report.workspace_duplicates for report in (first, second, third, fourth)] == [0, 5, 7, 7]
