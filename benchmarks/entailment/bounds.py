"""From which probability a whole caption is accepted or refused, chosen on pairs that trained nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.entailment.lexicon import CONTRADICTED, ENTAILED

# The share of false captions that may be accepted, and of true ones that may be refused, on these pairs.
_MOST_WRONG = 0.015
_LEAST = 0.7


def choose_bounds(logits: NDArray[np.float32], labels: Sequence[int]) -> dict[str, float]:
    """The bounds of the head "whole".

    Args:
        logits: (N, 3), divided by their temperature.
        labels: Of the N captions.
    """
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    table, truth = weights / weights.sum(axis=1, keepdims=True), np.array(labels)
    return {
        "accepted": _bound(table[truth == CONTRADICTED, ENTAILED]),
        "refused": _bound(table[truth == ENTAILED, CONTRADICTED]),
    }


def _bound(wrong: NDArray[np.float64]) -> float:
    """What at most a share of _MOST_WRONG of these exceeds."""
    return round(max(_LEAST, float(np.quantile(wrong, 1.0 - _MOST_WRONG)) if len(wrong) else 0.0), 3)
