"""Paired comparison of two shares on the same items: bootstrap by cluster and the exact test of McNemar."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.statistics.beta import beta_cdf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
