"""95 % intervals of shares whose items come in clusters, such as captions of one episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ares.statistics.beta import beta_cdf

_TAIL = 0.025
_STEPS = 36


class Interval(NamedTuple):
    """A share with its 95 % interval.

    Attributes:
        estimate: The share, 0 to 1; None without items.
        low: Lower bound.
        high: Upper bound.
    """

    estimate: float | None
    low: float
    high: float


def _exact_interval(hits: float, total: float) -> Interval:
    """The exact interval of Clopper and Pearson (1934), which covers at least 95 %; (0, 1) for no items.

    Args:
        hits: Items that count; with an effective size it need not be whole.
        total: All items.
    """
    if total <= 0:
        return Interval(None, 0.0, 1.0)
    low = _solve(lambda share: 1 - beta_cdf(1 - share, total - hits + 1, hits) - _TAIL) if hits > 0 else 0.0
    high = _solve(lambda share: _TAIL - beta_cdf(1 - share, total - hits, hits + 1)) if hits < total else 1.0
    return Interval(hits / total, low, high)


def clustered_interval(hits: Sequence[int], totals: Sequence[int]) -> Interval:
    """The interval of Korn and Graubard (1998): Clopper-Pearson with the effective number of items.

    Items of a cluster, such as captions of one episode, are not independent. Where all clusters agree, no variance can
    be measured: then a cluster counts as one item.

    Args:
        hits: Items that count, by cluster.
        totals: All items, by cluster; clusters without items are left out.
    """
    clusters = [(hit, total) for hit, total in zip(hits, totals, strict=True) if total]
    num_hits, num_items = sum(hit for hit, _ in clusters), sum(total for _, total in clusters)
    if not num_items:
        return Interval(None, 0.0, 1.0)
    share, count = num_hits / num_items, len(clusters)
    residuals = sum((hit - share * total) ** 2 for hit, total in clusters)
    effective = float(count)
    if residuals > 0 and count > 1:
        variance = residuals * count / (count - 1) / num_items**2
        effective = min(float(num_items), share * (1 - share) / variance)
    _, low, high = _exact_interval(share * effective, effective)
    return Interval(share, low, high)


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


def _solve(rising: Callable[[float], float]) -> float:
    """The root of an increasing function on [0, 1]."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
