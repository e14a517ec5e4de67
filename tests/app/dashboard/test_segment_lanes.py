"""Lanes of segments: what shares one, how spans that overlap are stacked, and how little thousands of them are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.dashboard.annotation_rows import (
    make_segment_lanes,
    read_annotations,
    read_segments,
    stack_spans,
)
from ares.annotation import Producer
from ares.episode import Episode
from ares.workspace import Workspace
from tests.app.contested_producers import OTHER_CAPTIONER
from tests.app.segment_lanes import make_segments

PERSON, SIGNALS = (
    Producer(annotator="source_subtask", version="1"),
    Producer(annotator="segment", version="2"),
)
PRODUCERS = {producer.maker_id: producer for producer in (PERSON, SIGNALS)}


def _segment(start: float, stop: float, text: str = "", **fields: str) -> dict[str, Any]:
    given = {
        "annotator": "source_subtask",
        "style": "subtask",
        "maker": PERSON.maker_id,
        "author": "",
        "grade": "",
    }
    return {"id": "a1", "start": start, "stop": stop, "text": text, **given, **fields}


def _lanes(segments: list[dict[str, Any]], duration: float = 10.0) -> Any:
    return make_segment_lanes(segments, duration, PRODUCERS)


def test_a_lane_is_an_annotator_with_its_style_and_producer_and_subtasks_are_beside_each_other() -> None:
    own = {"annotator": "segment", "maker": SIGNALS.maker_id}
    lanes = _lanes([
        _segment(0, 1, "is it open?", annotator="source_vqa", style="vqa"),
        _segment(0, 4, "reach", author="person"),
        _segment(1, 4, "reach", author="qwen"),
        _segment(1, 4, "ajar", annotator="caption", style="", grade="not_acceptable"),
        _segment(2, 9, **own),
        _segment(2, 9, **{**own, "maker": "unknown"}),
        _segment(2, 9, **{**own, "style": "never seen"}),
    ])["lanes"]  # fmt: skip
    subtasks = ["subtask, of the source", "segment: subtask", "segment: subtask"]
    rest = ["caption", "segment: never seen", "vqa, of the source"]
    assert [lane["label"] for lane in lanes] == [*subtasks, *rest]
    assert lanes[0]["about"] == "made by source subtask, version 1, written by person, qwen"
    assert {lane["about"] for lane in lanes[1:3]} == {
        "made by segment, version 2",
        "made by an unknown producer",
    }
    assert lanes[0]["texts"] == [["reach", "person", ""], ["reach", "qwen", ""]]
    assert lanes[3]["texts"] == [["ajar", "", "not_acceptable"]]
    assert lanes[3]["spans"] == [[1, 4, 0, 0, "a1"]]


def test_a_caption_of_the_whole_episode_is_no_lane_and_a_plan_of_it_is() -> None:
    whole = [
        _segment(0, 10, "open it", annotator=name, style=style)
        for name, style in (("caption", ""), ("x", "plan"))
    ]
    assert [lane["label"] for lane in _lanes(whole)["lanes"]] == ["x: plan"]


@pytest.mark.parametrize(
    ("spans", "rows", "crowded"),
    [
        ([(0, 1), (1, 2), (2, 2), (2, 3)], [0, 0, 0, 1], 0),
        ([(0, 9), (1, 3), (2, 3), (3, 4), (9, 9)], [0, 1, 2, 1, 0], 0),
        ([(0, 9), (0, 9), (0, 9), (0, 9), (1, 2)], [0, 1, 2, 2, 2], 2),
        ([(5, 5), (5, 5)], [0, 1], 0),
        ([], [], 0),
    ],
)
def test_spans_that_overlap_are_stacked_and_what_is_too_much_is_counted(
    spans: list[tuple[float, float]], rows: list[int], crowded: int
) -> None:
    assert stack_spans(spans, 3) == (rows, crowded)


def test_thousands_of_long_texts_in_hundreds_of_lanes_are_less_than_a_megabyte() -> None:
    segments = [
        _segment(
            number / 1000, number / 1000 + 0.5, f"{number} {'word ' * 400}", style=f"style {number % 100:02}"
        )
        for number in range(10_000)
    ]
    data = _lanes(segments)
    assert len(json.dumps(data)) < 1_000_000
    assert len(data["lanes"]) == 60 and len(data["more"]) == 40
    (text, _, _), *_ = data["lanes"][0]["texts"]
    assert text.startswith("0 word") and text.endswith("…")
    few = _lanes(segments[:3])["lanes"]
    assert few[0]["texts"][0][0] == f"0 {'word ' * 400}"[:1999] + "…"


def test_captions_of_segments_are_listed_by_time_after_those_of_the_episode(contested: Workspace) -> None:
    episode = min(contested.stores.tables.episodes.read(), key=lambda episode: episode.key)
    before = [caption["text"] for caption in _captions(contested, episode)]
    spans = [(2.0, 3.0, "third"), (0.0, 1.0, "first"), (1.0, 2.0, "second")]
    contested.stores.annotations.append(make_segments(episode, OTHER_CAPTIONER, "", *spans))
    contested.sync()
    after = [caption["text"] for caption in _captions(contested, episode)]
    assert after == [*before, "first", "second", "third"]


def _captions(opened: Workspace, episode: Episode) -> list[Any]:
    return read_annotations(opened.stores, episode, read_segments(opened.stores, episode)).captions
