"""Texts of segments in LeRobot folders: the columns of lerobot 0.6, subtasks, and the file beside them."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.annotation import Annotation
from ares.episode import Record
from ares.errors import StoreError
from ares.export.lerobot.segment_file import SegmentFileWriter
from ares.rubric import JUDGE_TRUST
from ares.workspace import Workspace
from tests.ares.export.segments import (
    CAPTIONER,
    JUDGE,
    PERSON,
    SEGMENTER,
    append,
    grade,
    segment,
    source_producer,
)

MakeRecord = Callable[..., Record]
MakeSet = Callable[..., Any]
_GOOD = "ACTION=MET OBJECT=MET OUTCOME=UNSURE SEG=MET"
_CALL = {"type": "function", "function": {"name": "say", "arguments": {"text": "Done, ü"}}}
FIRST = f"{0:016x}"


def rows(folder: Path, name: str = "data") -> list[dict[str, Any]]:
    files = sorted((folder / name).glob("*/*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def segments_file(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "meta" / "ares_segments.parquet").to_pylist()
    return found


def info(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "meta" / "info.json").read_text())
    return document


def trust_judge(ws: Workspace, state: str = "trusted") -> None:
    document: dict[str, Any] = {
        "state": "untrusted",
        "content": state,
        "outcome": "untrusted",
        "gates": {"OUTCOME": "outcome"},
    }
    ws.stores.annotations.put_documents(JUDGE_TRUST, {f"{JUDGE.maker_id}/made": document})


def persistent(episode: str, style: str, row: int, seconds: float, stop: float, **value: Any) -> Annotation:
    """A row of `language_persistent` as ingestion keeps it."""
    stated = {"timestamp": float(np.float32(seconds)), "row": row, "column": "persistent"}
    full = {"text": "", "style": style, "author": "", "role": "assistant", **stated, **value}
    return segment(source_producer(style), episode, (float(np.float32(seconds)), stop), full, part=str(row))


@pytest.fixture
def ws(empty_workspace: Workspace, make_record: MakeRecord, make_set: MakeSet) -> Workspace:
    """Three episodes of 40 steps at 20 Hz without cameras, as the set "made"."""
    make_set(empty_workspace, [make_record(number, steps=40, cameras=()) for number in range(3)])
    return empty_workspace


def test_columns_of_a_source_come_out_as_they_went_in(ws: Workspace, tmp_path: Path) -> None:
    """Order, float32 times, calls of tools, roles, unknown styles and styles that overlap are those of the source."""
    event: dict[str, Any] = {
        "timestamp": float(np.float32(0.35)),
        "row": 0,
        "column": "events",
        "style": "",
    }
    spoken_value: dict[str, Any] = {"text": "", "role": "assistant", "tool_calls": [_CALL], **event}
    styles = ("subtask", "task_aug", "motion", "other")
    source = [
        persistent(FIRST, "subtask", 0, 0.0, 0.7, text="reach for the cup"),
        persistent(FIRST, "task_aug", 1, 0.0, 2.0, text="tidy up", role="user"),
        persistent(FIRST, "task_aug", 2, 0.0, 2.0, text="clean the table", role="user"),
        persistent(FIRST, "subtask", 3, 0.7, 2.0, text="grasp"),
        persistent(FIRST, "motion", 4, 1.1, 2.0, tool_calls=[_CALL]),
        persistent(FIRST, "other", 5, 1.3, 2.0, text="odd"),
        segment(source_producer("other"), FIRST, (event["timestamp"],) * 2, spoken_value),
    ]
    append(ws, [source_producer(style) for style in styles], source)
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments == {"written": {"source": 7}}
    data = rows(tmp_path / "out")
    wanted = [
        ("assistant", "reach for the cup", "subtask", 0.0, None),
        ("user", "tidy up", "task_aug", 0.0, None),
        ("user", "clean the table", "task_aug", 0.0, None),
        ("assistant", "grasp", "subtask", 0.7, None),
        ("assistant", None, "motion", 1.1, [_CALL]),
        ("assistant", "odd", "other", 1.3, None),
    ]
    exact = [(*text, float(np.float32(seconds)), calls) for *text, seconds, calls in wanted]
    assert all(states_of(row) == exact for row in data[:40])
    assert all(one["camera"] is None for one in data[0]["language_persistent"])
    assert [number for number, row in enumerate(data) if row["language_events"]] == [7]
    [spoken] = data[7]["language_events"]
    texts = (spoken["role"], spoken["content"], spoken["style"], calls_of(spoken))
    assert texts == ("assistant", None, None, [_CALL])
    assert all(row["language_persistent"] == [] for row in data[40:])


def states_of(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("role", "content", "style", "timestamp")
    return [(*(one[name] for name in names), calls_of(one)) for one in row["language_persistent"]]


def calls_of(row: dict[str, Any]) -> Any:
    return None if row["tool_calls"] is None else [json.loads(call) for call in row["tool_calls"]]


def test_types_and_features_are_those_of_lerobot(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [source_producer("subtask")], [persistent(FIRST, "subtask", 0, 0.0, 2.0, text="reach")])
    ws.export("made", tmp_path / "out", quiet=True)
    schema = pq.read_schema(tmp_path / "out" / "data" / "chunk-000" / "file-000.parquet")
    text = "role: string not null, content: string, style: string, "
    rest = "camera: string, tool_calls: list<element: extension<arrow.json>>"
    for name, time in {"language_persistent": "timestamp: float not null, ", "language_events": ""}.items():
        assert str(schema.field(name).type) == f"list<element: struct<{text}{time}{rest}>>"
        assert info(tmp_path / "out")["features"][name] == {"dtype": "language", "shape": [1], "names": None}
    assert info(tmp_path / "out")["codebase_version"] == "v3.0"
    assert info(tmp_path / "out")["features"]["subtask_index"] == {
        "dtype": "int64",
        "shape": [1],
        "names": None,
    }


def test_a_dataset_without_texts_has_no_columns_for_them(ws: Workspace, tmp_path: Path) -> None:
    """Versions before 0.6 refuse the columns."""
    append(ws, [SEGMENTER], [segment(SEGMENTER, FIRST, (0.0, 1.0), {"text": "", "style": "subtask"})])
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments == {"held_back": {"no text": 1}}
    names = set(rows(tmp_path / "out")[0])
    assert not names & {"language_persistent", "language_events", "subtask_index"}
    assert not list((tmp_path / "out" / "meta").glob("*s[eu][gb]*"))


def test_subtasks_have_an_index_on_every_step(ws: Workspace, tmp_path: Path) -> None:
    """A step without a subtask has the text "": readers count from the end for -1."""
    spans = [(0.0, 0.5, "reach"), (0.5, 1.0, "grasp"), (1.5, 2.0, "reach")]
    made = [segment(PERSON, FIRST, (start, stop), {"text": text}) for start, stop, text in spans]
    append(ws, [PERSON], made)
    ws.export("made", tmp_path / "out", quiet=True)
    table = pq.read_table(tmp_path / "out" / "meta" / "subtasks.parquet")
    texts = dict(zip(table["subtask_index"].to_pylist(), table["subtask"].to_pylist(), strict=True))
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == ["subtask"]
    assert [texts[row["subtask_index"]] for row in rows(tmp_path / "out")] == (
        ["reach"] * 10 + ["grasp"] * 10 + [""] * 10 + ["reach"] * 10 + [""] * 80
    )


def test_what_the_columns_cannot_hold_lies_beside_them(ws: Workspace, tmp_path: Path) -> None:
    """An early end, an overlap, a second arm, an unknown style, an event without its camera: each told and counted."""
    spans: list[tuple[float, float, dict[str, Any]]] = [
        (0.0, 0.5, {"text": "left reaches", "arm": "left"}),
        (0.5, 1.0, {"text": "left grasps", "arm": "left"}),
        (0.0, 0.4, {"text": "right waits", "arm": "right"}),
        (1.25, 2.0, {"text": "left lifts", "arm": "left"}),
        (1.5, 1.75, {"text": "a second thought"}),
        (1.0, 1.1, {"text": "hm", "style": "remark"}),
        (1.0, 1.0, {"text": "what is it?", "style": "vqa"}),
    ]
    made = [segment(PERSON, FIRST, (start, stop), value) for start, stop, value in spans]
    append(ws, [PERSON], made)
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments == {
        "written": {"person": 7},
        "not_held": {
            "ends before the next start": 1,
            "a second arm at the same time": 1,
            "overlaps another of its style": 1,
            "style that lerobot does not know": 1,
            "style that needs a camera of the dataset": 1,
        },
    }
    texts = [one["content"] for one in rows(tmp_path / "out")[0]["language_persistent"]]
    assert texts == ["left reaches", "left grasps", "left lifts"]
    found = {row["text"]: row for row in segments_file(tmp_path / "out")}
    assert {text for text, row in found.items() if row["not_held"] is None} == {"left reaches", "left lifts"}
    second = found["right waits"]
    assert (second["start_seconds"], second["stop_seconds"], second["arm"]) == (0.0, 0.4, "right")
    assert {row["author"] for row in found.values()} == {"person"}
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text())["counts"]["segments"] == report.segments
    )


def test_people_stand_above_sources_and_models(ws: Workspace, tmp_path: Path) -> None:
    source = segment(source_producer("subtask"), FIRST, (0.5, 1.5), {"text": "said", "style": "subtask"})
    model = segment(CAPTIONER, FIRST, (0.0, 0.5), {"text": "seen"})
    clash = segment(CAPTIONER, FIRST, (1.0, 2.0), {"text": "seen, too"})
    person = segment(PERSON, FIRST, (1.5, 2.0), {"text": "corrected"})
    append(ws, [source_producer("subtask"), CAPTIONER, PERSON, JUDGE], [source, model, clash, person])
    append(ws, [], [grade(model, _GOOD), grade(clash, _GOOD)])
    trust_judge(ws)
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments["written"] == {"accepted": 2, "person": 1, "source": 1}
    texts = [one["content"] for one in rows(tmp_path / "out")[0]["language_persistent"]]
    assert texts == ["seen", "said", "corrected"]
    authors = {row["text"]: (row["author"], row["state"]) for row in segments_file(tmp_path / "out")}
    assert authors["seen"] == ("vlm-1", "accepted") and authors["said"] == ("", "source")


def test_another_clock_moves_texts_with_their_steps(ws: Workspace, tmp_path: Path) -> None:
    """At half the rate step k is step 2k of the source: seconds stay; the events go to the nearest written step."""
    question: dict[str, Any] = {
        "timestamp": float(np.float32(0.35)),
        "row": 0,
        "column": "events",
        "style": "interjection",
    }
    event = segment(
        source_producer("interjection"), FIRST, (0.35, 0.35), {"text": "stop!", "role": "user", **question}
    )
    subtask = persistent(FIRST, "subtask", 0, 1.0, 2.0, text="reach")
    append(ws, [source_producer("interjection"), source_producer("subtask")], [event, subtask])
    ws.export("made", tmp_path / "out", fps=10, quiet=True)
    data = rows(tmp_path / "out")
    assert data[0]["language_persistent"][0]["timestamp"] == pytest.approx(1.0)
    assert [number for number, row in enumerate(data) if row["language_events"]] == [4]
    names = {row["subtask_index"] for row in data[10:20]}
    assert len(names) == 1 and names.isdisjoint(row["subtask_index"] for row in data[:10])


def test_the_same_set_gives_the_same_bytes(ws: Workspace, tmp_path: Path) -> None:
    made = [segment(PERSON, f"{n:016x}", (0.0, 1.0), {"text": f"reach {n}"}) for n in range(3)]
    append(ws, [PERSON], made)
    for name in ("one", "two"):
        ws.export("made", tmp_path / name, quiet=True)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert Path("meta/ares_segments.parquet") in files and Path("meta/subtasks.parquet") in files
    for file in files:
        if file.name != "manifest.times.json":
            assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file


def test_a_full_disk_leaves_no_folder_of_the_name_and_the_next_run_the_whole(
    ws: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(ws, [PERSON], [segment(PERSON, FIRST, (0.0, 1.0), {"text": "reach"})])

    def fail(writer: SegmentFileWriter) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SegmentFileWriter, "close", fail)
        with pytest.raises(StoreError, match="the disk is full"):
            ws.export("made", tmp_path / "out", quiet=True)
    assert not (tmp_path / "out").exists()
    ws.export("made", tmp_path / "out", quiet=True)
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]
    assert [row["text"] for row in segments_file(tmp_path / "out")] == ["reach"]


def test_v21_lists_its_segments_beside(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [PERSON], [segment(PERSON, FIRST, (0.0, 1.0), {"text": "reach"})])
    report = ws.export("made", tmp_path / "out", format="lerobot-v2.1", quiet=True)
    assert report.segments["not_held"] == {"no columns of texts in this version": 1}
    assert [(row["text"], row["stop_seconds"]) for row in segments_file(tmp_path / "out")] == [("reach", 1.0)]
