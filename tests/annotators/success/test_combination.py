"""The probability of success: what parts add, when nothing is decided, and what captions add."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ares.annotation import Annotation, Producer
from ares_annotators.success.annotator import COLUMNS
from ares_annotators.success.combination import (
    FAILURE_BELOW,
    SUCCESS_FROM,
    compute_contributions,
    compute_success_probability,
    decide_success,
)
from ares_annotators.success.stored_outcomes import remove_caption_evidence
from tests.annotators.samples import make_annotation, make_camera, make_episode


@pytest.mark.parametrize("parts", [{}, {"a_part_of_tomorrow": 1.0}])
def test_without_a_part_on_the_outcome_nothing_is_decided(parts: dict[str, float]) -> None:
    assert _verdict(parts) == "unsure"


def test_one_certain_part_does_not_decide_alone_and_all_together_do() -> None:
    assert _probability({"outcome_vote": 1.0}) < 0.9
    assert _verdict({"outcome_vote": 0.75, "outcome_token": 0.99}) == "success"
    assert _verdict({"outcome_vote": 0.25, "outcome_token": 0.01}) == "failure"
    assert _verdict({"outcome_vote": 0.25, "outcome_token": 0.7, "caption_outcome": -1.0}) == "unsure"


_PRODUCER = Producer(
    annotator="success",
    version="2",
    model="hf:some",
    settings={"success_from": SUCCESS_FROM, "failure_below": FAILURE_BELOW},
    columns=COLUMNS,
    kind="model",
)


def _probability(parts: dict[str, float]) -> float:
    return compute_success_probability(compute_contributions(parts))


def _verdict(parts: dict[str, float]) -> str:
    return decide_success(compute_contributions(parts))


def _stored(parts: dict[str, float], **changes: Any) -> Annotation:
    value = {
        "success_probability": round(_probability(parts), 4),
        "success_verdict": _verdict(parts),
        "task": "close the drawer",
        "contributions": compute_contributions(parts),
        **changes,
    }
    episode = make_episode("e", [make_camera("front", 1.0, 20.0)])
    return make_annotation(_PRODUCER, episode, value, frames=(0.9,))


@pytest.mark.parametrize("claim", [1.0, -1.0])
def test_a_claim_of_a_caption_changes_nothing(claim: float) -> None:
    parts = {"outcome_vote": 0.7}
    plain = remove_caption_evidence(_stored(parts), _PRODUCER)
    claimed = remove_caption_evidence(_stored({**parts, "caption_outcome": claim}), _PRODUCER)
    assert plain.probability == pytest.approx(_probability(parts), abs=1e-3)
    assert claimed.probability == pytest.approx(plain.probability, abs=1e-3)
    stored = _verdict({**parts, "caption_outcome": claim})
    assert claimed.verdict == (plain.verdict if plain.verdict == stored else "unsure")
    assert (plain.task, plain.frames, plain.judge) == ("close the drawer", (0.9,), "hf:some")


def test_a_verdict_that_a_caption_turned_is_unsure() -> None:
    parts = {"outcome_vote": 0.75, "caption_outcome": 1.0}
    annotation = _stored(parts)
    assert annotation.value["success_verdict"] == "success"
    outcome = remove_caption_evidence(annotation, _PRODUCER)
    assert outcome.probability < SUCCESS_FROM and outcome.verdict == "unsure"


def test_what_was_unsure_stays_unsure() -> None:
    annotation = _stored({"outcome_vote": 0.9}, success_verdict="unsure")
    assert remove_caption_evidence(annotation, _PRODUCER).verdict == "unsure"


def test_certainty_does_not_overflow() -> None:
    annotation = _stored({"outcome_token": 1.0, "caption_outcome": 1.0}, success_probability=1.0)
    outcome = remove_caption_evidence(annotation, _PRODUCER)
    assert outcome.verdict == "success" and math.isfinite(outcome.probability)


def test_an_episode_that_was_not_judged_is_unsure() -> None:
    annotation = _stored({})
    bare = replace(annotation, value={"success_gaps": ["x"]})
    assert remove_caption_evidence(bare, _PRODUCER).verdict == "unsure"
