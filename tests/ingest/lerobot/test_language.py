"""Language columns and subtasks of LeRobot datasets become segments that keep all that their rows say."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.episode import Record, SourceSegment
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from ares_ingest.lerobot import lerobot
from tests.ingest.lerobot.good_folders import write_good_folder
from tests.ingesting import ingest_paths

STEPS, FPS = 10, 10
TOP = "observation.images.top"
Row = dict[str, Any]


def stamp(frame: int) -> float:
    """The float32 timestamp of a frame."""
    return float(np.float32(frame / FPS))


def row(style: str | None, content: str | None, timestamp: float | None = None, **others: Any) -> Row:
    timed = {} if timestamp is None else {"timestamp": timestamp}
    fixed = {
        "role": "assistant",
        "content": content,
        "style": style,
        **timed,
        "camera": None,
        "tool_calls": None,
    }
    return {**fixed, **others}


def persistent_type(calls: pa.DataType | None = None) -> pa.DataType:
    """The type of the column as lerobot 0.6 declares it."""
    role, content, style, *others = event_type(calls).value_type
    return pa.list_(pa.struct([role, content, style, ("timestamp", pa.float32()), *others]))


def event_type(calls: pa.DataType | None = None) -> pa.DataType:
    """The type of the column of events."""
    texts = [(name, pa.string()) for name in ("role", "content", "style", "camera")]
    return pa.list_(pa.struct([*texts, ("tool_calls", pa.list_(calls or pa.string()))]))


def every_frame(rows: Sequence[Row]) -> pa.Array:
    return pa.array([list(rows)] * STEPS, persistent_type())


def at_frames(rows: dict[int, list[Row]]) -> pa.Array:
    return pa.array([rows.get(frame, []) for frame in range(STEPS)], event_type())


def make_dataset(folder: Path, *episodes: dict[str, Any]) -> Path:
    """A v3.0 dataset of one data file with these further columns for each episode."""
    count = len(episodes)
    write_good_folder(folder, version="v3.0", lengths=[STEPS] * count, cameras=(), per_file=count)
    info = folder / "meta" / "info.json"
    document = json.loads(info.read_text())
    names = [name for name in episodes[0] if name.startswith("language_")]
    document["features"] |= {name: {"dtype": "language", "shape": [1], "names": None} for name in names}
    info.write_text(json.dumps(document))
    tasks = pa.table({"task_index": [0, 1], "__index_level_0__": ["do it", "put"]})
    pq.write_table(tasks, folder / "meta" / "tasks.parquet")
    write_rows(folder, *episodes)
    return folder


def write_rows(folder: Path, *episodes: dict[str, Any]) -> None:
    """Give the rows of each episode these columns beside those of a good folder."""
    path = folder / "data" / "chunk-000" / "file-000.parquet"
    usual = [
        "observation.state",
        "action",
        "timestamp",
        "frame_index",
        "episode_index",
        "index",
        "task_index",
    ]
    table = pq.read_table(path, columns=usual)
    tables = []
    for number, columns in enumerate(episodes):
        own = table.slice(number * STEPS, STEPS)
        for name, values in columns.items():
            own = own.append_column(name, values)
        tables.append(own)
    with pq.ParquetWriter(path, tables[0].schema) as writer:
        for own in tables:
            writer.write_table(own)


def records(folder: Path) -> list[Record]:
    (source,) = lerobot.open(str(folder), SourceOptions())
    assert not [warning for warning in source.warnings if "left out" in warning]
    return [item.load() for item in source.items]


def summary(segments: Sequence[SourceSegment]) -> list[tuple[str, str, float, float]]:
    return [(part.style, part.text, part.start_seconds, part.stop_seconds) for part in segments]


def test_a_persistent_row_holds_until_the_next_of_its_style_and_camera(tmp_path: Path) -> None:
    rows = [
        row("subtask", "grasp", stamp(3)),
        row("subtask", "reach", stamp(0)),
        row("plan", "1. all", stamp(0)),
        row("trace", "left", stamp(0), camera=TOP),
        row("trace", "right", stamp(2), camera="observation.images.wrist"),
        row("task_aug", "raise it", 0.0, role="user"),
        row("task_aug", "lift it up", 0.0, role="user"),
        row("my own", "between frames", 0.25),
    ]
    (record,) = records(make_dataset(tmp_path / "made", {"language_persistent": every_frame(rows)}))
    assert summary(record.segments) == [
        ("subtask", "grasp", 0.3, math.inf),
        ("subtask", "reach", 0.0, 0.3),
        ("plan", "1. all", 0.0, math.inf),
        ("trace", "left", 0.0, math.inf),
        ("trace", "right", 0.2, math.inf),
        ("task_aug", "raise it", 0.0, math.inf),
        ("task_aug", "lift it up", 0.0, math.inf),
        ("my own", "between frames", 0.25, math.inf),
    ]
    assert record.warnings == ()
    assert [segment.camera for segment in record.segments[2:5]] == ["", TOP, "observation.images.wrist"]
    assert record.segments[0].fields == {"column": "persistent", "row": 0, "timestamp": stamp(3)}
    assert record.segments[5].role == "user" and record.segments[5].author == ""


def test_an_event_spans_its_frame(tmp_path: Path) -> None:
    call = {"type": "function", "function": {"name": "say", "arguments": {"text": "ok"}}}
    rows = {
        4: [
            row("vqa", "where?", role="user", camera=TOP),
            row("vqa", '{"box": [1, 2]}', camera=TOP),
            row(None, None, tool_calls=[json.dumps(call), "no JSON"]),
        ],
        9: [row("interjection", "stop", role="user")],
    }
    (record,) = records(make_dataset(tmp_path / "made", {"language_events": at_frames(rows)}))
    assert summary(record.segments) == [
        ("vqa", "where?", 0.4, 0.5),
        ("vqa", '{"box": [1, 2]}', 0.4, 0.5),
        ("", "", 0.4, 0.5),
        ("interjection", "stop", 0.9, math.inf),
    ]
    place = {"column": "events", "frame": 4, "timestamp": stamp(4)}
    assert [segment.fields for segment in record.segments[1:3]] == [
        {**place, "row": 1, "camera": TOP},
        {**place, "row": 2, "tool_calls": [call, "no JSON"]},
    ]


def test_columns_as_the_writer_of_lerobot_infers_them(tmp_path: Path) -> None:
    """It lets Arrow infer the types: calls that are all null, or a column without rows, have no type."""
    rows = [row("subtask", "reach", 0.0), row("subtask", "grasp", 0.5)]
    inferred = {"language_persistent": pa.array([rows] * STEPS), "language_events": pa.array([[]] * STEPS)}
    assert str(inferred["language_events"].type) == "list<item: null>"
    (record,) = records(make_dataset(tmp_path / "made", inferred))
    assert summary(record.segments) == [("subtask", "reach", 0.0, 0.5), ("subtask", "grasp", 0.5, math.inf)]
    assert record.warnings == () and "tool_calls" not in record.segments[0].fields


def test_rows_that_cannot_be_read_are_told_once(tmp_path: Path) -> None:
    bad = [
        row("subtask", None, 0.0),
        row("subtask", None, 0.1),
        None,
        row("subtask", "when?", math.nan),
        {**row("subtask", "when?"), "timestamp": None},
    ]
    good = row("subtask", "kept", 0.5)
    persistent = pa.array([[*bad, good], *[[good]] * (STEPS - 1)], persistent_type())
    events = pa.array([None, [None]] * (STEPS // 2), event_type())
    made = make_dataset(tmp_path / "made", {"language_persistent": persistent, "language_events": events})
    (record,) = records(made)
    assert summary(record.segments) == [("subtask", "kept", 0.5, math.inf)]
    assert sorted(record.warnings) == [
        "a row of language_events says nothing, left out",
        "a row of language_persistent has no timestamp, left out",
        "a row of language_persistent says nothing, left out",
        "language_persistent differs between frames of an episode: read from the first with rows",
    ]


def test_subtasks_by_number(tmp_path: Path) -> None:
    numbers = pa.array([1, 1, 1, 0, 0, -1, -1, 1, 7, 7])
    made = make_dataset(tmp_path / "made", {"subtask_index": numbers})
    (before,) = records(made)
    assert before.segments == () and set(before.trajectory.extra) == {"subtask_index"}
    listed = pa.table({"subtask_index": [1, 0], "__index_level_0__": ["reach", "grasp"]})
    pq.write_table(listed, made / "meta" / "subtasks.parquet")
    (record,) = records(made)
    assert summary(record.segments) == [
        ("subtask", "reach", 0.0, 0.3),
        ("subtask", "grasp", 0.3, 0.5),
        ("subtask", "reach", 0.7, 0.8),
        ("subtask", "", 0.8, math.inf),
    ]
    assert record.segments[1].fields == {"column": "subtask_index", "subtask_index": 0}
    assert record.warnings == ("a number of subtask_index stands for no text",)
    # A number that stands for a text is no signal; the recording is the same, whatever is said about it.
    assert record.trajectory.extra == {}
    assert record.episode.content_hash == before.episode.content_hash
    (made / "meta" / "subtasks.parquet").write_bytes(b"garbage")
    (source,) = lerobot.open(str(made), SourceOptions())
    assert [warning for warning in source.warnings if warning.endswith("its texts are not used")]


def test_subtasks_of_older_datasets(tmp_path: Path) -> None:
    columns = {
        "annotation.human.subtask": pa.array([0] * 4 + [1] * 6),
        "subtask_text": pa.array(["go"] * 5 + ["", None] + ["back"] * 3),
    }
    (record,) = records(make_dataset(tmp_path / "made", columns))
    assert summary(record.segments) == [
        ("subtask", "do it", 0.0, 0.4),
        ("subtask", "put", 0.4, math.inf),
        ("subtask", "go", 0.0, 0.5),
        ("subtask", "back", 0.7, math.inf),
    ]
    assert [segment.fields["column"] for segment in record.segments[1:3]] == [
        "annotation.human.subtask",
        "subtask_text",
    ]


def list_subtasks(folder: Path, **columns: list[Any]) -> None:
    """Add columns to the list of episodes."""
    path = folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)


def test_subtasks_of_the_list_of_episodes(ws: Workspace, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "made", {}, {})
    ingest_paths(ws.stores, [str(made)], quiet=True)
    sparse: dict[str, Any] = {
        "names": [["all"], ["all"]],
        "start_times": [[0.0], [0.0]],
        "end_times": [[1.0], [1.0]],
    }
    dense: dict[str, Any] = {
        "names": [["go", "back"], None],
        "start_times": [[0.0, 0.4], None],
        "end_times": [[0.4, 1.0], None],
    }
    list_subtasks(
        made,
        **{f"subtask_{name}": values for name, values in sparse.items()},
        **{f"sparse_subtask_{name}": values for name, values in sparse.items()},
        **{f"dense_subtask_{name}": values for name, values in dense.items()},
        other_subtask_names=[["no times"], None],
    )
    report = ingest_paths(ws.stores, [str(made)], quiet=True).to_report()
    rows = ws.stores.tables.segments.scan(["text", "start_seconds", "stop_seconds"]).to_pylist()
    assert sorted(tuple(found.values()) for found in rows) == [
        ("all", 0.0, 1.0),
        ("all", 0.0, 1.0),
        ("back", 0.4, 1.0),
        ("go", 0.0, 0.4),
    ]
    assert "other_subtask_names of the list of episodes do not match their times, left out" in {
        warning.reason for warning in report.warnings
    }
    assert ingest_paths(ws.stores, [str(made)], quiet=True).counts.already == 2


def test_every_episode_of_a_shared_file_has_its_own_rows(ws: Workspace, tmp_path: Path) -> None:
    episodes = [
        {
            "language_persistent": every_frame([row("subtask", f"reach {number}", 0.0)]),
            "language_events": at_frames({number: [row("interjection", f"stop {number}")]}),
        }
        for number in range(3)
    ]
    made = make_dataset(tmp_path / "made", *episodes)
    report = ingest_paths(ws.stores, [str(made)], quiet=True).to_report()
    warnings = [part.reason for part in report.warnings if not part.reason.startswith("A057")]
    assert (report.kept, warnings) == (3, [])
    rows = ws.stores.tables.segments.read().to_pylist()
    assert sorted(
        (found["style"], found["text"], found["start_seconds"], found["stop_seconds"]) for found in rows
    ) == [
        *(("interjection", f"stop {number}", number / 10, (number + 1) / 10) for number in range(3)),
        *(("subtask", f"reach {number}", 0.0, 1.0) for number in range(3)),
    ]


def texts_of(ws: Workspace) -> list[str]:
    return sorted(ws.stores.tables.segments.scan(["text"])["text"].to_pylist())


def test_labels_that_come_later_are_read_by_the_next_ingest(ws: Workspace, tmp_path: Path) -> None:
    made = make_dataset(tmp_path / "made", {}, {})
    ingest_paths(ws.stores, [str(made)], quiet=True)
    ids = ws.stores.tables.episodes.ids()
    write_rows(
        made, *({"language_persistent": every_frame([row("subtask", "reach", 0.0)])} for _ in range(2))
    )
    assert ingest_paths(ws.stores, [str(made)], quiet=True).counts.kept == 2
    assert texts_of(ws) == ["reach", "reach"] and ws.stores.tables.episodes.ids() == ids
    assert ingest_paths(ws.stores, [str(made)], quiet=True).counts.already == 2
    write_rows(made, {}, {})
    assert ingest_paths(ws.stores, [str(made)], quiet=True).counts.kept == 2
    assert texts_of(ws) == []


@pytest.mark.slow
def test_labels_that_come_later_wait_for_the_spec_of_the_first_ingest(ws: Workspace, tmp_path: Path) -> None:
    made, options = make_dataset(tmp_path / "made", {}), SourceOptions(rate_hz=20.0)
    ingest_paths(ws.stores, [str(made)], options, quiet=True)
    write_rows(made, {"language_persistent": every_frame([row("subtask", "reach", 0.0)])})
    report = ingest_paths(ws.stores, [str(made)], quiet=True).to_report()
    assert [warning.reason for warning in report.warnings] == [
        "changed or incomplete: they are read with the spec or options of their first ingestion"
    ]
    assert (report.already, texts_of(ws)) == (1, [])
    ingest_paths(ws.stores, [str(made)], options, quiet=True)
    assert texts_of(ws) == ["reach"]
