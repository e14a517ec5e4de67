"""Aggregation of verdicts into a grade: gates, score, and a denominator of all criteria."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ares.rubric import Verdict, make_grade_value
from ares.rubric.verdict import GATES, WEIGHTS, Category

Pairs = list[tuple[Category, Verdict]]
CATEGORIES: list[Category] = ["essential", "important", "optional", "pitfall"]
pairs = st.lists(
    st.tuples(st.sampled_from(CATEGORIES), st.sampled_from(list(Verdict))), min_size=1, max_size=12
)


def _rulings(case_pairs: Pairs) -> list[dict[str, Any]]:
    return [
        {"criterion": f"C{index}", "verdict": verdict.value, "category": category}
        for index, (category, verdict) in enumerate(case_pairs)
    ]


def _value(*case_pairs: tuple[Category, Verdict]) -> dict[str, Any]:
    return make_grade_value(_rulings(list(case_pairs)))


def _grade(*case_pairs: tuple[Category, Verdict]) -> str:
    return str(_value(*case_pairs)["grade"])


@pytest.mark.parametrize("gate", GATES)
def test_one_gate_unmet_is_not_acceptable_whatever_the_rest(gate: Category) -> None:
    rest: Pairs = [("essential", Verdict.ERROR), ("essential", Verdict.MET)]
    assert _grade((gate, Verdict.UNMET), *rest) == "not_acceptable"


def test_doubt_and_error_are_no_pass() -> None:
    assert _grade(("essential", Verdict.MET), ("essential", Verdict.UNSURE)) == "unsure"
    assert _grade(("essential", Verdict.UNSURE), ("pitfall", Verdict.ERROR)) == "error"
    assert _value(("essential", Verdict.ERROR))["acceptable"] is None


def test_nothing_that_applies_is_unsure_and_has_no_score() -> None:
    grade = _value(("essential", Verdict.NA), ("optional", Verdict.NA))
    assert (grade["grade"], grade["acceptable"], grade["grade_score"]) == ("unsure", None, None)


@given(pairs, st.randoms(use_true_random=False))
def test_order_of_criteria_does_not_matter(case_pairs: Pairs, order: random.Random) -> None:
    expected = _value(*case_pairs)
    order.shuffle(case_pairs)
    shuffled = _value(*case_pairs)
    assert shuffled["grade"] == expected["grade"]
    assert shuffled["grade_score"] == pytest.approx(expected["grade_score"])


@given(pairs)
def test_a_score_is_a_share_and_only_a_decision_is_an_answer(case_pairs: Pairs) -> None:
    grade = _value(*case_pairs)
    assert grade["grade_score"] is None or 0.0 <= grade["grade_score"] <= 1.0
    assert (grade["acceptable"] is None) == (grade["grade"] in ("unsure", "error"))


@given(pairs, st.integers(0, 11))
def test_turning_a_verdict_to_met_never_makes_it_worse(case_pairs: Pairs, position: int) -> None:
    index = position % len(case_pairs)
    better = list(case_pairs)
    better[index] = (better[index][0], Verdict.MET)
    before, after = _value(*case_pairs), _value(*better)
    order = ["not_acceptable", "error", "unsure", "acceptable"]
    assert order.index(after["grade"]) >= order.index(before["grade"])
    if case_pairs[index][1] is not Verdict.NA:
        assert (after["grade_score"] or 0.0) >= (before["grade_score"] or 0.0)


def test_weights_are_those_of_the_paper() -> None:
    assert WEIGHTS == {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}
