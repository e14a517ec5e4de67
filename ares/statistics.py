"""Intervals of shares, and a paired test of two shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

# A normal distribution has its standard deviation at so many median absolute deviations.
DEVIATIONS_PER_MAD = 1.4826
# Bounds are asked for again with every change of a table that shows them: each is a search for a root.
_KEPT_BOUNDS = 10_000
# Of the two-sided 95 % interval; each bound alone is one of 97.5 %.
_Z = 1.959963984540054
_BISECTIONS = 50
# Before anybody has answered, the share of true ones is as after 9.5 true and half a false one.
_TRUE_BEFORE, _FALSE_BEFORE, _CONFIDENCE = 9.5, 0.5, 0.95
_MOST_MISSING = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """How much more often the second side has what is counted than the first.

    Attributes:
        items: Items that were compared.
        difference: Share of the second less that of the first, -1 to 1.
        only_first: Items that only the first side has.
        only_second: Items that only the second side has.
        p_value: Of McNemar's exact test.
    """

    items: int
    difference: float
    only_first: int
    only_second: int
    p_value: float


def compare_paired(first: Sequence[bool], second: Sequence[bool]) -> PairedDifference:
    """Compare two sides on the same items, at least one, of which each has what is counted or not."""
    pairs = list(zip(first, second, strict=True))
    only_first = sum(before and not after for before, after in pairs)
    only_second = sum(after and not before for before, after in pairs)
    return PairedDifference(
        items=len(pairs),
        difference=(only_second - only_first) / len(pairs),
        only_first=only_first,
        only_second=only_second,
        p_value=mcnemar_p_value(only_first, only_second),
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Two-sided p value of the exact test of McNemar, from the items on which two sides differ; 1 without any."""
    fewer, total = min(only_first, only_second), only_first + only_second
    log_all = math.log(total + 1) + total * math.log(2)
    tail = sum(math.exp(-_log_beta(number + 1, total - number + 1) - log_all) for number in range(fewer + 1))
    return min(1.0, 2 * tail)


def _find_share_threshold(is_above: Callable[[float], bool]) -> float:
    """The share from which on something holds."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low


@lru_cache(_KEPT_BOUNDS)
def bound_true_share(true: int, answers: int) -> float:
    """The lower bound of a share of true answers, with 95 % confidence at all looks at a growing sample together.

    The likelihoods of all shares are mixed by a beta distribution. Divided by the likelihood of the true share, the
    mixture is a martingale that reaches 20 in at most one of 20 samples (Ville, 1939; Robbins, 1970).

    Args:
        true: Answers that are true.
        answers: All answers.

    Returns:
        0.90 for 36 of 36, 0.95 for 81 of 81 and for 139 of 140.
    """
    if not true:
        return 0.0
    false = answers - true
    mixed = _log_beta(true + _TRUE_BEFORE, false + _FALSE_BEFORE) - _log_beta(_TRUE_BEFORE, _FALSE_BEFORE)

    def is_possible(part: float) -> bool:
        share = part * true / answers
        return mixed - true * math.log(share) - false * math.log1p(-share) < -math.log(1 - _CONFIDENCE)

    return _find_share_threshold(is_possible) * true / answers


def _log_beta(first: float, second: float) -> float:
    return math.lgamma(first) + math.lgamma(second) - math.lgamma(first + second)


def count_missing_answers(true: int, answers: int, at_least: float) -> int:
    """How many more answers show a share, if none of them is an error."""
    low, high = -1, 64
    while bound_true_share(true + high, answers + high) < at_least and high < _MOST_MISSING:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_shown = bound_true_share(true + middle, answers + middle) >= at_least
        low, high = (low, middle) if is_shown else (middle, high)
    return high


def wilson_interval(hits: float, total: float) -> tuple[float, float]:
    """The two-sided 95 % interval of a share after Wilson (JASA 22, 1927); (0, 1) without trials."""
    if not total:
        return 0.0, 1.0
    share, spread = hits / total, _Z * _Z / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * sqrt(share * (1 - share) / total + spread / (4 * total)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)


def exact_tail(hits: int, drawn: int, all_hits: int, total: int) -> float:
    """The chance that items drawn at random of all have so many hits or more (Fisher's exact test, one-sided)."""
    tail = sum(
        math.comb(all_hits, number) * math.comb(total - all_hits, drawn - number)
        for number in range(hits, min(all_hits, drawn) + 1)
    )
    return tail / math.comb(total, drawn)
