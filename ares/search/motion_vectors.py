"""Makes one vector of the trajectory of a signal: features resampled in time and scaled robustly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json


# Samples of a trajectory, evenly over its duration, so that the same motion at another speed has the same vector.
_STEPS = 32
# Values beyond this many robust standard deviations are outliers and are clipped.
_CLIP = 4.0
# Interquartile range of a normal distribution, in standard deviations.
_IQR = 1.349


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureScale:
    """Centre and spread of each feature over a dataset, from median and quartiles.

    Attributes:
        centre: W medians.
        spread: W robust standard deviations; 0 for a feature that never changes and is ignored.
    """

    centre: tuple[float, ...]
    spread: tuple[float, ...]

    def to_json(self) -> dict[str, Json]:
        """The document to store."""
        return {"centre": list(self.centre), "spread": list(self.spread)}


def read_feature_scale(document: Mapping[str, Json]) -> FeatureScale:
    """Read the document of `FeatureScale.to_json`."""
    return FeatureScale(centre=tuple(document["centre"]), spread=tuple(document["spread"]))  # type: ignore[arg-type]


def fit_feature_scale(features: NDArray[np.float64]) -> FeatureScale:
    """The scale of a sample of features (N, W); rows that are not finite are ignored."""
    import numpy as np

    features = features[np.isfinite(features).all(axis=1)]
    if not len(features):
        zeros = (0.0,) * features.shape[1]
        return FeatureScale(centre=zeros, spread=zeros)
    low, centre, high = np.percentile(features, [25, 50, 75], axis=0)
    robust, plain = (high - low) / _IQR, features.std(axis=0)
    # A gripper that is open most of the time has equal quartiles, but it moves.
    spread = np.where(robust > 1e-3 * plain, robust, plain)
    spread[plain <= 1e-6 * np.maximum(1.0, np.abs(centre))] = 0.0
    return FeatureScale(centre=tuple(centre.tolist()), spread=tuple(spread.tolist()))


def compute_motion_vector(
    features: NDArray[np.float64], seconds: NDArray[np.float64], scale: FeatureScale
) -> NDArray[np.float32] | None:
    """The unit vector (32 * W + 1,) of a trajectory: resampled in time, scaled robustly, lifted onto a sphere.

    The last number is a constant before the vector is normalised, so that cosine similarity falls with the distance
    of two trajectories. Without it, two trajectories that hardly leave the centre would be compared by their noise.

    Args:
        features: (T, W) features.
        seconds: (T,) ascending.
        scale: Scale of the dataset.

    Returns:
        None for a trajectory that is empty or not finite.
    """
    import numpy as np

    if not len(features) or not np.isfinite(features).all():
        return None
    times = np.linspace(seconds[0], seconds[-1], _STEPS)
    sampled = np.stack([np.interp(times, seconds, column) for column in features.T], axis=1)
    centre, spread = np.array(scale.centre), np.array(scale.spread)
    is_constant = spread == 0
    scores = np.clip((sampled - centre) / np.where(is_constant, 1.0, spread), -_CLIP, _CLIP)
    scores[:, is_constant] = 0.0
    flat = np.append(scores.ravel() / np.sqrt(scores.size), 1.0)
    unit: NDArray[np.float32] = (flat / np.linalg.norm(flat)).astype(np.float32)
    return unit
