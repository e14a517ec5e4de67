"""Intervals of shares, and paired tests of two shares, for items that may come in clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A normal distribution has its standard deviation at so many median absolute deviations.
DEVIATIONS_PER_MAD = 1.4826
_MOST_TERMS, _PRECISION, _SMALLEST = 1_000, 1e-13, 1e-300


def beta_cdf(value: float, first: float, second: float) -> float:
    """The regularised incomplete beta function I_value(first, second), by its continued fraction (DLMF 8.17.22).

    The chance of at most k hits among n items is `beta_cdf(1 - share, n - k, k + 1)`.

    Args:
        value: 0 to 1.
        first: Shape above 0.
        second: Shape above 0.
    """
    if value <= 0.0 or value >= 1.0:
        return float(value >= 1.0)
    if value > (first + 1) / (first + second + 2):
        return 1.0 - beta_cdf(1 - value, second, first)
    log_front = (
        math.lgamma(first + second)
        - math.lgamma(first)
        - math.lgamma(second)
        + first * math.log(value)
        + second * math.log1p(-value)
    )
    return math.exp(log_front) / first * _continued_fraction(value, first, second)


def _continued_fraction(value: float, first: float, second: float) -> float:
    """Evaluated by Lentz's method, in which zeros are replaced by the smallest number."""
    numerator = 1.0
    denominator = 1.0 / (1.0 - (first + second) * value / (first + 1) or _SMALLEST)
    fraction = denominator
    for step in range(1, _MOST_TERMS):
        base = first + 2 * step
        first_term = step * (second - step) * value / ((base - 1) * base)
        second_term = -(first + step) * (first + second + step) * value / (base * (base + 1))
        for term in (first_term, second_term):
            denominator = 1.0 / (1.0 + term * denominator or _SMALLEST)
            numerator = 1.0 + term / numerator or _SMALLEST
            fraction *= numerator * denominator
        if abs(numerator * denominator - 1.0) < _PRECISION:
            break
    return fraction


# Bounds are asked for again with every change of a table that shows them: each is a search for a root.
_KEPT_BOUNDS = 10_000


def effective_items(hits: Sequence[int], totals: Sequence[int], least_correlation: float) -> float:
    """Number of independent items that say as much of a share as items in clusters (Kish, Survey Sampling, 1965).

    The design effect is measured, and is at least that of a correlation within clusters: few clusters show too little
    of it by chance, and none where all items agree.

    Args:
        hits: Items that count, by cluster.
        totals: All items, by cluster; clusters without items are left out.
        least_correlation: Correlation of two items of a cluster, 0 to 1.
    """
    clusters = [(hit, total) for hit, total in zip(hits, totals, strict=True) if total]
    num_hits, num_items = sum(hit for hit, _ in clusters), sum(total for _, total in clusters)
    if not num_items:
        return 0.0
    share, count = num_hits / num_items, len(clusters)
    mean_size = sum(total**2 for _, total in clusters) / num_items
    measured = 1.0
    if 0 < num_hits < num_items and count > 1:
        residuals = sum((hit - share * total) ** 2 for hit, total in clusters)
        measured = residuals * count / (count - 1) / num_items / (share * (1 - share))
    return num_items / max(measured, 1 + (mean_size - 1) * least_correlation)


_RESAMPLES = 10_000
# Clusters drawn at a time, so that a million of them fit into memory.
_DRAWS_PER_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """How much more often the second side has what is counted than the first.

    Attributes:
        difference: Share of the second less that of the first, -1 to 1.
        low: Lower bound of its 95 % interval, by bootstrap over clusters.
        high: Upper bound.
        only_first: Items that only the first side has.
        only_second: Items that only the second side has.
        p_value: Of McNemar's exact test, which takes items as independent.
        num_items: All items.
        num_clusters: All clusters.
    """

    difference: float
    low: float
    high: float
    only_first: int
    only_second: int
    p_value: float
    num_items: int
    num_clusters: int


def compare_paired(
    first: Sequence[bool], second: Sequence[bool], clusters: Sequence[Hashable], seed: int
) -> PairedDifference:
    """Compare two sides on the same items.

    Args:
        first: Whether the first side has what is counted, by item.
        second: The same of the second side.
        clusters: Cluster of each item, such as its episode.
        seed: Of the bootstrap.

    Raises:
        ValueError: There is no item, or the lengths differ.
    """
    if not first:
        raise ValueError("there is no item to compare")
    sums: dict[Hashable, list[int]] = {}
    for before, after, cluster in zip(first, second, clusters, strict=True):
        counts = sums.setdefault(cluster, [0, 0])
        counts[0] += int(after) - int(before)
        counts[1] += 1
    pairs = list(zip(first, second, strict=True))
    only_first = sum(before and not after for before, after in pairs)
    only_second = sum(after and not before for before, after in pairs)
    low, high = _bootstrap_interval(list(sums.values()), seed)
    return PairedDifference(
        difference=(only_second - only_first) / len(pairs),
        low=low,
        high=high,
        only_first=only_first,
        only_second=only_second,
        p_value=mcnemar_p_value(only_first, only_second),
        num_items=len(pairs),
        num_clusters=len(sums),
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Two-sided p value of the exact test of McNemar, from the items on which two sides differ; 1 without any."""
    fewer, total = min(only_first, only_second), only_first + only_second
    return min(1.0, 2 * beta_cdf(0.5, total - fewer, fewer + 1)) if total else 1.0


def _bootstrap_interval(sums: list[list[int]], seed: int) -> tuple[float, float]:
    """Percentile interval of the mean difference; a row of `sums` is a cluster's difference and its items."""
    import numpy as np

    values, random = np.array(sums, dtype=np.float64), np.random.default_rng(seed)
    block = max(1, _DRAWS_PER_BLOCK // len(values))
    means = [
        _resampled_means(values, min(block, _RESAMPLES - start), random)
        for start in range(0, _RESAMPLES, block)
    ]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return float(low), float(high)


def _resampled_means(
    values: NDArray[np.float64], count: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """(count,) mean differences of samples of clusters, drawn with replacement."""
    drawn = values[random.integers(len(values), size=(count, len(values)))].sum(axis=1)
    means: NDArray[np.float64] = drawn[:, 0] / drawn[:, 1]
    return means


# Of the two-sided 95 % interval; each bound alone is one of 97.5 %.
_Z = 1.959963984540054
_BISECTIONS = 50


@lru_cache(maxsize=10_000)
def share_upper_bound(hits: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of a share (Clopper and Pearson, Biometrika 26, 1934); 1.0 without trials.

    Args:
        hits: Number of trials that came true; with an effective number of trials it need not be whole.
        total: Number of trials.
        confidence: Share of samples in which the bound lies above the true share, at least.
    """
    return 1.0 if hits >= total else 1.0 - share_lower_bound(total - hits, total, confidence)


@lru_cache(_KEPT_BOUNDS)
def share_lower_bound(hits: float, total: float, confidence: float = 0.95) -> float:
    """The exact one-sided lower bound of a share; 0.0 without hits. For the arguments see `share_upper_bound`."""
    if hits <= 0:
        return 0.0
    # The chance of at least so many hits is the distribution function of a beta distribution at the share.
    return _find_share_threshold(lambda share: beta_cdf(share, hits, total - hits + 1) > 1.0 - confidence)


def _find_share_threshold(is_above: Callable[[float], bool]) -> float:
    """The share from which on something holds."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low


# Before anybody has answered, the share of true ones is as after 9.5 true and half a false one.
_TRUE_BEFORE, _FALSE_BEFORE, _CONFIDENCE = 9.5, 0.5, 0.95


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


_MOST_MISSING = 1_000_000


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
