"""What a first quote says of controls: they are those that a run draws, and each false one takes a choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from annotators.base import Subject, Work
from annotators.grade import load_rubric
from annotators.grade.control_calls import expect_control_calls
from annotators.grade.control_plan import ControlPlan, DatasetControls
from annotators.grade.rates import CallTotals, ControlCalls, RunQuote
from ares.annotation import Annotation
from ares.episode import Episode
from ares.rubric import KnownText
from ares.workspace import Workspace
from tests.annotators.judge_replies import DRAWER

TEXTS = [
    KnownText(
        "open the red box", {"action": "open", "object": "box", "attributes": "red", "outcome": "completed"}
    ),
    KnownText(
        "wipe the blue lid", {"action": "wipe", "object": "lid", "attributes": "blue", "outcome": "completed"}
    ),
]


@pytest.fixture
def subject(
    work_for: Callable[..., Work], episodes: dict[str, Episode], caption_of: Callable[..., Annotation]
) -> Subject:
    """A caption of a closing drawer whose episode has no recorded outcome."""
    episode = replace(episodes["drawer-close_000"], success=None)
    return work_for(episode, [], caption_of(episode, "close the green drawer", slots=DRAWER)).subject


def _plan(subject: Subject) -> ControlPlan:
    own = DatasetControls(episodes=1, calibrates=True, texts=TEXTS)
    return ControlPlan(datasets={subject.episode.dataset: own})


def test_each_false_control_takes_a_choice_and_each_segment_one_observation_more(subject: Subject) -> None:
    calls = expect_control_calls(_plan(subject), [subject], load_rubric("caption"), slot_by_slot=True)
    # Equal choices are asked once; grey frames are the same everywhere.
    assert calls.observations == 1
    assert 0 < calls.choices < calls.controls - 2
    assert (
        expect_control_calls(ControlPlan(), [subject], load_rubric("caption"), slot_by_slot=True).controls
        == 0
    )


def test_what_the_label_refutes_costs_nothing(subject: Subject) -> None:
    failed = replace(subject, episode=replace(subject.episode, success=False))
    calls = expect_control_calls(_plan(failed), [failed], load_rubric("caption"), slot_by_slot=True)
    open_calls = expect_control_calls(_plan(subject), [subject], load_rubric("caption"), slot_by_slot=True)
    assert calls.choices < open_calls.choices


def test_controls_that_were_measured_are_quoted_as_measured(subject: Subject, ws: Workspace) -> None:
    class Expectation:
        def expect_calls(self, subject: Subject) -> dict[str, CallTotals]:
            return {"choice": CallTotals(0.5, 500, 10), "observation": CallTotals(1, 2_000, 200)}

        def count_open_observations(self, subject: Subject) -> int:
            return 0

    quote = RunQuote(ws.stores, Expectation(), "maker")  # type: ignore[arg-type]
    quote.add_controls(subject, ControlCalls(controls=20, observations=1, choices=10, comparisons=2))
    assert quote.total.calls == 11, "ten choices and one observation; it compares nothing"
    assert quote.total.tokens_in == 10 * 1_000 + 2_000
