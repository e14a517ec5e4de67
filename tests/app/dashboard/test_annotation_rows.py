"""The page says once what several rulings rest on, and of each ruling only what is its own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from annotators.motion import find_gripper_events
from annotators.motion.annotator import measure_motion
from app.dashboard.annotation_rows import (
    group_rulings,
    make_segment_lanes,
    read_annotations,
    read_segments,
    stack_spans,
)
from app.dashboard.timeline_ticks import is_evenly_sampled, make_gripper_ticks, make_ruling_ticks
from ares.annotation import Producer
from ares.episode import Episode, Signal, Trajectory
from ares.signals import classify_by_name
from ares.workspace import Workspace
from tests.app.contested_producers import OTHER_CAPTIONER
from tests.app.segment_lanes import make_segments

SAW = "push the green drawer closed"


def _ruling(criterion: str, verdict: str, source: str, **values: Any) -> dict[str, Any]:
    return {"criterion": criterion, "category": "essential", "verdict": verdict, "source": source, **values}


def _probe(criterion: str, verdict: str = "MET", reason: str = "what was seen fits the caption") -> Any:
    return _ruling(criterion, verdict, "probe", observed=SAW, evidence=[0.5, 1.5], reason=reason)


def test_what_several_rulings_rest_on_is_said_once() -> None:
    outcome = _ruling(
        "OUTCOME", "UNSURE", "probe", observed="failed to push", evidence=[5.0], reason="too close to call"
    )
    rulings = [
        _probe("VERB"),
        _probe("OBJECT"),
        outcome,
        _probe("COLOUR", "UNMET", "something else was seen"),
    ]
    groups: Any = group_rulings(rulings)
    seen, own = groups
    assert (seen["observed"], seen["seconds"]) == (SAW, [0.5, 1.5])
    assert seen["reasons"] == ["met: what was seen fits the caption"]
    members = seen["rulings"]
    assert [member["criterion"] for member in members] == ["VERB", "OBJECT", "COLOUR"]
    assert [(member["observed"], member["seconds"]) for member in members] == [("", [])] * 3
    assert [member["reason"] for member in members] == ["", "", "something else was seen"]
    alone = own["rulings"]
    assert (own["observed"], own["seconds"], own["reasons"]) == ("", [], [])
    assert (alone[0]["observed"], alone[0]["seconds"], alone[0]["reason"]) == (
        "failed to push", [5.0], "too close to call",
    )  # fmt: skip


def test_each_claim_keeps_its_own_observation_and_no_ruling_is_lost() -> None:
    claims = [
        _ruling(name, "MET", "claim", observed=f"saw {name}", evidence=[1.0], reason="judged by the frames")
        for name in ("VERB", "OBJECT")
    ]
    code = [_ruling(name, "NA", "hard", reason="caption does not say") for name in ("SOURCE", "MANNER")]
    groups: Any = group_rulings([*claims, *code, {"verdict": "ERROR"}])
    assert [group["source"] for group in groups] == [
        "asked about the caption, with the frames (an older judge)",
        "",
        "checked by code",
    ]
    assert [member["observed"] for member in groups[0]["rulings"]] == ["saw VERB", "saw OBJECT"]
    assert groups[0]["reasons"] == ["met: judged by the frames"]
    assert groups[2]["reasons"] == ["does not apply: caption does not say"]
    assert [member["reason"] for member in groups[2]["rulings"]] == ["", ""]
    assert groups[1]["rulings"][0]["verdict"] == "ERROR"


def test_the_votes_of_a_panel_are_shown_where_its_judges_differ() -> None:
    def panel(criterion: str, *verdicts: str) -> dict[str, Any]:
        votes = [_ruling(criterion, name, "claim", judge=name.lower(), evidence=[2.0]) for name in verdicts]
        return _ruling(criterion, verdicts[0], "panel", votes=votes, reason="votes")

    groups: Any = group_rulings([panel("VERB", "MET", "MET"), panel("OBJECT", "MET", "ERROR")])
    agreed, split = groups[0]["rulings"]
    assert agreed["votes"] == []
    assert [(vote["judge"], vote["verdict"], vote["seconds"]) for vote in split["votes"]] == [
        ("met", "MET", [2.0]),
        ("error", "ERROR", [2.0]),
    ]


def test_the_timeline_names_every_criterion_that_rests_on_a_second() -> None:
    groups = group_rulings([_probe("VERB"), _probe("OBJECT", "UNMET", "something else was seen")])
    caption = {"grades": [{"groups": groups}]}
    assert [(tick["seconds"], tick["label"]) for tick in make_ruling_ticks([caption], 8.0)] == [
        (second, "VERB MET, OBJECT UNMET") for second in (0.5, 1.5)
    ]


def test_what_was_seen_first_is_said_once_and_a_contested_claim_says_why_it_was_asked() -> None:
    seen = {"observed": "open the drawer", "evidence": [1.0], "reason": "the observation says the same"}
    agreed = [_ruling(name, "MET", "observation", **seen) for name in ("VERB", "OBJECT")]
    contested = {"contested": "not visible in the observation", "reason": "judged by the frames cited"}
    asked = _ruling(
        "OUTCOME", "UNMET", "claim", observed="it is shut", claimed="completed", evidence=[2.0], **contested
    )
    groups: Any = group_rulings([*agreed, asked])
    first, second = groups
    assert first["source"] == "seen before anything was known of the caption"
    assert (first["observed"], first["reasons"]) == (
        "open the drawer",
        ["met: the observation says the same"],
    )
    assert [ruling["reason"] for ruling in first["rulings"]] == ["", ""]
    (ruling,) = second["rulings"]
    assert ruling["reason"] == "not visible in the observation; judged by the frames cited"
    assert (ruling["claimed"], first["rulings"][0]["claimed"]) == ("completed", "")


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


def _caption(*rulings: tuple[str, str, list[float]]) -> dict[str, object]:
    listed = [
        {"criterion": name, "verdict": verdict, "seconds": seconds} for name, verdict, seconds in rulings
    ]
    older = {"seconds": [], "rulings": [{"criterion": "VERB", "verdict": "MET", "seconds": [9.0]}]}
    return {"grades": [{"groups": []}, {"groups": [{"seconds": [], "rulings": listed}]}, {"groups": [older]}]}


def test_moments_of_rulings_are_ticks_with_their_criteria_and_a_sampling_grid_is_none() -> None:
    grid = [0.25 + 0.5 * number for number in range(8)]
    ticks = make_ruling_ticks(
        [_caption(("VERB", "MET", [1.0, 3.0]), ("OBJECT", "MET", grid), ("END", "UNMET", [3.0]))], 4
    )
    assert [(tick["seconds"], tick["label"]) for tick in ticks] == [
        (1.0, "VERB MET"),
        (3.0, "VERB MET, END UNMET"),
    ]
    assert {tick["kind"] for tick in ticks} == {"evidence"}
    assert make_ruling_ticks([], 4) == []


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [([0, 1, 2, 3], True), ([0.0, 1.01, 2.0, 3.0], True), ([0, 1, 2], False), ([0, 0.1, 2, 3], False),
     ([0, 0.3, 0.6, 0.9], False)],
)  # fmt: skip
def test_evenly_spaced_seconds_over_most_of_the_episode_are_a_grid(
    seconds: list[float], expected: bool
) -> None:
    assert is_evenly_sampled(seconds, 4.0) is expected
