"""Hard checks fail wrong captions and pass correct ones; what they say of many texts is recorded:
tests/ares/rubric/test_recorded_readings.py."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ares.episode import Signal, Trajectory
from ares.rubric import CHECKS, VERBS, CheckInput, Verdict, is_short_value, parse_known_text


def _check(name: str, text: str) -> Verdict | None:
    caption = CheckInput(text=text, slots=parse_known_text(text).slots, trajectory=None)
    return CHECKS[name](caption).verdict


_INFINITIVES = "bring cling fling ring sing sling spring sting string swing wring restring Unstring"


@pytest.mark.parametrize("verb", _INFINITIVES.split())
def test_a_verb_that_ends_like_a_gerund_is_imperative(verb: str) -> None:
    assert _check("form", f"{verb} the cup to the table") is Verdict.MET
    assert _check("form", f"{verb}ing the cup to the table") is Verdict.UNMET


def _gerund(verb: str) -> str:
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    is_mute = verb.endswith("e") and not verb.endswith("ee")
    return f"{verb[:-1] if is_mute else verb}ing"


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_gerunds_of_all_known_verbs_are_not_imperative(verb: str) -> None:
    assert _check("form", f"{verb} the cup") is Verdict.MET
    assert _check("form", f"{_gerund(verb)} the cup") is Verdict.UNMET


@given(
    st.floats(0.001, 1000, allow_nan=False), st.sampled_from(["l of water", "cm to the left", "kg.", "times"])
)
def test_a_number_ends_no_sentence(number: float, unit: str) -> None:
    assert _check("form", f"pour {number:.3f} {unit}") is Verdict.MET


_PERSIAN, _DEVANAGARI = "\u0628\u0633\u06a9\u06cc\u0646", "\u0915\u0937\u0924\u0930"
_WORDS = st.text(_PERSIAN, min_size=1, max_size=5)


@given(st.lists(_WORDS, min_size=2, max_size=6), st.sampled_from("\u200c\u200d"))
def test_joiners_between_letters_are_spelling(words: list[str], joiner: str) -> None:
    text = joiner.join(words)
    assert _check("pitfalls", text) is Verdict.MET
    assert is_short_value(text[:30].strip(joiner))


@given(
    st.text(_PERSIAN + _DEVANAGARI + "abc ", max_size=8),
    st.sampled_from("\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2064\ufeff"),
    st.text(_PERSIAN + _DEVANAGARI + "abc ", max_size=8),
)
def test_other_invisible_characters_are_refused_wherever_they_stand(
    before: str, hidden: str, after: str
) -> None:
    assert _check("pitfalls", f"push {before}{hidden}{after}") is Verdict.UNMET


@given(
    st.sampled_from("\u200c\u200d"),
    st.sampled_from(["{}{}", "{} {}", "a{}b", "^{}^", "{}b", "\u0628{0}{0}\u0628"]),
)
def test_joiners_that_join_nothing_are_refused(joiner: str, form: str) -> None:
    assert _check("pitfalls", f"push {form.format(joiner, joiner)}") is Verdict.UNMET


@pytest.mark.parametrize("action", ["lift", "pour"])
def test_an_open_gripper_lifts_a_lid_and_what_is_poured_was_held_before(action: str) -> None:
    """All other actions, signals and outcomes are recorded: tests/ares/rubric/test_recorded_readings.py."""
    still = Signal(np.tile(np.array([0, 0, 0, 1], np.float32), (20, 1)), ("x", "y", "z", "gripper"))
    trajectory = Trajectory(timestamps=np.arange(20) / 10.0, state=still)
    caption = CheckInput(text="", slots={"action": action, "outcome": "completed"}, trajectory=trajectory)
    assert CHECKS["grasp_without_close"](caption).verdict is None


def test_real_instructions_fall_into_no_pitfall(shared_data: Path) -> None:
    """False alarms on what people and scripts wrote as instructions; the rule is at most one in a hundred."""
    files = [*shared_data.rglob("*.jsonl"), *shared_data.rglob("labels.csv")]
    texts = {
        match
        for file in files
        for match in re.findall(r'"(?:task|instruction)": "([^"\\]+)"', file.read_text(errors="replace"))
    }
    assert len(texts) >= 20
    flagged = sorted(text for text in texts if _check("pitfalls", text) is Verdict.UNMET)
    assert flagged == []


_ACTIONS = [
    f"{verb} {place}"
    for verb in ("push the white mug", "sweep a brown cube", "put the fork and the knife", "slide it")
    for place in ("under the coffee machine", "into the hole", "onto the left plate")
]
_OPENINGS = ["{}", "fail to {}", "try to {}", "the robot fails to {}"]
_JOINTS = ["{} and {}", "{}. {}.", "{}, then {}", "first {}, and after that {}", "{}; {}", "{}, {}"]


def _is_refused(text: str) -> bool:
    return _check("repeated", text) is Verdict.UNMET


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
