"""Controls: what is wrong in each, which frames show nothing of what was filmed, and which criteria are gates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from annotators.grade.control_plan import (
    ControlPlan,
    DatasetControls,
    make_control_value,
)
from hypothesis import given, strategies as st

from annotators.base import Work
from annotators.grade import load_rubric
from annotators.grade.grading import GradedText
from annotators.grade.judge import Judgement, blank, scrambled
from ares.annotation import Annotation, Cost
from ares.episode import Episode, Json
from ares.rubric import parse_known_text

PHRASES = ["wipe the table", "put the spoon in the pot", "open the red microwave", "open the drawer"]
OWN = parse_known_text("push the green drawer closed")


@pytest.fixture
def works(
    episodes: dict[str, Episode], work_for: Callable[..., Work], caption_of: Callable[..., Annotation]
) -> Callable[[int], list[Work]]:
    """Works about captions of many episodes: only their ids differ."""
    episode = episodes["drawer-close_000"]
    work = work_for(episode, [], caption_of(episode, OWN.text))

    def make(count: int) -> list[Work]:
        ids = (
            hashlib.blake2b(bytes([number % 256, number // 256]), digest_size=8) for number in range(count)
        )
        others = (replace(episode, episode_id=key.hexdigest()) for key in ids)
        return [replace(work, subject=replace(work.subject, episode=other)) for other in others]

    return make


def test_a_control_is_wrong_in_its_slot_alone_or_in_its_outcome_or_speaks_to_the_judge(
    works: Callable[[int], list[Work]],
) -> None:
    members = works(3)
    own = DatasetControls(
        episodes=3,
        calibrates=True,
        successes=3,
        texts=[parse_known_text(phrase) for phrase in PHRASES],
    )
    plan = ControlPlan(datasets={members[0].episode.dataset: own})
    controls = [control for work in members for control in plan.draw(work, OWN.slots, OWN.text)]
    assert {control.kind for control in controls} > {"near_miss", "outcome", "injected"}
    for control in controls:
        values: dict[Any, str] = {**control.slots}
        wrong = {slot for slot in OWN.slots if control.slots.get(slot) != OWN.slots[slot]}
        if control.kind == "near_miss":
            assert wrong == {control.slot} and control.text != OWN.text
            assert values[control.slot].split()[-1] in control.text
        elif control.kind == "outcome":
            assert (control.hides_label, control.slots["outcome"]) == (True, "not completed")
            assert control.text == "fail to push the green drawer closed"
        elif control.kind == "injected":
            assert len(control.text) > 1.3 * len(" ".join(control.slots.values()))
            assert wrong & {"object", "action"}


def test_what_an_instruction_says_by_a_verb_of_the_lab_is_no_near_miss(
    works: Callable[[int], list[Work]],
) -> None:
    verbs = {"push closed": "close by pushing", "grasp": "hold a thing"}
    (work,) = works(1)
    episode = replace(work.episode, instructions=(OWN.text,))
    work = replace(work, subject=replace(work.subject, episode=episode))
    texts = [parse_known_text("push the red lid closed", verbs)]
    own = DatasetControls(episodes=1, calibrates=True, texts=texts)
    plan = ControlPlan(datasets={work.episode.dataset: own}, verbs=verbs)
    drawn = plan.draw(work, {**OWN.slots, "action": "grasp"}, "grasp the green drawer")
    wrong = {control.slots["action"] for control in drawn if control.slot == "action"}
    assert wrong and "push closed" not in wrong


def test_the_gates_of_controls_are_the_criteria_that_decide() -> None:
    rubric = load_rubric("caption")
    graded: dict[str, Json] = {"grade": "acceptable", "grade_verdicts": "VERB=MET"}
    own = GradedText(value=graded, rulings=(), judgement=Judgement(rulings=[], cost=Cost()))
    value = make_control_value(own, [], [], rubric, "demo", slots_from="tables")
    deciding = [item for item in rubric.criteria if item.category in ("essential", "pitfall")]
    assert 0 < len(deciding) < len(rubric.criteria)
    assert value == {
        "gradings": [{"kind": "own", "grade": "acceptable", "gates": "VERB=MET"}],
        "gates": [{"gate": item.id, "slot": item.slot or ""} for item in deciding],
        "label": "demo",
        "slots": "tables",
    }
    assert not {"label", "slots"} & make_control_value(own, [], [], rubric, "").keys()


@given(height=st.integers(1, 70), width=st.integers(1, 70), count=st.integers(0, 3))
def test_changed_frames_have_the_form_of_frames(height: int, width: int, count: int) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    for change in (blank, scrambled):
        changed = change(frames)
        assert changed.shape == frames.shape and changed.dtype == frames.dtype


def test_blank_frames_are_one_colour() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (2, 64, 48, 3), dtype=np.uint8)
    assert np.ptp(blank(frames)) == 0


@pytest.mark.parametrize("side", [64, 96])
def test_scrambled_frames_keep_their_colours_and_lose_their_shapes(side: int) -> None:
    gradient = np.arange(side, dtype=np.uint8)[None, :, None] + np.zeros((side, side, 3), np.uint8)
    frames = np.stack([gradient, gradient])
    changed = scrambled(frames)
    assert (np.sort(changed, axis=None) == np.sort(frames, axis=None)).all()
    # A row of the gradient rises by one a pixel: nearly no row of the scrambled frame does all the way.
    rises = (np.diff(changed[0, :, :, 0].astype(int), axis=1) == 1).all(axis=1)
    assert rises.mean() < 0.1
    assert (changed[0] != changed[1]).any()
