"""Shares with a 95 % interval by drawing whole tasks, as episodes of one task resemble each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ares.statistics import clustered_interval

_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share, or the ratio of two shares.

    Attributes:
        hits: Items that count; of a ratio those of the first share.
        items: All items; of a ratio those of the first share.
        value: The share; None without items.
        low: Lower bound of its 95 % interval.
        high: Upper bound.
    """

    hits: int
    items: int
    value: float | None
    low: float
    high: float

    def __str__(self) -> str:
        if self.value is None:
            return "none"
        return f"{self.hits}/{self.items} = {self.value:.3f} ({self.low:.3f}-{self.high:.3f})"


def measure_share(hits: Sequence[bool], tasks: Sequence[str]) -> Share:
    """The share of items that count.

    Where all or none count, drawing tasks shows no spread: then the interval is that of Korn and Graubard by task.

    Args:
        hits: Whether each item counts.
        tasks: Task of each.
    """
    share = measure_ratio(hits, [True] * len(hits), tasks)
    if 0 < share.hits < share.items:
        return share
    by_task: dict[str, list[int]] = {}
    for hit, task in zip(hits, tasks, strict=True):
        counts = by_task.setdefault(task, [0, 0])
        counts[0] += hit
        counts[1] += 1
    counted = [count[0] for count in by_task.values()], [count[1] for count in by_task.values()]
    value, low, high = clustered_interval(*counted)
    return Share(hits=share.hits, items=share.items, value=value, low=low, high=high)


def measure_ratio(hits: Sequence[float], totals: Sequence[float], tasks: Sequence[str]) -> Share:
    """Sum of `hits` over the sum of `totals`, with the percentile interval of draws of tasks.

    Args:
        hits: Numerator of each item.
        totals: Denominator of each item.
        tasks: Task of each.
    """
    import numpy as np

    sums: dict[str, list[float]] = {}
    for hit, total, task in zip(hits, totals, tasks, strict=True):
        row = sums.setdefault(task, [0.0, 0.0])
        row[0] += hit
        row[1] += total
    values = np.array(list(sums.values()), dtype=np.float64).reshape(-1, 2)
    counted, items = values.sum(axis=0) if len(values) else (0.0, 0.0)
    if not items:
        return Share(hits=0, items=0, value=None, low=0.0, high=1.0)
    random = np.random.default_rng(0)
    drawn = values[random.integers(len(values), size=(_RESAMPLES, len(values)))].sum(axis=1)
    drawn = drawn[drawn[:, 1] > 0]
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    return Share(
        hits=round(counted), items=round(items), value=counted / items, low=float(low), high=float(high)
    )
