"""What is read of a reply about a window, and how windows that overlap become one timeline."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from ares_annotators.segment.model import plan_windows
from ares_annotators.segment.timeline import (
    ModelArm,
    ModelBoundary,
    Window,
    align_times,
    name_spans,
    read_window_reply,
    stitch_windows,
)

_WINDOW = Window(
    start=20.0,
    stop=50.0,
    seconds=tuple(20.0 + 0.5 * n for n in range(60)),
    step=0.5,
    is_first=False,
    is_last=False,
)


def _span(start: float, end: float, what: str, arm: str = "") -> dict[str, Any]:
    return {"start": start, "end": end, "arm": arm, "what": what}


def _reply(*spans: dict[str, Any]) -> str:
    return json.dumps({"spans": spans})


def _changes(arm: ModelArm) -> list[tuple[float, str]]:
    return [(own.seconds, own.text) for own in arm.boundaries]


def test_starts_and_ends_of_spans_are_changes_and_the_edges_of_a_window_are_none() -> None:
    read = read_window_reply(
        _reply(_span(20.0, 26, "open the drawer"), _span(26.2, 31, "pick up the cup"), _span(35, 50, "pour")),
        _WINDOW,
    )
    assert not isinstance(read, str)
    (arm,) = read.arms.values()
    assert arm.opening == "open the drawer"
    assert _changes(arm) == [(26.2, "pick up the cup"), (31.0, ""), (35.0, "pour")]


def test_each_arm_has_changes_of_its_own() -> None:
    read = read_window_reply(
        _reply(_span(22, 40, "hold the box", "left"), _span(25, 30, "open the lid", "right")), _WINDOW
    )
    assert not isinstance(read, str)
    assert _changes(read.arms["left"]) == [(22.0, "hold the box"), (40.0, "")]
    assert _changes(read.arms["right"]) == [(25.0, "open the lid"), (30.0, "")]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "reply is no JSON"),
        ("Sure, here it is.", "reply is no JSON"),
        (_reply(_span(21, 23, "pick"))[:-9], "reply is no JSON"),
        ('{"spans": 3}', "reply is off the menu"),
        ('{"spans": [{"start": 1e999, "end": 3, "what": "x"}]}', "reply is off the menu"),
        (_reply(_span(30, 25, "pick")), "a span ends before it starts"),
        (_reply(_span(21, 30, "pick"), _span(25, 35, "place")), "spans of one arm overlap"),
        (_reply(_span(21, 49, "pick"), _span(22, 23, "place"), _span(30, 35, "pour")), "spans of one arm overlap"),
        (_reply(_span(2, 25, "pick")), "a span lies outside the frames"),
        (_reply(_span(30, 5000, "pick")), "a span lies outside the frames"),
        ('{"spans": [' + ",".join([json.dumps(_span(21, 21, "x"))] * 1_000_000) + "]}", "reply is too long"),
        (_reply(*[_span(21, 21, "x")] * 201), "reply is off the menu"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)  # fmt: skip
def test_a_reply_of_another_form_is_named(reply: str, problem: str) -> None:
    assert read_window_reply(reply, _WINDOW) == problem


@pytest.mark.parametrize(
    "reply",
    [
        "Here it is:\n```json\n" + _reply(_span(21, 23, "pick")) + "\n```\nAnything else?",
        '{"spans": [{"start": 21, "end": 23, "what": "pick"}]}',
        # Half a second too long, and half a second of overlap, are within the step of the frames.
        _reply(_span(21, 23.4, "pick"), _span(23.0, 50.4, "")),
    ],
)
def test_words_around_a_reply_and_times_off_by_a_step_do_no_harm(reply: str) -> None:
    read = read_window_reply(reply, _WINDOW)
    assert not isinstance(read, str)
    assert _changes(read.arms[""])[0] == (21.0, "pick")


def test_an_instant_lasts_until_the_next_change_and_nothing_at_all_is_an_answer() -> None:
    read = read_window_reply(_reply(_span(25, 25, "press the button"), _span(30, 40, "pour")), _WINDOW)
    assert not isinstance(read, str)
    assert _changes(read.arms[""]) == [(25.0, "press the button"), (30.0, "pour"), (40.0, "")]
    nothing = read_window_reply(_reply(), _WINDOW)
    assert not isinstance(nothing, str) and nothing.arms == {}
    assert stitch_windows([nothing]) == [ModelArm(arm="")]


def _read(spans: Sequence[dict[str, Any]], window: Window) -> Any:
    read = read_window_reply(_reply(*spans), window)
    assert not isinstance(read, str), read
    return read


def _two_windows() -> tuple[Window, Window]:
    first, second = plan_windows(999, 20.0, 50.0)
    assert (first.start, second.stop) == (0.0, 50.0) and second.start < 24 and first.stop > 26
    return first, second


def test_an_event_that_both_windows_show_is_kept_once_and_one_that_either_tells_is_kept() -> None:
    first, second = _two_windows()
    one = _read([_span(0, 24.2, "open"), _span(24.2, 25.6, "pick"), _span(25.6, first.stop, "place")], first)
    two = _read(
        [_span(second.start, 24.5, "open"), _span(24.5, 26.0, "pick"), _span(26.0, 50, "place")], second
    )
    (arm,) = stitch_windows([one, two])
    assert [text for _, text in _changes(arm)] == ["pick", "place"]
    assert len({own.confidence for own in arm.boundaries}) == 1
    blind = _read([_span(second.start, 50, "place")], second)
    (arm,) = stitch_windows([one, blind])
    assert _changes(arm) == [(24.2, "pick"), (25.6, "place")]
    # Less sure, as the other window shows the place and tells of nothing.
    assert all(own.confidence < 0.5 for own in arm.boundaries)


def test_repeated_picks_at_a_seam_are_not_taken_for_one() -> None:
    first, second = _two_windows()
    picks = [(23.5, 24.4), (24.4, 25.4), (25.4, 26.3)]
    one = _read([_span(start, end, "pick up the cup") for start, end in picks], first)
    two = _read([_span(start + 0.2, end + 0.2, "pick up the cup") for start, end in picks], second)
    (arm,) = stitch_windows([one, two])
    assert [text for _, text in _changes(arm)] == ["pick up the cup"] * 3 + [""]


def test_windows_that_disagree_on_rest_and_work_have_a_change_between_them() -> None:
    first, second = _two_windows()
    (arm,) = stitch_windows([_read([], first), _read([_span(second.start, 50, "wipe")], second)])
    ((seconds, text),) = _changes(arm)
    assert second.start < seconds < first.stop and text == "wipe"


@pytest.mark.parametrize("rate_hz", [1.0, 5.0, 12.5, 50.0])
@pytest.mark.parametrize("seconds", [0.5, 29.0, 31.0, 300.0])
def test_windows_cover_an_episode_with_at_most_60_frames_each_and_share_frames(
    rate_hz: float, seconds: float
) -> None:
    frames = max(1, round(seconds * rate_hz))
    windows = plan_windows(frames - 1, rate_hz, seconds)
    assert windows[0].start == 0.0 and windows[-1].stop == seconds
    assert all(len(window.seconds) <= 60 for window in windows)
    for earlier, later in pairwise(windows):
        assert len(set(earlier.seconds) & set(later.seconds)) >= 8
        assert later.start < earlier.stop
    shown = sorted({second for window in windows for second in window.seconds})
    widest = max((after - before for before, after in pairwise(shown)), default=0.0)
    assert widest <= max(0.65, 1.5 / rate_hz + 1e-6)


def test_alignment_is_the_cheapest_of_all() -> None:
    dice = random.Random(1)
    for _ in range(200):
        first = sorted(dice.uniform(0, 4) for _ in range(dice.randrange(5)))
        second = sorted(dice.uniform(0, 4) for _ in range(dice.randrange(5)))
        pairs = align_times(first, second, lambda row, column: 0.5)
        alone = len(first) + len(second) - 2 * len(pairs)
        cost = sum(abs(first[row] - second[column]) / 0.5 for row, column in pairs) + alone / 2
        assert cost == pytest.approx(_least_cost(first, second), abs=0.01)
        assert pairs == sorted(pairs) and all(
            abs(first[row] - second[column]) <= 0.5 for row, column in pairs
        )


def _least_cost(first: Sequence[float], second: Sequence[float]) -> float:
    if not first or not second:
        return (len(first) + len(second)) / 2
    best = 0.5 + min(_least_cost(first[1:], second), _least_cost(first, second[1:]))
    distance = abs(first[0] - second[0]) / 0.5
    return min(best, distance + _least_cost(first[1:], second[1:])) if distance <= 1 else best


def test_the_spans_of_a_timeline_cover_the_episode_once_for_each_arm_with_what_is_done() -> None:
    change = ModelBoundary(seconds=4.8, text="grasp", arm="left")
    left = ModelArm(arm="left", opening="reach", boundaries=(change,))
    spans = name_spans([left, ModelArm(arm="right")], 12.0)
    assert [(own.arm, own.start_seconds, own.stop_seconds, own.text) for own in spans] == [
        ("left", 0.0, 4.8, "reach"),
        ("left", 4.8, 12.0, "grasp"),
        ("right", 0.0, 12.0, ""),
    ]
    assert [own.boundary.source for own in spans] == ["start", "model", "start"]
