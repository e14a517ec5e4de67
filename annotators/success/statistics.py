"""Statistics of a probability against labels: area under the ROC curve, and its bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.success.progress import mean_ranks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RESAMPLES = 2_000
_TAIL_PERCENT = 2.5


def area_under_curve(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Chance that a success scores higher than a failure, half for equal scores; None without one of either.

    Args:
        scores: (N,) higher for a success.
        labels: (N,) whether it is a success.
    """
    import numpy as np

    is_success = np.asarray(labels, bool)
    successes, failures = int(is_success.sum()), int((~is_success).sum())
    if not successes or not failures:
        return None
    ranks = mean_ranks(np.asarray(scores, np.float64)) + 1
    wins = ranks[is_success].sum() - successes * (successes + 1) / 2
    return float(wins / (successes * failures))


def bootstrap_interval(
    scores: Sequence[float], labels: Sequence[bool], clusters: Sequence[str], seed: int = 0
) -> tuple[float, float] | None:
    """The 95 % interval of the area under the curve, by drawing whole clusters with replacement.

    Args:
        scores: (N,) higher for a success.
        labels: (N,) whether it is a success.
        clusters: (N,) what is drawn together, such as the task: episodes of one task resemble each other.
        seed: Seed of the draws.

    Returns:
        None where fewer than two clusters, or no draw with a success and a failure, are there.
    """
    import numpy as np

    rows_of: dict[str, list[int]] = {}
    for row, cluster in enumerate(clusters):
        rows_of.setdefault(cluster, []).append(row)
    groups = [np.asarray(rows) for rows in rows_of.values()]
    if len(groups) < 2:
        return None
    rng, score, label = np.random.default_rng(seed), np.asarray(scores), np.asarray(labels, bool)
    areas: list[float] = []
    for _ in range(_RESAMPLES):
        drawn: NDArray[np.intp] = np.concatenate(
            [groups[index] for index in rng.integers(len(groups), size=len(groups))]
        )
        area = area_under_curve(score[drawn].tolist(), label[drawn].tolist())
        if area is not None:
            areas.append(area)
    if not areas:
        return None
    low, high = np.percentile(areas, [_TAIL_PERCENT, 100 - _TAIL_PERCENT])
    return float(low), float(high)
