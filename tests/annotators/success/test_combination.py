"""Combinations: what parts add, when nothing is decided, which files are refused, and what captions add."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from ares_annotators.success.annotator import COLUMNS
from ares_annotators.success.clip_judge import compute_value_order_correlation
from ares_annotators.success.combination import load_success_combination
from ares_annotators.success.stored_outcomes import remove_caption_evidence
from tests.annotators.samples import make_annotation, make_camera, make_episode

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


_COMBINATION = load_success_combination("clip")
_PRODUCER = Producer(
    annotator="success",
    version="2",
    model="clip:some",
    settings={"success_from": _COMBINATION.success_from, "failure_below": _COMBINATION.failure_below},
    columns=COLUMNS,
    kind="model",
)


def _stored(parts: dict[str, float], **changes: Any) -> Annotation:
    value = {
        "success_probability": round(_COMBINATION.probability(parts), 4),
        "success_verdict": _COMBINATION.verdict(parts),
        "task": "close the drawer",
        "contributions": _COMBINATION.contributions(parts),
        **changes,
    }
    episode = make_episode("e", [make_camera("front", 1.0, 20.0)])
    return make_annotation(_PRODUCER, episode, value, frames=(0.9,))


@pytest.mark.parametrize("claim", [1.0, -1.0])
def test_a_claim_of_a_caption_changes_nothing(claim: float) -> None:
    parts = {"outcome_text": 0.05, "progress_order": 0.6}
    plain = remove_caption_evidence(_stored(parts), _PRODUCER)
    claimed = remove_caption_evidence(_stored({**parts, "caption_outcome": claim}), _PRODUCER)
    assert plain.probability == pytest.approx(_COMBINATION.probability(parts), abs=1e-3)
    assert claimed.probability == pytest.approx(plain.probability, abs=1e-3)
    stored = _COMBINATION.verdict({**parts, "caption_outcome": claim})
    assert claimed.verdict == (plain.verdict if plain.verdict == stored else "unsure")
    assert (plain.task, plain.frames, plain.judge) == ("close the drawer", (0.9,), "clip:some")


def test_a_verdict_that_a_caption_turned_is_unsure() -> None:
    parts = {"outcome_text": 0.1, "progress_order": 0.45, "caption_outcome": 1.0}
    annotation = _stored(parts)
    assert annotation.value["success_verdict"] == "success"
    outcome = remove_caption_evidence(annotation, _PRODUCER)
    assert outcome.probability < _COMBINATION.failure_below and outcome.verdict == "unsure"


def test_a_success_that_rests_on_a_caption_alone_is_unsure() -> None:
    annotation = _stored({"caption_outcome": 1.0, "progress_order": 0.9})
    assert annotation.value["success_verdict"] == "success"
    assert remove_caption_evidence(annotation, _PRODUCER).verdict == "unsure"


def test_what_was_unsure_stays_unsure() -> None:
    annotation = _stored({"outcome_text": 0.3}, success_verdict="unsure")
    assert remove_caption_evidence(annotation, _PRODUCER).verdict == "unsure"


def test_certainty_does_not_overflow() -> None:
    annotation = _stored({"outcome_text": 5.0, "caption_outcome": 1.0}, success_probability=1.0)
    outcome = remove_caption_evidence(annotation, _PRODUCER)
    assert outcome.verdict == "success" and math.isfinite(outcome.probability)


def test_an_episode_that_was_not_judged_is_unsure() -> None:
    annotation = _stored({})
    bare = replace(annotation, value={"success_gaps": ["x"]})
    assert remove_caption_evidence(bare, _PRODUCER).verdict == "unsure"
