"""Statistics as LeRobot stores them: exact per episode, accumulated over the dataset one episode at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# min, max, mean, std, count and the quantiles of a feature; each an array.
FeatureStats = Mapping[str, "NDArray[Any]"]

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
# Frames per episode for image statistics; for copied videos, decoding them is the main cost.
MAX_SAMPLED_FRAMES = 16


def column_stats(columns: Mapping[str, NDArray[Any]]) -> dict[str, FeatureStats]:
    """Statistics over the steps of an episode, computed for all columns at once because numpy's cost is per call.

    Args:
        columns: (T, D) each, T >= 1 the same for all, of any number type; min and max keep the type.

    Returns:
        By column, arrays (D,) and `count` (1,); the standard deviation is of the population (divided by T).
    """
    import numpy as np

    all_values = np.concatenate([values.astype(np.float64) for values in columns.values()], axis=1)
    all_stats = {
        "min": all_values.min(axis=0),
        "max": all_values.max(axis=0),
        "mean": all_values.mean(axis=0),
        "std": all_values.std(axis=0),
        **dict(zip(QUANTILES, np.quantile(all_values, list(QUANTILES.values()), axis=0), strict=True)),
    }
    stats_by_column: dict[str, FeatureStats] = {}
    start = 0
    for name, values in columns.items():
        stats = {stat: array[start : start + values.shape[1]] for stat, array in all_stats.items()}
        extremes = {stat: stats[stat].astype(values.dtype) for stat in ("min", "max")}
        stats_by_column[name] = {**stats, **extremes, "count": np.array([len(values)])}
        start += values.shape[1]
    return stats_by_column


def image_stats(images: NDArray[np.uint8]) -> FeatureStats:
    """Statistics per channel, scaled to [0, 1].

    Args:
        images: (K, H, W, 3) RGB, K >= 1.

    Returns:
        Arrays (3, 1, 1), `count` (1,) = K.
    """
    import numpy as np

    bins = np.stack([np.bincount(images[..., c].ravel(), minlength=256) for c in range(3)])  # (3, 256)
    levels, total = np.arange(256) / 255.0, bins.sum(axis=1)
    mean = bins @ levels / total
    std = np.sqrt(np.maximum(bins @ levels**2 / total - mean**2, 0.0))
    cumulative = np.cumsum(bins, axis=1) / total[:, None]
    quantiles = {name: levels[(cumulative >= q).argmax(axis=1)] for name, q in QUANTILES.items()}
    low, high = levels[(bins > 0).argmax(axis=1)], levels[255 - (bins[:, ::-1] > 0).argmax(axis=1)]
    per_channel = {"min": low, "max": high, "mean": mean, "std": std, **quantiles}
    shaped = {name: value.reshape(3, 1, 1) for name, value in per_channel.items()}
    return {**shaped, "count": np.array([len(images)])}


class RunningStats:
    """Statistics of a feature over episodes: exact but for quantiles, which are averages weighted by count.

    LeRobot does the same; an exact quantile over a dataset would need all of its values at once.
    """

    def __init__(self) -> None:
        self._stats: dict[str, NDArray[Any]] = {}

    def add(self, stats: FeatureStats) -> None:
        """Add an episode."""
        import numpy as np

        if not self._stats:
            self._stats = dict(stats)
            return
        total = self._stats
        count, new_count = int(total["count"][0]), int(stats["count"][0])
        share = new_count / (count + new_count)
        step = stats["mean"] - total["mean"]
        variance = total["std"] ** 2 * (1 - share) + stats["std"] ** 2 * share + step**2 * share * (1 - share)
        self._stats = {
            "min": np.minimum(total["min"], stats["min"]),
            "max": np.maximum(total["max"], stats["max"]),
            "mean": total["mean"] + step * share,
            "std": np.sqrt(variance),
            "count": np.array([count + new_count]),
            **{name: total[name] + (stats[name] - total[name]) * share for name in QUANTILES},
        }

    def stats(self) -> FeatureStats:
        """Statistics over the episodes added so far; empty before the first."""
        return dict(self._stats)


def stats_to_lists(stats: FeatureStats) -> dict[str, Any]:
    """The same as nested lists of Python numbers, for JSON and Arrow."""
    return {name: value.tolist() for name, value in stats.items()}
