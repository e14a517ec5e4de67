"""What stored success says of an outcome when the claims of captions are taken out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from annotators.success.annotator import COLUMNS
from annotators.success.combination import load_success_combination, remove_caption_evidence
from ares.annotation import Annotation, Producer
from tests.annotators.samples import make_annotation, make_camera, make_episode

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
