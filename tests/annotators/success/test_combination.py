"""Combinations: what parts add, when nothing is decided, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from annotators.success.clip_judge import compute_value_order_correlation
from annotators.success.combination import load_success_combination
from ares.errors import RequestError

OWN = "{id: own, version: 1.0.0, parts: {outcome_text: {weight: 2.0}}, failure_below: 0.3, success_from: 0.7}"


def test_the_shipped_combinations_are_read_and_ordered() -> None:
    for name in ("clip", "model"):
        combination = load_success_combination(name)
        assert 0 < combination.failure_below <= combination.success_from < 1


def test_a_missing_part_says_nothing_and_a_far_one_does_not_decide_alone() -> None:
    combination = load_success_combination("clip")
    assert combination.contributions({}) == {}
    near, far = (combination.probability({"outcome_text": value}) for value in (10.0, 1e9))
    assert near == far < 1.0


@pytest.mark.parametrize("parts", [{}, {"progress_order": 1.0}, {"end_effort": 1.0, "action_jumps": 0.4}])
def test_without_a_part_on_the_outcome_nothing_is_decided(parts: dict[str, float]) -> None:
    for name in ("clip", "model"):
        assert load_success_combination(name).verdict(parts) == "unsure"


def test_a_judge_that_does_not_know_the_task_decides_nothing() -> None:
    clip = load_success_combination("clip")
    parts = {"outcome_text": 1.0, "caption_outcome": 1.0}
    assert clip.verdict(parts) == clip.verdict({**parts, "task_recognised": 1.0}) == "success"
    assert clip.verdict({**parts, "task_recognised": 0.9}) == "unsure"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("0.3", "0.9"), "failure_below 0.9 is above success_from 0.7"),
        (OWN.replace("weight: 2.0", "weight: .nan"), "finite"),
        (OWN.replace("weight: 2.0", "wait: 2.0"), "parts.outcome_text"),
        ("a: [", "no YAML"),
        ("", "combination is wrong"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(RequestError, match=message):
        load_success_combination(str(tmp_path / "own.yaml"))


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(RequestError, match="there are: clip, model"):
        load_success_combination("clop")
    with pytest.raises(RequestError, match="cannot be read"):
        load_success_combination("nowhere.yaml")


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 2, 3, 9], 1.0), ([9, 3, 2, 1], -1.0), ([1, 1, 1], None), ([1, 2], None)]
)
def test_value_order_correlation(values: list[float], expected: float | None) -> None:
    assert compute_value_order_correlation(values) == (None if expected is None else pytest.approx(expected))
