"""Measures of the path of an arm over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares_annotators.motion.columns import MotionGroup
from ares_annotators.motion.periods import compute_sorted_quantile
from ares_annotators.motion.smoothness import (
    MIN_PEAK_SPEED,
    compute_movement_jerk,
    compute_movement_sparc,
    count_movements,
    count_sign_changes,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# An arm is idle below this share of its usual speed, the mean of its speed weighted by the way.
IDLE_SHARE_OF_SPEED = 0.1
# A turn counts between speeds of at least this share of the usual speed of its dimension.
_TURN_SHARE = 0.2
# An arm that spreads less than this share of the widest is parked: what it does is noise.
_PARKED_SHARE = 0.05
_MIN_SPREAD = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathMeasures:
    """Measures of the path of one arm in one space.

    Attributes:
        group: Its dimensions.
        spread: Standard deviation of the path, in its unit.
        length: Its length, in its unit.
        mean_speed: Mean speed while it moves, units per second.
        peak_speed: 95th percentile of the speed while it moves.
        jerk: See `compute_movement_jerk`; None for a path at rest.
        sparc: See `compute_movement_sparc`; None for a path at rest.
        moving: (N - 1,) whether it moves, at the common rate.
        period: Seconds between them.
        turns: (D,) changes of direction of each dimension that moves.
    """

    group: MotionGroup
    spread: float
    length: float
    mean_speed: float
    peak_speed: float
    jerk: float | None
    sparc: float | None
    moving: NDArray[np.bool_]
    period: float
    turns: NDArray[np.intp]


def measure_path(group: MotionGroup, values: NDArray[np.float64], period: float) -> PathMeasures:
    """The measures of one path.

    Args:
        group: Its dimensions.
        values: (N, D) at equal periods, N at least 2.
        period: Seconds between them.
    """
    import numpy as np

    velocity = np.diff(values, axis=0) / period
    speeds = np.linalg.norm(velocity, axis=1)
    usual = float((speeds**2).sum() / speeds.sum()) if speeds.sum() > 0 else 0.0
    moving = speeds > max(IDLE_SHARE_OF_SPEED * usual, MIN_PEAK_SPEED)
    spread = float(np.sqrt(values.var(axis=0).sum()))
    rests = spread < _MIN_SPREAD or not moving.any()
    movements = 1.0 if rests else count_movements(values)
    peak = 0.0 if rests else float(compute_sorted_quantile(np.sort(speeds[moving]), 0.95))
    return PathMeasures(
        group=group,
        spread=spread,
        length=float(speeds.sum() * period),
        mean_speed=0.0 if rests else float(speeds[moving].mean()),
        peak_speed=peak,
        jerk=None if rests else compute_movement_jerk(values, period, moving, peak, movements),
        sparc=None if rests else compute_movement_sparc(speeds, period, movements),
        moving=moving,
        period=period,
        turns=_count_turns(velocity, values),
    )


def _count_turns(velocity: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Changes of direction of each dimension that moves, (D,)."""
    import numpy as np

    ranges = np.ptp(values, axis=0)
    velocity = velocity[:, ranges > max(_MIN_SPREAD, 0.1 * float(ranges.max()))]
    sums = np.abs(velocity).sum(axis=0)
    usual = (velocity**2).sum(axis=0) / np.maximum(sums, MIN_PEAK_SPEED)
    return count_sign_changes(velocity, _TURN_SHARE * usual)


def drop_parked_arms(paths: Sequence[PathMeasures]) -> list[PathMeasures]:
    """The paths of one space without those of parked arms."""
    widest = max((path.spread for path in paths), default=0.0)
    return [path for path in paths if path.spread >= max(_PARKED_SHARE * widest, _MIN_SPREAD)]


def combine_path_measures(
    paths: Sequence[PathMeasures],
) -> tuple[float, float, float, float | None, float | None]:
    """Length, mean speed, peak speed, jerk and arc length of all arms in one space, which must not be empty.

    Lengths are summed, speeds those of the faster arm, smoothness the mean of the arms that move, by their lengths.
    """
    moving = drop_parked_arms(paths)
    return (
        sum(path.length for path in paths),
        max((path.mean_speed for path in moving), default=0.0),
        max((path.peak_speed for path in moving), default=0.0),
        _weighted_mean([(path.length, path.jerk) for path in moving if path.jerk is not None]),
        _weighted_mean([(path.length, path.sparc) for path in moving if path.sparc is not None]),
    )


def _weighted_mean(weighted: Sequence[tuple[float, float]]) -> float | None:
    total = sum(weight for weight, _ in weighted)
    return sum(weight * value for weight, value in weighted) / total if total > 0 else None
