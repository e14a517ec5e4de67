"""What a source says of spans becomes segments, once, and follows the source when a spec corrects it."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import make_segment_id
from ares.curation import purge_episodes
from ares.doctor import run_checks
from ares.episode import Record, SourceSegment, Trajectory, make_episode_id
from ares.registry import ingesters
from ares.settings import settings_from_environment
from ares.store import StagedIds
from ares.workspace import Workspace, open_workspace
from ares_ingest.base import Item, Source, SourceOptions
from ares_ingest.pipeline import source_segments
from ares_ingest.pipeline.source_segments import make_source_producer, name_source_annotator
from ares_ingest.pipeline.write import CheckAnnotationLog
from tests.ingest.conftest import make_episode
from tests.ingesting import StubIngester, ingest_paths

EPISODES = ("a", "b", "c")
SECONDS = 2.0


def episode_id(key: str) -> str:
    return make_episode_id(format="told", dataset="told", version="", split="", key=key)


def read_told(path: str, key: str) -> Record:
    """A record of 20 steps at 10 Hz with the segments that a JSON file names."""
    import numpy as np

    told = json.loads(Path(path, "segments.json").read_text())
    segments = tuple(SourceSegment(**{"text": "", **segment}) for segment in told.get(key, ()))
    episode = make_episode("told", key, source=f"{path}/{key}", num_steps=20)
    return Record(episode=episode, trajectory=Trajectory(timestamps=np.arange(20) / 10), segments=segments)


def open_told(path: str, options: SourceOptions) -> list[Source]:
    items = (
        Item(
            episode_id=episode_id(key), location=f"{path}/{key}", load=functools.partial(read_told, path, key)
        )
        for key in EPISODES
    )
    return [Source(format="told", dataset="told", version="", total=len(EPISODES), items=items)]


@pytest.fixture(autouse=True)
def told_format() -> Iterator[None]:
    ingesters.add("told", StubIngester("told", open_told))  # type: ignore[arg-type]
    yield
    ingesters.remove("told")


def tell(tmp_path: Path, **segments: list[dict[str, Any]]) -> str:
    """Write what the source says of its episodes; returns its folder."""
    folder = tmp_path / "source"
    folder.mkdir(exist_ok=True)
    for key in EPISODES:
        (folder / key).write_text(key)
    (folder / "segments.json").write_text(json.dumps(segments))
    return str(folder)


def ingest(ws: Workspace, folder: str, rate_hz: float | None = None) -> dict[str, int]:
    """Ingest; returns what was warned of, by reason."""
    options = SourceOptions(rate_hz=rate_hz)
    report = ingest_paths(ws.stores, [folder], options, format="told", quiet=True).to_report()
    assert not report.failed
    return {warning.reason: warning.count for warning in report.warnings}


def shown(ws: Workspace) -> list[tuple[Any, ...]]:
    """The segments table: episode, annotator, span and text."""
    names = {episode_id(key): key for key in EPISODES}
    rows = ws.stores.tables.segments.read().to_pylist()
    return sorted(
        (names[row["episode_id"]], row["annotator"], row["start_seconds"], row["stop_seconds"], row["text"])
        for row in rows
    )


def span(style: str, start: float, stop: float, text: str = "", **others: Any) -> dict[str, Any]:
    return {"style": style, "start_seconds": start, "stop_seconds": stop, "text": text, **others}


def test_the_segments_of_a_source_are_in_the_table_after_ingest(ws: Workspace, tmp_path: Path) -> None:
    reach = span("subtask", 0.0, 0.5, "reach", author="person", camera="top", fields={"skill": 3})
    folder = tell(tmp_path, a=[reach, span("My Style!", 0.5, math.inf, "rest", role="user")])
    assert ingest(ws, folder) == {}
    assert ws.sync() == 0
    first, second = ws.stores.tables.segments.read().to_pylist()
    assert (first["annotator"], first["style"], first["author"]) == ("source_subtask", "subtask", "person")
    assert (first["camera"], first["text"]) == ("top", "reach")
    assert first["segment_id"] == make_segment_id(episode_id("a"), 0.0, 0.5)
    assert (second["annotator"], second["style"], second["author"]) == ("source_my_style", "My Style!", None)
    assert (second["start_seconds"], second["stop_seconds"]) == (0.5, SECONDS)
    values = [
        annotation.value
        for annotation in ws.stores.annotations.find_annotations([episode_id("a")])
        if annotation.name.startswith("source_")
    ]
    assert values == [
        {"skill": 3, "text": "reach", "style": "subtask", "author": "person", "role": ""},
        {"text": "rest", "style": "My Style!", "author": "", "role": "user"},
    ]
    # The checks of every episode are shown too, though the tables were not in step with the log meanwhile.
    assert ws.stores.tables.episodes.count("quality_findings IS NOT NULL") == len(EPISODES)
    assert run_checks(ws.stores) == []
    # Nobody can add what a source does not say.
    state = ws.status().annotations["source_subtask"]
    assert (state.done, state.missing) == (1, 0)


def test_a_source_without_segments_leaves_the_tables_in_step(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[int] = []
    sync = ws.stores.sync

    def sync_and_note(_: object) -> int:
        applied.append(sync())
        return applied[-1]

    monkeypatch.setattr(type(ws.stores), "sync", sync_and_note)
    ingest(ws, tell(tmp_path))
    assert applied and set(applied) == {0} and shown(ws) == []


def describe_producer(style: str) -> str:
    producer = make_source_producer(name_source_annotator(style))
    return f"{producer.annotator} {producer.maker_id}"


def test_the_producers_of_sources_keep_their_names_and_ids() -> None:
    """They are stored: a workspace has each once, whichever version wrote it."""
    styles = ("subtask", "task_aug", "My Style!", "", "\N{SNOWMAN}", "long " * 20)
    assert {style: describe_producer(style) for style in styles} == {
        "subtask": "source_subtask f39af793cc2bcd86",
        "task_aug": "source_task_aug ee4483d15c806d2f",
        "My Style!": "source_my_style b7779587b60fba33",
        "": "source_other c2b72cb8bde4e462",
        "\N{SNOWMAN}": "source_other c2b72cb8bde4e462",
        "long " * 20: "source_other c2b72cb8bde4e462",
    }


def test_rows_with_one_span_stand_beside_each_other(ws: Workspace, tmp_path: Path) -> None:
    answers = [span("vqa", 0.1, 0.2, text, camera="top") for text in ("where?", "there", "there")]
    ingest(ws, tell(tmp_path, b=[*answers, span("vqa", 0.1, 0.2, "there", camera="wrist")]))
    assert [row[-1] for row in shown(ws)] == ["there", "there", "there", "where?"]
    assert run_checks(ws.stores) == []


def test_what_cannot_be_read_is_counted_by_reason(ws: Workspace, tmp_path: Path) -> None:
    bad = [
        span("subtask", 1.0, 0.5, "reversed"),
        span("subtask", 5.0, 6.0, "after the end"),
        span("subtask", -2.0, -1.0, "before the start"),
        span("subtask", 2.0, math.inf, "at the end"),
        span("subtask", math.nan, 1.0, "no start"),
        span("subtask", 0.0, math.nan, "no stop"),
        span("subtask", 0.0, 1.0, "kept", fields={"score": math.nan}),
    ]
    good = [
        span("subtask", -0.5, 9.0, "whole"),
        span("plan", 1.0, 1.0, "instant"),
        span("", 0.0, 1.0, "bare"),
    ]
    assert ingest(ws, tell(tmp_path, a=[*bad, *good], b=bad[:1])) == {
        "a segment of the source ends before it begins, left out": 2,
        "a segment of the source lies outside the episode, left out": 1,
        "a segment of the source has no finite start or end, left out": 1,
        "a segment of the source cannot be stored, left out: a value that is not JSON cannot be stored": 1,
        "a segment of the source reaches beyond the episode, cut there": 1,
    }
    assert shown(ws) == [
        ("a", "source_other", 0.0, 1.0, "bare"),
        ("a", "source_plan", 1.0, 1.0, "instant"),
        ("a", "source_subtask", 0.0, SECONDS, "whole"),
    ]
    (whole,) = (
        annotation
        for annotation in ws.stores.annotations.find_annotations([episode_id("a")], ["source_subtask"])
    )
    assert whole.value["stated_span"] == [-0.5, 9.0]


@pytest.mark.slow
def test_of_very_many_segments_and_styles_the_rest_is_told_or_joined(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_segments, "_SEGMENTS_PER_RECORD", 40)
    told = [span(f"style {number}", 0.0, 1.0, "x") for number in range(41)]
    assert ingest(ws, tell(tmp_path, a=told)) == {
        "a record has more than 200,000 segments, the rest left out": 1
    }
    names = [row["annotator"] for row in ws.stores.tables.segments.read().to_pylist()]
    assert len(names) == 40 and names.count("source_other") == 8
    assert ws.stores.tables.segments.count("style = 'style 39'") == 1


def test_a_correction_follows_the_source(ws: Workspace, tmp_path: Path) -> None:
    kept, old = span("subtask", 0.0, 0.5, "reach"), span("subtask", 0.5, 1.0, "grap")
    ingest(ws, tell(tmp_path, a=[kept, old, span("plan", 0.0, 2.0, "all")], b=[kept]))
    folder = tell(tmp_path, a=[kept, span("subtask", 0.5, 1.0, "grasp")], c=[kept])
    before = ws.stores.annotations.last_sequence()
    ingest(ws, folder)  # the source is where it was, and nothing new is stated of it
    assert ws.stores.annotations.last_sequence() == before
    ingest(ws, folder, rate_hz=10.0)
    after = [
        ("a", "source_subtask", 0.0, 0.5, "reach"),
        ("a", "source_subtask", 0.5, 1.0, "grasp"),
        ("c", "source_subtask", 0.0, 0.5, "reach"),
    ]
    assert shown(ws) == after
    assert run_checks(ws.stores) == []
    # What the source says again is shown again.
    folder = tell(tmp_path, a=[kept, span("plan", 0.0, 2.0, "all")], c=[kept])
    ingest(ws, folder, rate_hz=10.5)
    assert shown(ws) == [("a", "source_plan", 0.0, 2.0, "all"), after[0], after[2]]


@pytest.mark.slow
def test_a_correction_that_is_repeated_adds_no_segment(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends between the log and the tables, as a killed one does."""
    ingest(ws, tell(tmp_path, a=[span("subtask", 0.0, 0.5, "reach"), span("subtask", 0.5, 1.0, "grap")]))
    folder = tell(tmp_path, a=[span("subtask", 0.5, 1.0, "grasp")])
    append = CheckAnnotationLog.append_segments

    def append_and_end(log: CheckAnnotationLog, rows: Any) -> None:
        append(log, rows)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CheckAnnotationLog, "append_segments", append_and_end)
        with pytest.raises(KeyboardInterrupt):
            ingest(ws, folder, rate_hz=10.0)
    ingest(ws, folder, rate_hz=10.0)
    told = ws.stores.annotations.find_annotations([episode_id("a")], ["source_subtask"])
    assert [(annotation.revision, annotation.is_withdrawn) for annotation in told] == [
        (0, False),
        (0, False),
        (1, False),
        (1, True),
    ]
    assert shown(ws) == [("a", "source_subtask", 0.5, 1.0, "grasp")]


@pytest.mark.slow
def test_segments_go_and_come_with_their_episode(ws: Workspace, tmp_path: Path) -> None:
    folder = tell(tmp_path, a=[span("subtask", 0.0, 0.5, "reach")], b=[span("subtask", 0.0, 0.5, "wait")])
    ingest(ws, folder)
    ids = [episode_id("a")]
    both = shown(ws)
    ws.remove(ids)
    assert shown(ws) == both[1:]
    ingest(ws, folder)
    assert shown(ws) == both[1:]
    ws.undo()
    assert shown(ws) == both
    with StagedIds(ids) as staged:
        purge_episodes(ws.stores, staged)
    assert shown(ws) == both[1:]
    assert ws.stores.annotations.find_annotations(ids) == []
    assert run_checks(ws.stores) == []


@pytest.mark.slow
def test_a_table_of_an_earlier_version_has_no_styles_until_it_is_written(
    ws: Workspace, tmp_path: Path
) -> None:
    folder = tell(tmp_path, a=[span("subtask", 0.0, 0.5, "reach", author="person")])
    ingest(ws, folder)
    table = ws.stores.tables.connection.open_dataset("segments")
    assert table is not None
    table.drop_columns(["style", "author"])
    old = open_workspace(ws.path, settings_from_environment({}))
    (row,) = old.stores.tables.segments.read().to_pylist()
    assert (row["text"], row["style"], row["author"]) == ("reach", None, None)
    assert old.stores.tables.segments.scan(["style"]).to_pylist() == [{"style": None}]
    assert run_checks(old.stores) == []
    old.sync()
    assert {"style", "author"} <= old.stores.tables.segments.columns().keys()
    run_checks(old.stores, rebuild=True)
    assert old.stores.tables.segments.scan(["style", "author"]).to_pylist() == [
        {"style": "subtask", "author": "person"}
    ]
