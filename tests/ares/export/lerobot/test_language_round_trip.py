"""Language columns and subtasks of a LeRobot folder, read, written and read again, value by value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares import open as open_workspace
from ares.workspace import Workspace
from tests.ares.export.segments import PERSON, append, segment
from tests.ingest.lerobot.test_language import TOP, at_frames, every_frame, make_dataset, row, stamp
from tests.ingesting import ingest_paths
from tests.thinning import some_by_day

_CALL = json.dumps({"type": "function", "function": {"name": "say", "arguments": {"text": "ja – ü"}}})
_NUMBERS = [1, 1, 1, 0, 0, 2, 2, 2, 1, 1]


def write_source(folder: Path) -> Path:
    """An episode with rows that are out of order, alike, empty, between frames, of unknown styles and of one camera."""
    persistent = [
        row("subtask", "reach", stamp(0)),
        row("task_aug", "tidy up", stamp(0), role="user"),
        row("task_aug", "clean up", stamp(0), role="user"),
        row("motion", None, stamp(7), tool_calls=[_CALL]),
        row("subtask", "grasp", stamp(3)),
        row("plan", "1. reach 2. grasp", 0.123456, author=None),
        row("mood", "", stamp(5), tool_calls=[]),
    ]
    events = {
        2: [
            row("vqa", "what is it?", role="user", camera=TOP),
            row("vqa", "a cup", camera=TOP),
            row(None, None, tool_calls=[_CALL, _CALL]),
        ],
        9: [row("interjection", "stop!", role="user")],
    }
    columns = {"language_persistent": every_frame(persistent), "language_events": at_frames(events)}
    dataset = make_dataset(folder, {**columns, "subtask_index": pa.array(_NUMBERS)})
    texts = {"subtask_index": [0, 1, 2], "subtask": ["grasp", "reach", "lift"]}
    pq.write_table(pa.table(texts), dataset / "meta" / "subtasks.parquet")
    return dataset


def export_again(source: Path, folder: Path) -> Path:
    """What an export has of a dataset that a new workspace has ingested."""
    with open_workspace(folder / "ws", create=True) as ws:
        ingest_paths(ws.stores, [str(source)], quiet=True)
        chosen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
        report = ws.export(chosen, folder / "out", quiet=True)
    assert set(report.segments) == {"written"} and set(report.segments["written"]) == {"source"}  # type: ignore[arg-type]
    return folder / "out"


def texts_of(dataset: Path) -> list[dict[str, Any]]:
    """The rows of both columns and the text of the subtask, of each step; calls of tools as values."""
    subtasks = pq.read_table(dataset / "meta" / "subtasks.parquet").to_pydict()
    names = dict(zip(subtasks["subtask_index"], subtasks["subtask"], strict=True))
    return [
        {
            **{
                name: [with_values(one) for one in step[name]]
                for name in step
                if name.startswith("language_")
            },
            "subtask": names[step["subtask_index"]],
        }
        for file in sorted((dataset / "data").glob("*/*.parquet"))
        for step in pq.read_table(file).to_pylist()
    ]


def with_values(one: dict[str, Any]) -> dict[str, Any]:
    calls = one["tool_calls"]
    return {**one, "tool_calls": None if calls is None else [json.loads(call) for call in calls]}


def test_columns_in_out_and_in_again_are_equal(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    once = export_again(source, tmp_path / "once")
    assert texts_of(once) == texts_of(source)
    twice = export_again(once, tmp_path / "twice")
    assert texts_of(twice) == texts_of(source)
    first, second = (folder / "data" / "chunk-000" / "file-000.parquet" for folder in (once, twice))
    assert first.read_bytes() == second.read_bytes()


# Style, text, span, author and arm: early ends, an overlap, a second arm, an instant and a model's text.
_SAID = (
    ("subtask", "reach", 0.1, 0.3, "person", "left"),
    ("subtask", "grasp", 0.4, 0.7, "person", "left"),
    ("subtask", "hold the bowl", 0.2, 0.6, "person", "right"),
    ("subtask", "wait", 0.2, 0.25, "person", ""),
    ("plan", "1. reach 2. grasp", 0.0, 0.85, "a/planner", ""),
    ("mood", "calm", 0.05, 0.05, "person", ""),
)


def said_in(ws: Workspace) -> list[tuple[Any, ...]]:
    """What the segments of a workspace say, with ends and starts to a microsecond."""
    (episode,) = ws.episodes
    return sorted(
        (own.style, own.text, round(own.start_seconds, 6), round(own.stop_seconds, 6), own.author, arm)
        for own in episode.segments
        if (arm := str(stored_value(ws, own.annotation_id).get("arm") or "")) is not None
    )


def stored_value(ws: Workspace, annotation_id: str) -> Mapping[str, Any]:
    found = ws.stores.annotations.find_annotations(list(ws.stores.tables.episodes.ids()))
    return {own.annotation_id: own.value for own in found}[annotation_id]


@pytest.mark.slow
@pytest.mark.parametrize("format", some_by_day(["lerobot", "lerobot-v2.1", "rlds"], 2))
def test_authors_arms_and_ends_are_read_back_from_an_export(format: str, tmp_path: Path) -> None:
    source = make_dataset(tmp_path / "source", {})
    with open_workspace(tmp_path / "first", create=True) as ws:
        ingest_paths(ws.stores, [str(source)], quiet=True)
        (id,) = ws.stores.tables.episodes.ids()
        made = [
            segment(PERSON, id, (start, stop), {"style": style, "text": text, "author": author, "arm": arm})
            for style, text, start, stop, author, arm in _SAID
        ]
        append(ws, [PERSON], made)
        ws.export(ws.sets.create("all", [id], {}), tmp_path / "out1", format=format, quiet=True)
    for number in (1, 2):
        with open_workspace(tmp_path / f"ws{number}", create=True) as ws:
            ingest_paths(ws.stores, [str(tmp_path / f"out{number}")], quiet=True)
            assert said_in(ws) == sorted(_SAID)
            chosen = ws.sets.create("all", ws.stores.tables.episodes.ids(), {})
            ws.export(chosen, tmp_path / f"out{number + 1}", format=format, quiet=True)


@pytest.mark.slow
def test_a_list_of_segments_of_other_episodes_is_not_read(tmp_path: Path) -> None:
    once = export_again(write_source(tmp_path / "source"), tmp_path / "once")
    before = texts_of(once)
    path = once / "meta" / "ares_segments.parquet"
    table = pq.read_table(path)
    other = pa.array(["0" * 16] * table.num_rows)
    pq.write_table(table.set_column(table.column_names.index("episode_id"), "episode_id", other), path)
    assert texts_of(export_again(once, tmp_path / "twice")) == before


@pytest.mark.slow
def test_a_subtask_that_stands_in_both_forms_is_read_once_and_keeps_its_end(tmp_path: Path) -> None:
    persistent = [row("subtask", "reach", stamp(0)), row("subtask", "grasp", stamp(4))]
    numbers = [0, 0, 0, 2, 1, 1, 1, 1, 2, 2]
    columns = {"language_persistent": every_frame(persistent), "subtask_index": pa.array(numbers)}
    dataset = make_dataset(tmp_path / "source", columns)
    texts = {"subtask_index": [0, 1, 2], "subtask": ["reach", "grasp", ""]}
    pq.write_table(pa.table(texts), dataset / "meta" / "subtasks.parquet")
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ingest_paths(ws.stores, [str(dataset)], quiet=True)
        (episode,) = ws.stores.tables.episodes.ids()
        segments = list(ws.episodes[episode].segments)
    assert [segment.text for segment in segments] == ["reach", "grasp"]
    ends = [(segment.start_seconds, segment.stop_seconds) for segment in segments]
    np.testing.assert_allclose(ends, [(0.0, stamp(3)), (stamp(4), stamp(8))], atol=1e-6)
    once = export_again(dataset, tmp_path / "once")
    assert [step["subtask"] for step in texts_of(once)] == [step["subtask"] for step in texts_of(dataset)]
