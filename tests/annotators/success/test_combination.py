"""Combinations: what parts add, when nothing is decided, what a fit recovers, and what captions have contributed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from annotators.success import write_success_combination
from annotators.success.annotator import COLUMNS
from annotators.success.clip_judge import compute_value_order_correlation
from annotators.success.combination import load_success_combination, remove_caption_evidence
from annotators.success.evaluation import bootstrap_auc_interval, compute_area_under_curve
from annotators.success.fitting import Example, fit_combination, fit_verdict_thresholds
from ares.annotation import Annotation, Producer
from ares.errors import RequestError
from tests.annotators.samples import make_annotation, make_camera, make_episode

OWN = "{id: own, version: 1.0.0, parts: {outcome_text: {weight: 2.0}}, failure_below: 0.3, success_from: 0.7}"


def simulated_examples(seed: int, count: int) -> list[Example]:
    """Episodes whose outcome shows in one part, and whose failures have unusual signals of one of two kinds."""
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        success = bool(rng.random() < 0.5)
        effort = rng.normal(1.0, 0.1) if success else rng.choice([0.2, 1.0])
        jumps = rng.normal(0.5, 0.05) if success else (0.5 if effort == 0.2 else 1.5)
        parts = {
            "outcome_text": rng.normal(1.0 if success else -1.0, 1.5),
            "caption_outcome": rng.normal(),
            "end_effort": effort,
            "action_jumps": jumps,
        }
        examples.append(Example(parts=parts, success=success, group=f"task {number % 10}"))
    return examples


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


def test_a_fit_finds_which_part_tells_the_outcome() -> None:
    combination = fit_combination(simulated_examples(0, 400))
    weights = {name: part.weight for name, part in combination.parts.items()}
    assert weights["outcome_text"] > 0.6 and abs(weights["caption_outcome"]) < 0.3
    assert weights["signal_distance"] < -0.6
    others = simulated_examples(1, 400)
    scores = [combination.probability(example.parts) for example in others]
    assert (compute_area_under_curve(scores, [example.success for example in others]) or 0) > 0.95


def test_a_missing_part_favours_neither_outcome_however_rare_success_is() -> None:
    examples = simulated_examples(9, 400)
    rare = [example for number, example in enumerate(examples) if not example.success or number % 4 == 0]
    assert fit_combination(rare).probability({}) == pytest.approx(0.5, abs=0.15)


def test_unusual_signals_count_in_a_direction_that_no_example_showed() -> None:
    examples = [e for e in simulated_examples(2, 400) if e.success or e.parts["action_jumps"] > 1]
    combination = fit_combination(examples)
    usual = {"outcome_text": 1.0, "end_effort": 1.0, "action_jumps": 0.5}
    assert combination.probability(usual) > 0.9
    assert combination.probability({**usual, "end_effort": 0.2}) < 0.5


def test_thresholds_leave_undecided_what_would_be_wrong_too_often() -> None:
    fitted = fit_combination(simulated_examples(3, 400))
    combination = fit_verdict_thresholds(fitted, simulated_examples(4, 400))
    others = simulated_examples(5, 2000)
    verdicts = [(combination.verdict(example.parts), example.success) for example in others]
    for verdict, truth in (("success", True), ("failure", False)):
        right = [success is truth for said, success in verdicts if said == verdict]
        assert len(right) > 200 and np.mean(right) > 0.9
    noise = [Example(parts={"outcome_text": 0.0}, success=bool(n % 2), group="") for n in range(40)]
    assert {fit_verdict_thresholds(fitted, noise).verdict(example.parts) for example in noise} == {"unsure"}


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(RequestError, match="too few labelled episodes"):
        fit_combination([Example(parts={"outcome_text": 1.0}, success=True, group="")] * 50)


def test_a_combination_survives_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "own.yaml")
    combination = fit_combination(simulated_examples(6, 100), fitted_for="clip:mine")
    write_success_combination(combination, path)
    assert (
        load_success_combination(path) == combination
        and load_success_combination(path).hash == combination.hash
    )


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


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(7)
    scores, labels = rng.integers(0, 5, 60).tolist(), (rng.random(60) < 0.4).tolist()
    pairs = [
        (a > b) + 0.5 * (a == b)
        for a, success in zip(scores, labels, strict=True)
        for b, other in zip(scores, labels, strict=True)
        if success and not other
    ]
    assert compute_area_under_curve(scores, labels) == pytest.approx(np.mean(pairs))
    assert compute_area_under_curve(scores, [True] * 60) is None


def test_the_interval_of_the_area_is_by_clusters() -> None:
    rng = np.random.default_rng(8)
    labels = (rng.random(200) < 0.5).tolist()
    scores = [rng.normal(label) for label in labels]
    area = compute_area_under_curve(scores, labels) or 0
    apart = bootstrap_auc_interval(scores, labels, [str(number) for number in range(200)])
    # Each episode ten times is no more evidence, where the copies are one cluster.
    copied = bootstrap_auc_interval(scores * 10, labels * 10, [str(number) for number in range(200)] * 10)
    assert apart and copied and apart[0] < area < apart[1]
    assert copied[1] - copied[0] == pytest.approx(apart[1] - apart[0], rel=0.15)
    assert bootstrap_auc_interval(scores, labels, ["one task"] * 200) is None


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
