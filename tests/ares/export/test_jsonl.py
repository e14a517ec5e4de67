"""Segments as JSON lines: spans, texts, their origin, and frames by reference; and the gate of every format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Producer
from ares.errors import RequestError
from ares.export import ExportReport
from ares.media import frames_at
from ares.workspace import Workspace
from tests.ares.export.made_episodes import FRONT, make_record, make_set, read_json
from tests.ares.export.segments import (
    CAPTIONER,
    JUDGE,
    PERSON,
    SEGMENTER,
    append,
    grade,
    refute_judge,
    segment,
    source_producer,
)

FIRST = f"{0:016x}"
_SPANS = [(number / 4, (number + 1) / 4) for number in range(8)]


@pytest.fixture
def filled(ws: Workspace) -> Workspace:
    """Two episodes of a video of 107 steps at 20 Hz, as the set "made"."""
    make_set(ws, [make_record(number) for number in range(2)])
    return ws


def export(workspace: Workspace, folder: Path, segments: Sequence[str] = (), **options: Any) -> ExportReport:
    report: ExportReport = workspace.export(
        "made", folder, format="jsonl", segments=segments, quiet=True, **options
    )
    return report


def put_graded(filled: Workspace, verdicts: dict[str, str]) -> None:
    """A text of a model for each text, with a grade of these verdicts, "" for none."""
    captions = {
        text: segment(CAPTIONER, FIRST, span, {"text": text})
        for text, span in zip(verdicts, _SPANS, strict=False)
    }
    append(filled, [CAPTIONER, JUDGE], list(captions.values()))
    append(filled, [], [grade(captions[text], own) for text, own in verdicts.items() if own])


def test_a_line_names_span_text_author_and_frames(filled: Workspace, tmp_path: Path) -> None:
    value: dict[str, Any] = {
        "text": "grasp – ü",
        "arm": "left",
        "slots": {"action": "grasp", "object": "ball"},
    }
    append(filled, [PERSON], [segment(PERSON, FIRST, (1.0, 2.5), value)])
    report = export(filled, tmp_path / "out")
    [line] = read_json(tmp_path / "out" / "segments.jsonl")
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
    assert (frames["camera"], frames["uri"]) == ("front", FRONT.media.uri)
    assert (frames["start_seconds"], frames["stop_seconds"], frames["rate_hz"]) == (1.0, 2.5, 20.0)
    assert frames_at(FRONT.media, [frames["start_seconds"]])[0].shape == (192, 192, 3)
    assert (report.episodes, report.frames, report.segments) == (2, 214, {"written": {"person": 1}})
    assert read_json(tmp_path / "out" / "manifest.json")["format"] == "jsonl"


def test_frames_of_a_shared_video_are_where_its_episode_begins(ws: Workspace, tmp_path: Path) -> None:
    from dataclasses import replace

    media = replace(FRONT.media, start_seconds=2.0, num_frames=40, stop_seconds=4.0)
    record = make_record(0, steps=40, cameras=(replace(FRONT, media=media),))
    make_set(ws, [record])
    spans = ((0.5, 1.0), (1.5, 2.5))  # the second ends after the video
    append(ws, [PERSON], [segment(PERSON, FIRST, span, {"text": "grasp"}) for span in spans])
    export(ws, tmp_path / "out")
    frames = [line["frames"][0] for line in read_json(tmp_path / "out" / "segments.jsonl")]
    assert [(own["start_seconds"], own["stop_seconds"]) for own in frames] == [(2.5, 3.0), (3.5, 4.0)]


def test_only_text_that_a_judge_accepts_goes_out_of_models(filled: Workspace, tmp_path: Path) -> None:
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
    put_graded(filled, verdicts)
    report = export(filled, tmp_path / "out")
    assert [line["text"] for line in read_json(tmp_path / "out" / "segments.jsonl")] == ["right", "alone"]
    assert read_json(tmp_path / "out" / "segments.jsonl")[0]["grade"]["grade_verdicts"] == verdicts["right"]
    assert report.segments == {
        "written": {"accepted": 2},
        "held_back": {"refused": 2, "ungraded": 2, "unsure": 1},
    }


def test_a_refuted_judge_lets_nothing_out_that_is_not_asked_for(filled: Workspace, tmp_path: Path) -> None:
    put_graded(filled, {"right": "ACTION=MET SEG=MET", "by a person": "ACTION=MET(person) SEG=MET(person)"})
    refute_judge(filled)
    report = export(filled, tmp_path / "out")
    assert [line["text"] for line in read_json(tmp_path / "out" / "segments.jsonl")] == ["by a person"]
    assert report.segments == {"written": {"accepted": 1}, "held_back": {"refuted": 1}}
    assert export(filled, tmp_path / "all", refuted=True).segments == {
        "written": {"accepted": 1, "refuted": 1}
    }
    right, _ = read_json(tmp_path / "all" / "segments.jsonl")
    assert (right["state"], right["grade"]["grade_refuted"]) == ("refuted", True)


def test_text_that_is_asked_for_by_name_goes_out(filled: Workspace, tmp_path: Path) -> None:
    put_graded(filled, {"right": "ACTION=MET SEG=MET", "wrong": "ACTION=UNMET SEG=MET", "new": ""})
    report = export(filled, tmp_path / "out", ["ungraded"])
    assert {line["text"]: line["state"] for line in read_json(tmp_path / "out" / "segments.jsonl")} == {
        "right": "accepted",
        "new": "ungraded",
    }
    assert report.segments["held_back"] == {"refused": 1}
    assert (
        export(filled, tmp_path / "none", ["none"]).segments == {}
        and read_json(tmp_path / "none" / "segments.jsonl") == []
    )
    with pytest.raises(RequestError, match="no segments 'unknown'"):
        export(filled, tmp_path / "wrong", ["unknown"])
    with pytest.raises(RequestError, match="'none' or some, not both"):
        export(filled, tmp_path / "wrong", ["none", "refused"])


def test_texts_of_sources_and_spans_without_text(filled: Workspace, tmp_path: Path) -> None:
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
    append(filled, [captioner, source, SEGMENTER], made)
    report = export(filled, tmp_path / "out")
    [line] = read_json(tmp_path / "out" / "segments.jsonl")
    assert (line["text"], line["style"], line["author"], line["state"]) == ("1. go", "plan", "qwen", "source")
    assert report.segments == {"written": {"source": 1}, "held_back": {"no text": 1, "ungraded": 1}}


def test_a_rate_is_refused_and_a_file_that_is_gone_fails_its_episode(ws: Workspace, tmp_path: Path) -> None:
    from dataclasses import replace

    gone = replace(FRONT, media=replace(FRONT.media, uri=str(tmp_path / "gone.mp4")))
    make_set(ws, [make_record(0, cameras=(gone,)), make_record(1)])
    made = [segment(PERSON, f"{number:016x}", (0.0, 1.0), {"text": "grasp"}) for number in range(2)]
    append(ws, [PERSON], made)
    report = export(ws, tmp_path / "out")
    assert (report.failed, report.segments) == (1, {"written": {"person": 1}})
    with pytest.raises(RequestError, match="jsonl has spans of the source and no steps"):
        export(ws, tmp_path / "retimed", fps=10.0)
    assert not (tmp_path / "retimed").exists()


def test_texts_of_a_file_of_spans_go_out_but_for_those_by_a_model(filled: Workspace, tmp_path: Path) -> None:
    stated = Producer(annotator="spans", version="1", fills_segments=True)
    authors = {"reach": "person", "grasp": "", "lift": "some/model-7b"}
    append(
        filled,
        [stated],
        [
            segment(stated, FIRST, span, {"text": text, "style": "subtask", "author": author})
            for (text, author), span in zip(authors.items(), _SPANS, strict=False)
        ],
    )
    report = export(filled, tmp_path / "out")
    assert [(line["text"], line["state"]) for line in read_json(tmp_path / "out" / "segments.jsonl")] == [
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
        "no segments 'all of them'",
        f"there are: {', '.join(SEGMENT_CHOICES)}; `refuted` takes those of a refuted judge",
    )
    with pytest.raises(RequestError) as both:
        check_segment_choices([NO_SEGMENTS, some[0]])
    assert both.value.detail == f"got {NO_SEGMENTS}, {some[0]}"
