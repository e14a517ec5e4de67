"""How the parts that a judge measures become one probability of success."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ares.annotation import Cost
from ares.episode import Camera, Json
from ares_annotators.base import Subject, Work

# Set by hand and fitted to no labels. A probability counts by its log-odds, within these bounds: no single part decides
# alone. The caption moves the result a little.
_LEAST_PART_PROBABILITY = 0.01
_PROBABILITY_WEIGHTS = {"outcome_token": 0.6, "outcome_vote": 0.4}
_CAPTION_WEIGHT = 0.5
FAILURE_BELOW, SUCCESS_FROM = 0.3, 0.7
# A part with one of these beginnings says how the episode ended; without any the verdict is unsure.
OUTCOME_PREFIX, CAPTION_PREFIX = "outcome_", "caption_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An episode to judge.

    Attributes:
        work: Its frames; no judge may read `work.episode.success`.
        task: What was to be done: the instruction, or what the caption says where there is none.
    """

    work: Work
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeParts:
    """What a judge measured of an attempt.

    Attributes:
        parts: Values by the name of the part; a part that could not be measured is left out.
        evidence: Camera and second of the frames that the judge rests on.
        details: What else is stored for people: criteria, observation, replies.
        cost: What it cost, whenever it was paid.
        paid: What was paid for it now.
    """

    parts: Mapping[str, float]
    evidence: Sequence[tuple[str, float]]
    details: Mapping[str, Json] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    paid: Cost = field(default_factory=Cost)


def choose_judged_cameras(subject: Subject, name: str) -> list[Camera]:
    """Every good camera, or the one of that name."""
    return [camera for camera in subject.episode.good_cameras if not name or camera.name == name]


SuccessVerdict = Literal["success", "failure", "unsure"]


def compute_contributions(parts: Mapping[str, float]) -> dict[str, float]:
    """What each part adds to the log-odds of success; a part that is missing adds nothing."""
    log_odds = {
        name: weight * _part_log_odds(parts[name])
        for name, weight in _PROBABILITY_WEIGHTS.items()
        if name in parts
    }
    if "caption_outcome" in parts:
        log_odds["caption_outcome"] = _CAPTION_WEIGHT * parts["caption_outcome"]
    return log_odds


def _part_log_odds(probability: float) -> float:
    bounded = min(max(probability, _LEAST_PART_PROBABILITY), 1 - _LEAST_PART_PROBABILITY)
    return math.log(bounded / (1 - bounded))


def compute_success_probability(contributions: Mapping[str, float]) -> float:
    """Probability of success, 0 to 1."""
    return 1.0 / (1.0 + math.exp(-sum(contributions.values())))


def decide_success(contributions: Mapping[str, float]) -> SuccessVerdict:
    """The verdict; "unsure" too where no part says how the episode ended."""
    if not any(name.startswith((OUTCOME_PREFIX, CAPTION_PREFIX)) for name in contributions):
        return "unsure"
    return choose_success_verdict(compute_success_probability(contributions), FAILURE_BELOW, SUCCESS_FROM)


def choose_success_verdict(probability: float, failure_below: float, success_from: float) -> SuccessVerdict:
    """The verdict on a probability of success; "unsure" between the two thresholds."""
    if probability >= success_from:
        return "success"
    return "failure" if probability < failure_below else "unsure"
