"""Statistics as LeRobot keeps them: per episode exact, over the dataset added up one episode at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# min, max, mean, std, count and the quantiles; each an array.
Stats = Mapping[str, "NDArray[Any]"]

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
# Frames of an episode that its image statistics are taken from: decoding copied videos is what they cost.
SAMPLES = 16


def of_columns(columns: Mapping[str, NDArray[Any]]) -> dict[str, Stats]:
    """Statistics over the steps of an episode; all columns at once, since numpy's cost is per call.

    Args:
        columns: (T, D) each, T >= 1 the same for all, of any number type; min and max keep it.

    Returns:
        By column, arrays (D,) and `count` (1,); deviations are those of the whole (divided by T).
    """
    import numpy as np

    wide = np.concatenate([values.astype(np.float64) for values in columns.values()], axis=1)
    whole = {
        "min": wide.min(axis=0),
        "max": wide.max(axis=0),
        "mean": wide.mean(axis=0),
        "std": wide.std(axis=0),
        **dict(zip(QUANTILES, np.quantile(wide, list(QUANTILES.values()), axis=0), strict=True)),
    }
    found: dict[str, Stats] = {}
    start = 0
    for name, values in columns.items():
        part = {stat: value[start : start + values.shape[1]] for stat, value in whole.items()}
        extremes = {stat: part[stat].astype(values.dtype) for stat in ("min", "max")}
        found[name] = {**part, **extremes, "count": np.array([len(values)])}
        start += values.shape[1]
    return found


def of_images(images: NDArray[np.uint8]) -> Stats:
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
    share = np.cumsum(bins, axis=1) / total[:, None]
    found = {name: levels[(share >= q).argmax(axis=1)] for name, q in QUANTILES.items()}
    low, high = levels[(bins > 0).argmax(axis=1)], levels[255 - (bins[:, ::-1] > 0).argmax(axis=1)]
    per_channel = {"min": low, "max": high, "mean": mean, "std": std, **found}
    shaped = {name: value.reshape(3, 1, 1) for name, value in per_channel.items()}
    return {**shaped, "count": np.array([len(images)])}


class Totals:
    """Statistics of a feature over episodes: exact but for quantiles, which are averages weighted by count.

    So does LeRobot; an exact quantile over a dataset would need all of it at once.
    """

    def __init__(self) -> None:
        self._stats: dict[str, NDArray[Any]] = {}

    def add(self, stats: Stats) -> None:
        """Take in another episode."""
        import numpy as np

        if not self._stats:
            self._stats = dict(stats)
            return
        mine = self._stats
        count, other = int(mine["count"][0]), int(stats["count"][0])
        share = other / (count + other)
        step = stats["mean"] - mine["mean"]
        variance = mine["std"] ** 2 * (1 - share) + stats["std"] ** 2 * share + step**2 * share * (1 - share)
        self._stats = {
            "min": np.minimum(mine["min"], stats["min"]),
            "max": np.maximum(mine["max"], stats["max"]),
            "mean": mine["mean"] + step * share,
            "std": np.sqrt(variance),
            "count": np.array([count + other]),
            **{name: mine[name] + (stats[name] - mine[name]) * share for name in QUANTILES},
        }

    def stats(self) -> Stats:
        """What has been added so far; empty before the first."""
        return dict(self._stats)


def to_lists(stats: Stats) -> dict[str, Any]:
    """The same as nested lists of Python numbers, for JSON and Arrow."""
    return {name: value.tolist() for name, value in stats.items()}
