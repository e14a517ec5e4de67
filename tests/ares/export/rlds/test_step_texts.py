"""Texts of segments in RLDS: a feature of steps, every span in `ares_export`, and records that are still copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ares import open as open_workspace
from ares.workspace import Workspace
from ares_ingest.base import SourceOptions
from tests.ares.export.made_episodes import make_record, make_set, read_json
from tests.ares.export.rlds.test_exporter import records, values
from tests.ares.export.segments import PERSON, append, segment, source_producer
from tests.ingesting import ingest_paths

FIRST = f"{0:016x}"


@pytest.fixture
def ws(ws: Workspace) -> Workspace:
    """Two episodes of 40 steps at 20 Hz without cameras, as the set "made"."""
    make_set(ws, [make_record(number, steps=40, cameras=()) for number in range(2)])
    return ws


def exported_records(folder: Path) -> list[bytes]:
    return [payload for version in sorted(folder.glob("*/*/")) for payload in records(version)]


def exported_segments(payload: bytes) -> list[dict[str, Any]]:
    [text] = values(payload, "episode_metadata/ares_export")
    found: list[dict[str, Any]] = json.loads(text).get("segments", [])
    return found


def test_steps_have_the_text_of_their_subtask(ws: Workspace, tmp_path: Path) -> None:
    """The task stays in `language_instruction`; an overlap is in `ares_export` alone, with its author."""
    spans = [(0.0, 0.5, "reach"), (0.5, 1.5, "grasp"), (0.75, 1.0, "wait")]
    append(
        ws, [PERSON], [segment(PERSON, FIRST, (start, stop), {"text": text}) for start, stop, text in spans]
    )
    report = ws.export("made", tmp_path / "out", format="rlds", quiet=True)
    first, second = exported_records(tmp_path / "out")
    texts = [text.decode() for text in values(first, "steps/subtask")]
    assert texts == ["reach"] * 10 + ["grasp"] * 20 + [""] * 10
    assert set(values(first, "steps/language_instruction")) == {b"do thing 0"}
    assert values(second, "steps/subtask") == [b""] * 40 and exported_segments(second) == []
    assert [(one["text"], one["stop_seconds"], one["author"]) for one in exported_segments(first)] == [
        ("reach", 0.5, "person"),
        ("grasp", 1.5, "person"),
        ("wait", 1.0, "person"),
    ]
    assert report.segments == {"written": {"person": 3}}
    features = read_json(tmp_path / "out" / "made" / "1.0.0" / "features.json")
    steps = features["featuresDict"]["features"]["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    assert steps["subtask"]["pythonClassName"].endswith("text_feature.Text")


def test_instructions_of_steps_go_back_to_the_steps(ws: Workspace, tmp_path: Path) -> None:
    producer = source_producer("subtask")
    spans = [(0.0, 1.0, "open the drawer"), (1.0, 2.0, "close it")]
    said = [
        segment(producer, FIRST, (start, stop), {"text": text, "feature": "steps/language_instruction"})
        for start, stop, text in spans
    ]
    append(ws, [producer], said)
    ws.export("made", tmp_path / "out", format="rlds", quiet=True)
    first, second = exported_records(tmp_path / "out")
    assert values(first, "steps/language_instruction") == [b"open the drawer"] * 20 + [b"close it"] * 20
    assert set(values(second, "steps/language_instruction")) == {b"do thing 1"}


def test_records_are_copied_unless_somebody_else_has_said_something(
    demo_samples: Path, tmp_path: Path
) -> None:
    """A record has what its source says already; what a person says needs a separate feature."""
    with open_workspace(tmp_path / "ws", create=True) as ws:
        ingest_paths(
            ws.stores, [str(demo_samples / "rlds")], SourceOptions(rate_hz=10.0), limit=2, quiet=True
        )
        said, corrected = sorted(ws.stores.tables.episodes.ids())
        producer = source_producer("subtask")
        made = [
            segment(producer, said, (0.0, 1.0), {"text": "reach", "style": "subtask"}),
            segment(PERSON, corrected, (0.0, 1.0), {"text": "grasp"}),
        ]
        append(ws, [producer, PERSON], made)
        ws.sets.create("two", [said, corrected], {})
        report = ws.export("two", tmp_path / "out", format="rlds", quiet=True)
        without = ws.export("two", tmp_path / "without", format="rlds", segments=["none"], quiet=True)
    assert (report.copied_records, without.copied_records) == (1, 2)
    found = {
        one["text"]: "steps/subtask" in payload.decode("latin-1")
        for payload in exported_records(tmp_path / "out")
        for one in exported_segments(payload)
    }
    assert found == {"reach": False, "grasp": True} and without.segments == {}
