"""Segments as JSON lines: spans, texts, their origin, and frames by reference; and the gate of every format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Producer
from ares.curation import CurationSet
from ares.episode import Record
from ares.errors import RequestError
from ares.export import ExportReport, ExportRequest, open_reader
from ares.export.jsonl import export_jsonl
from ares.media import frames_at
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
MakeSet = Callable[..., CurationSet]
FIRST = f"{0:016x}"
_SPANS = [(number / 4, (number + 1) / 4) for number in range(8)]


@pytest.fixture
def ws(empty_workspace: Workspace, make_record: MakeRecord, make_set: MakeSet) -> Workspace:
    """Two episodes of a video of 107 steps at 20 Hz, as the set "made"."""
    make_set(empty_workspace, [make_record(number) for number in range(2)])
    return empty_workspace


def export(ws: Workspace, folder: Path, segments: Sequence[str] = (), **options: Any) -> ExportReport:
    request = ExportRequest(
        set=ws.sets["made"], destination=folder, format="jsonl", segments=segments, **options
    )
    return export_jsonl(request, open_reader(request, ws.stores), lambda count: None)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "segments.jsonl").read_text().splitlines()]


def put_graded(ws: Workspace, verdicts: dict[str, str], trust: str = "trusted") -> None:
    """A text of a model for each text, with a grade of these verdicts, "" for none, by a judge that is so trusted."""
    captions = {
        text: segment(CAPTIONER, FIRST, span, {"text": text})
        for text, span in zip(verdicts, _SPANS, strict=False)
    }
    append(ws, [CAPTIONER, JUDGE], list(captions.values()))
    append(ws, [], [grade(captions[text], own) for text, own in verdicts.items() if own])
    document: dict[str, Any] = {
        "state": trust,
        "content": trust,
        "outcome": "untrusted",
        "gates": {"OUTCOME": "outcome"},
    }
    ws.stores.annotations.put_documents(JUDGE_TRUST, {f"{JUDGE.maker_id}/made": document})


def test_a_line_names_span_text_author_and_frames(ws: Workspace, tmp_path: Path, front_camera: Any) -> None:
    value: dict[str, Any] = {
        "text": "grasp – ü",
        "arm": "left",
        "slots": {"action": "grasp", "object": "ball"},
    }
    append(ws, [PERSON], [segment(PERSON, FIRST, (1.0, 2.5), value)])
    report = export(ws, tmp_path / "out")
    [line] = lines(tmp_path / "out")
    assert (line["episode_id"], line["dataset"], line["task"]) == (FIRST, "made", "do thing 0")
    assert (line["start_seconds"], line["stop_seconds"], line["text"]) == (1.0, 2.5, "grasp – ü")
    assert (line["author"], line["state"], line["style"], line["arm"]) == (
        "person",
        "person",
        "subtask",
        "left",
    )
    assert line["slots"] == {"action": "grasp", "object": "ball"} and line["grade"] == {}
    [frames] = line["frames"]
    assert (frames["camera"], frames["uri"]) == ("front", front_camera.media.uri)
    assert (frames["start_seconds"], frames["stop_seconds"], frames["rate_hz"]) == (1.0, 2.5, 20.0)
    assert frames_at(front_camera.media, [frames["start_seconds"]])[0].shape == (192, 192, 3)
    assert (report.episodes, report.frames, report.segments) == (2, 214, {"written": {"person": 1}})
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["format"] == "jsonl"


def test_frames_of_a_shared_video_are_where_its_episode_begins(
    empty_workspace: Workspace, make_record: MakeRecord, make_set: MakeSet, tmp_path: Path, front_camera: Any
) -> None:
    from dataclasses import replace

    media = replace(front_camera.media, start_seconds=2.0, num_frames=40, stop_seconds=4.0)
    record = make_record(0, steps=40, cameras=(replace(front_camera, media=media),))
    make_set(empty_workspace, [record])
    spans = ((0.5, 1.0), (1.5, 2.5))  # the second ends after the video
    append(empty_workspace, [PERSON], [segment(PERSON, FIRST, span, {"text": "grasp"}) for span in spans])
    export(empty_workspace, tmp_path / "out")
    frames = [line["frames"][0] for line in lines(tmp_path / "out")]
    assert [(own["start_seconds"], own["stop_seconds"]) for own in frames] == [(2.5, 3.0), (3.5, 4.0)]


def test_only_text_that_a_trusted_judge_accepts_goes_out_of_models(ws: Workspace, tmp_path: Path) -> None:
    """The outcome is the episode's; a text whose span nobody asked about counts as ungraded."""
    verdicts = {
        "right": "ACTION=MET OBJECT=NA OUTCOME=UNMET SEG=MET",
        "alone": "ACTION=MET SEG=NA",
        "the neighbour's": "ACTION=MET OUTCOME=MET SEG=UNMET",
        "wrong": "ACTION=UNMET OUTCOME=MET SEG=MET",
        "doubtful": "ACTION=UNSURE OUTCOME=MET SEG=MET",
        "without a span": "ACTION=MET OUTCOME=MET",
        "new": "",
    }
    put_graded(ws, verdicts)
    report = export(ws, tmp_path / "out")
    assert [line["text"] for line in lines(tmp_path / "out")] == ["right", "alone"]
    assert lines(tmp_path / "out")[0]["grade"]["grade_verdicts"] == verdicts["right"]
    assert report.segments == {
        "written": {"accepted": 2},
        "held_back": {"refused": 2, "ungraded": 2, "unsure": 1},
    }


@pytest.mark.parametrize("trust", ["unproven", "untrusted"])
def test_a_judge_that_is_not_trusted_lets_nothing_out(ws: Workspace, tmp_path: Path, trust: str) -> None:
    put_graded(
        ws, {"right": "ACTION=MET SEG=MET", "by a person": "ACTION=MET(person) SEG=MET(person)"}, trust
    )
    report = export(ws, tmp_path / "out")
    assert [line["text"] for line in lines(tmp_path / "out")] == ["by a person"]
    assert report.segments == {"written": {"accepted": 1}, "held_back": {trust: 1}}


def test_text_that_is_asked_for_by_name_goes_out(ws: Workspace, tmp_path: Path) -> None:
    put_graded(ws, {"right": "ACTION=MET SEG=MET", "wrong": "ACTION=UNMET SEG=MET", "new": ""})
    report = export(ws, tmp_path / "out", ["ungraded"])
    assert {line["text"]: line["state"] for line in lines(tmp_path / "out")} == {
        "right": "accepted",
        "new": "ungraded",
    }
    assert report.segments["held_back"] == {"refused": 1}
    assert export(ws, tmp_path / "none", ["none"]).segments == {} and lines(tmp_path / "none") == []
    with pytest.raises(RequestError, match="no segments 'unknown'"):
        export(ws, tmp_path / "wrong", ["unknown"])
    with pytest.raises(RequestError, match="'none' or some, not both"):
        export(ws, tmp_path / "wrong", ["none", "refused"])


def test_texts_of_sources_and_spans_without_text(ws: Workspace, tmp_path: Path) -> None:
    """A label that code gave is not graded text; the caption of a whole episode is none of its segments."""
    from ares.annotation import Column, Producer

    column = Column(name="caption", type="string", meaning="The caption.")
    captioner = Producer(
        annotator="caption", version="1", kind="model", columns=(column,), fills_segments=True
    )
    source = source_producer("plan")
    made = [
        segment(captioner, FIRST, (0.0, 5.35), {"text": "does a thing", "caption": "does a thing"}),
        segment(
            source,
            FIRST,
            (0.0, 5.0),
            {"text": "1. go", "style": "plan", "author": "qwen", "role": "assistant"},
        ),
        segment(SEGMENTER, FIRST, (0.0, 1.0), {"text": "", "author": "signals"}),
        segment(SEGMENTER, FIRST, (1.0, 2.0), {"text": "gripper closes", "author": "signals"}),
    ]
    append(ws, [captioner, source, SEGMENTER], made)
    report = export(ws, tmp_path / "out")
    [line] = lines(tmp_path / "out")
    assert (line["text"], line["style"], line["author"], line["state"]) == ("1. go", "plan", "qwen", "source")
    assert report.segments == {"written": {"source": 1}, "held_back": {"no text": 1, "ungraded": 1}}


def test_a_rate_is_refused_and_a_file_that_is_gone_fails_its_episode(
    empty_workspace: Workspace, make_record: MakeRecord, make_set: MakeSet, tmp_path: Path, front_camera: Any
) -> None:
    from dataclasses import replace

    gone = replace(front_camera, media=replace(front_camera.media, uri=str(tmp_path / "gone.mp4")))
    make_set(empty_workspace, [make_record(0, cameras=(gone,)), make_record(1)])
    made = [segment(PERSON, f"{number:016x}", (0.0, 1.0), {"text": "grasp"}) for number in range(2)]
    append(empty_workspace, [PERSON], made)
    report = export(empty_workspace, tmp_path / "out")
    assert (report.failed, report.segments) == (1, {"written": {"person": 1}})
    with pytest.raises(RequestError, match="jsonl has spans of the source and no steps"):
        export(empty_workspace, tmp_path / "retimed", fps=10.0)
    assert not (tmp_path / "retimed").exists()


def test_texts_of_a_file_of_spans_go_out_but_for_those_by_a_model(ws: Workspace, tmp_path: Path) -> None:
    stated = Producer(annotator="spans", version="1", fills_segments=True)
    authors = {"reach": "person", "grasp": "", "lift": "some/model-7b"}
    append(
        ws,
        [stated],
        [
            segment(stated, FIRST, span, {"text": text, "style": "subtask", "author": author})
            for (text, author), span in zip(authors.items(), _SPANS, strict=False)
        ],
    )
    report = export(ws, tmp_path / "out")
    assert [(line["text"], line["state"]) for line in lines(tmp_path / "out")] == [
        ("reach", "person"),
        ("grasp", "source"),
    ]
    assert report.segments == {"written": {"person": 1, "source": 1}, "held_back": {"ungraded": 1}}


def test_an_unknown_choice_of_segments_is_refused_with_those_there_are() -> None:
    from ares.export.segments import NO_SEGMENTS, SEGMENT_CHOICES, check_segment_choices

    some = tuple(name for name in SEGMENT_CHOICES if name != NO_SEGMENTS)
    for names in ((), some, (NO_SEGMENTS,)):
        assert check_segment_choices(names) == names
    with pytest.raises(RequestError) as unknown:
        check_segment_choices([*some, "all of them"])
    assert (unknown.value.reason, unknown.value.detail) == (
        "no segments 'all of them'", f"there are: {', '.join(SEGMENT_CHOICES)}",
    )  # fmt: skip
    with pytest.raises(RequestError) as both:
        check_segment_choices([NO_SEGMENTS, some[0]])
    assert both.value.detail == f"got {NO_SEGMENTS}, {some[0]}"
