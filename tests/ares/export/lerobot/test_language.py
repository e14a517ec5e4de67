"""Texts of segments in LeRobot folders: the columns of lerobot 0.6, subtasks, and the file beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ares.annotation import Annotation
from ares.workspace import Workspace
from tests.ares.export.made_episodes import make_record, make_set, read_info, read_json, read_rows
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
from tests.torture.exports import read_files

_GOOD = "ACTION=MET OBJECT=MET OUTCOME=UNSURE SEG=MET"
FIRST = f"{0:016x}"


def segments_file(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(folder / "meta" / "ares_segments.parquet").to_pylist()
    return found


def persistent(episode: str, style: str, row: int, seconds: float, stop: float, **value: Any) -> Annotation:
    """A row of `language_persistent` as ingestion keeps it."""
    stated = {"timestamp": float(np.float32(seconds)), "row": row, "column": "persistent"}
    full = {"text": "", "style": style, "author": "", "role": "assistant", **stated, **value}
    return segment(source_producer(style), episode, (float(np.float32(seconds)), stop), full, part=str(row))


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    """Three episodes of 40 steps at 20 Hz without cameras, as the set "made"."""
    make_set(ws, [make_record(number, steps=40, cameras=()) for number in range(3)])
    return ws


def test_types_and_features_are_those_of_lerobot(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [source_producer("subtask")], [persistent(FIRST, "subtask", 0, 0.0, 2.0, text="reach")])
    ws.export("made", tmp_path / "out", quiet=True)
    schema = pq.read_schema(tmp_path / "out" / "data" / "chunk-000" / "file-000.parquet")
    text = "role: string not null, content: string, style: string, "
    rest = "camera: string, tool_calls: list<element: extension<arrow.json>>"
    for name, time in {"language_persistent": "timestamp: float not null, ", "language_events": ""}.items():
        assert str(schema.field(name).type) == f"list<element: struct<{text}{time}{rest}>>"
        assert read_info(tmp_path / "out")["features"][name] == {
            "dtype": "language",
            "shape": [1],
            "names": None,
        }
    assert read_info(tmp_path / "out")["codebase_version"] == "v3.0"
    assert read_info(tmp_path / "out")["features"]["subtask_index"] == {
        "dtype": "int64",
        "shape": [1],
        "names": None,
    }


def test_a_dataset_without_texts_has_no_columns_for_them(ws: Workspace, tmp_path: Path) -> None:
    """Versions before 0.6 refuse the columns."""
    append(ws, [SEGMENTER], [segment(SEGMENTER, FIRST, (0.0, 1.0), {"text": "", "style": "subtask"})])
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments == {"held_back": {"no text": 1}}
    names = set(read_rows(tmp_path / "out")[0])
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
    assert [texts[row["subtask_index"]] for row in read_rows(tmp_path / "out")] == (
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
    texts = [one["content"] for one in read_rows(tmp_path / "out")[0]["language_persistent"]]
    assert texts == ["left reaches", "left grasps", "left lifts"]
    found = {row["text"]: row for row in segments_file(tmp_path / "out")}
    assert {text for text, row in found.items() if row["not_held"] is None} == {"left reaches", "left lifts"}
    second = found["right waits"]
    assert (second["start_seconds"], second["stop_seconds"], second["arm"]) == (0.0, 0.4, "right")
    assert {row["author"] for row in found.values()} == {"person"}
    assert read_json(tmp_path / "out" / "manifest.json")["counts"]["segments"] == report.segments


def test_people_stand_above_sources_and_models(ws: Workspace, tmp_path: Path) -> None:
    source = segment(source_producer("subtask"), FIRST, (0.5, 1.5), {"text": "said", "style": "subtask"})
    model = segment(CAPTIONER, FIRST, (0.0, 0.5), {"text": "seen"})
    clash = segment(CAPTIONER, FIRST, (1.0, 2.0), {"text": "seen, too"})
    person = segment(PERSON, FIRST, (1.5, 2.0), {"text": "corrected"})
    append(ws, [source_producer("subtask"), CAPTIONER, PERSON, JUDGE], [source, model, clash, person])
    append(ws, [], [grade(model, _GOOD), grade(clash, _GOOD)])
    report = ws.export("made", tmp_path / "out", quiet=True)
    assert report.segments["written"] == {"accepted": 2, "person": 1, "source": 1}
    texts = [one["content"] for one in read_rows(tmp_path / "out")[0]["language_persistent"]]
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
    data = read_rows(tmp_path / "out")
    assert data[0]["language_persistent"][0]["timestamp"] == pytest.approx(1.0)
    assert [number for number, row in enumerate(data) if row["language_events"]] == [4]
    names = {row["subtask_index"] for row in data[10:20]}
    assert len(names) == 1 and names.isdisjoint(row["subtask_index"] for row in data[:10])


def test_the_same_set_gives_the_same_bytes(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [PERSON], [segment(PERSON, f"{n:016x}", (0.0, 1.0), {"text": f"reach {n}"}) for n in range(3)])
    for name in ("one", "two"):
        ws.export("made", tmp_path / name, quiet=True)
    files = read_files(tmp_path / "one")
    assert files.keys() >= {"meta/ares_segments.parquet", "meta/subtasks.parquet"}
    assert files == read_files(tmp_path / "two")


def test_v21_lists_its_segments_beside(ws: Workspace, tmp_path: Path) -> None:
    append(ws, [PERSON], [segment(PERSON, FIRST, (0.0, 1.0), {"text": "reach"})])
    report = ws.export("made", tmp_path / "out", format="lerobot-v2.1", quiet=True)
    assert report.segments["not_held"] == {"no columns of texts in this version": 1}
    assert [(row["text"], row["stop_seconds"]) for row in segments_file(tmp_path / "out")] == [("reach", 1.0)]
