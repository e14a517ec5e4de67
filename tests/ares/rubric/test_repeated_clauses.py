"""A caption that says the same clause twice is caught, and captions of two actions pass."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ares.rubric import CHECKS, CheckInput, Verdict, parse_known_text

_ACTIONS = [
    f"{verb} {place}"
    for verb in ("push the white mug", "sweep a brown cube", "put the fork and the knife", "slide it")
    for place in ("under the coffee machine", "into the hole", "onto the left plate")
]
_OPENINGS = ["{}", "fail to {}", "try to {}", "the robot fails to {}"]
_JOINTS = ["{} and {}", "{}. {}.", "{}, then {}", "first {}, and after that {}", "{}; {}", "{}, {}"]


def _is_refused(text: str) -> bool:
    subject = CheckInput(text=text, slots=parse_known_text(text).slots, trajectory=None)
    return CHECKS["repeated"](subject).verdict is Verdict.UNMET


@given(st.sampled_from(_ACTIONS), st.sampled_from(_OPENINGS), st.sampled_from(_JOINTS))
def test_the_same_clause_twice_is_refused(action: str, opening: str, joint: str) -> None:
    clause = opening.format(action)
    assert _is_refused(joint.format(clause, clause))
    assert _is_refused(joint.format(clause, clause.replace("the ", "").capitalize()))
    assert not _is_refused(clause)


@given(st.permutations(_ACTIONS), st.sampled_from(_OPENINGS), st.sampled_from(_JOINTS))
def test_two_different_clauses_pass(actions: list[str], opening: str, joint: str) -> None:
    first, second, *_ = actions
    assert not _is_refused(joint.format(opening.format(first), second))
    assert not _is_refused(joint.format(opening.format(first), opening.format(second)))


@pytest.mark.parametrize(
    "text",
    [
        "open the drawer, then open the drawer again",
        "fail to push the mug, then push the mug",
        "pick up the cube, place it on the plate, pick up the cube and place it on the table",
        "the left arm picks up a cup and the right arm picks up a cup",
        "put a can in the bin and put another can in the bin",
        "pick up the red block, the blue block, the blue block and the pear",
        "open the drawer, take out the spoon, close the drawer, open the drawer",
        "rub, rub, then put the cloth down",
        "push the button with the left finger and push the button with the right finger",
    ],
)
def test_an_action_that_is_done_again_or_otherwise_is_for_the_judge(text: str) -> None:
    assert not _is_refused(text)


def test_a_sequence_that_is_said_twice_is_refused() -> None:
    assert _is_refused("pick up the cube, place it in the bin, pick up the cube and place it in the bin")
