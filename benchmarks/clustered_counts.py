"""Items in clusters, counted as independent ones."""

from __future__ import annotations

from collections.abc import Sequence


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
