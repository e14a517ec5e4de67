"""Probabilities of candidates from their log-likelihoods."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import TypeVar

from ares.quality.contract.terms import NO_ESTIMATE, Estimate, Origin

Key = TypeVar("Key", str, tuple[str, str, str])
# No value is ruled out entirely by values alone.
_FLOOR = 0.005
_LEAST_KEPT = 0.02


def estimate_from(scores: Mapping[str, float], origin: Origin) -> Estimate:
    """The estimate of log-likelihoods; one without candidates where all are alike."""
    if not scores or (len(scores) > 1 and max(scores.values()) - min(scores.values()) < 1e-9):
        return NO_ESTIMATE
    shares = shares_of(scores)
    kept = {value: share for value, share in shares.items() if share >= _LEAST_KEPT}
    return Estimate(candidates=kept, origin=origin)


def shares_of(scores: Mapping[Key, float]) -> dict[Key, float]:
    """Probabilities that sum to 1, from log-likelihoods."""
    best = max(scores.values())
    weights = {value: exp(score - best) + _FLOOR / len(scores) for value, score in scores.items()}
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()}
