"""What an episode's page draws on its clock: lanes of segments, events, and seconds of evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ares.annotation import Producer
from ares.episode import Signal, Trajectory
from ares.signals import classify_by_name
from ares.workspace import Workspace
from ares_annotators.motion import find_gripper_events
from ares_annotators.motion.measures import measure_motion
from ares_app.dashboard.annotation_rows import make_segment_lanes, stack_spans
from ares_app.dashboard.timeline_ticks import (
    find_likely_failure,
    is_evenly_sampled,
    make_gripper_ticks,
    make_ruling_ticks,
    make_timeline_ticks,
)

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


RATE_HZ = 20.0


def _trajectory(gripper: np.ndarray[tuple[int], np.dtype[np.float32]]) -> Trajectory:
    steps = len(gripper)
    joints = np.random.default_rng(0).normal(size=(steps, 2)).cumsum(axis=0).astype(np.float32)
    values = np.concatenate([joints, gripper[:, None]], axis=1).astype(np.float32)
    state = Signal(values=values, names=("shoulder", "elbow", "gripper"))
    return Trajectory(timestamps=np.arange(steps) / RATE_HZ, state=state, action=None, reward=None)


def _opening(changes: list[int], steps: int = 200) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """1 where closed, with noise; it changes at the steps."""
    closed = np.searchsorted(changes, np.arange(steps), side="right") % 2
    noise = np.random.default_rng(1).normal(scale=0.02, size=steps)
    return np.asarray(closed + noise, dtype=np.float32)


@pytest.mark.parametrize("changes", [[40, 120], [30, 51, 90, 150]])
def test_each_change_of_the_gripper_is_a_tick_at_its_second(changes: list[int]) -> None:
    trajectory = _trajectory(_opening(changes))
    ticks = make_gripper_ticks(trajectory, None)
    assert [tick["seconds"] for tick in ticks] == [step / RATE_HZ for step in changes]
    assert {tick["kind"] for tick in ticks} <= {"changes"}
    directions = [str(tick["label"]).split()[-1] for tick in ticks]
    assert directions == ["rises", "falls"][: len(changes)] * (len(changes) // 2)


def test_the_ticks_are_those_that_the_annotator_counts() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        walk = rng.normal(size=300).cumsum().astype(np.float32)
        trajectory = _trajectory(walk)
        assert trajectory.state is not None
        events = find_gripper_events(trajectory.state, classify_by_name(trajectory.state.names), "gripper")
        assert len(events) == measure_motion(trajectory)["gripper_events"]


def test_a_failed_episode_is_opened_where_a_person_took_over_else_at_the_last_event_or_the_end(
    displayed: Workspace,
) -> None:
    (episode, *_) = displayed.stores.tables.episodes.read("dataset = 'video'")
    still = replace(_trajectory(_opening([])), state=None)
    changing = _trajectory(_opening([40, 120]))
    helped = [{"style": "intervention", "start": 60 / RATE_HZ, "stop": 90 / RATE_HZ}]
    opened = [
        find_likely_failure(make_timeline_ticks(displayed.stores, episode, trajectory, segments, None))
        for trajectory, segments in ((still, []), (changing, []), (changing, helped))
    ]
    assert opened == [episode.duration_seconds, 120 / RATE_HZ, 60 / RATE_HZ]


def test_moments_of_rulings_are_ticks_with_their_criteria_and_a_sampling_grid_is_none() -> None:
    grid = [0.25 + 0.5 * number for number in range(8)]
    rulings = [("VERB", "MET", [1.0, 3.0]), ("OBJECT", "MET", grid), ("END", "UNMET", [3.0])]
    criteria = [{"id": name, "verdict": verdict, "seconds": seconds} for name, verdict, seconds in rulings]
    ticks = make_ruling_ticks({"criteria": criteria}, 4)
    assert [(tick["seconds"], tick["label"]) for tick in ticks] == [
        (1.0, "verb"),
        (3.0, "verb, end"),
    ]
    assert {tick["kind"] for tick in ticks} == {"evidence"}
    assert make_ruling_ticks(None, 4) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([0, 1, 2, 3], True), ([0.0, 1.01, 2.0, 3.0], True), ([0, 1, 2], False), ([0, 0.1, 2, 3], False),
     ([0, 0.3, 0.6, 0.9], False)],
)  # fmt: skip
def test_evenly_spaced_seconds_over_most_of_the_episode_are_a_grid(
    seconds: list[float], expected: bool
) -> None:
    assert is_evenly_sampled(seconds, 4.0) is expected
