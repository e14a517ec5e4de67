"""What the values of one episode say of the kind of each dimension, where its name says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.quality.kinds.quaternions import quaternion_starts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A derivative correlates so with the changes of another dimension, and has their size within a third.
_DERIVATIVE_CORRELATION = 0.97
_DERIVATIVE_RATIO = (0.75, 1.33)
# Fingers of one hand move together.
_FINGER_CORRELATION = 0.9
_END_WIDTH = 0.1
# Neighbours explain all but so much of a smooth motion, as a share of the range.
_SMOOTH_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueEvidence:
    """What the values of an episode say of each of D dimensions.

    Attributes:
        is_clock: (D,) whether it rises by equal steps.
        is_quaternion: (D,) whether it is one of four neighbours whose squares sum to 1.
        is_derivative: (D,) whether it is the speed of another dimension.
        num_coupled: (D,) other dimensions that move together with it.
        end_share: (D,) share of the steps near its smallest or largest value.
        is_smooth: (D,) whether it moves without noise or jumps.
    """

    is_clock: NDArray[np.bool_]
    is_quaternion: NDArray[np.bool_]
    is_derivative: NDArray[np.bool_]
    num_coupled: NDArray[np.intp]
    end_share: NDArray[np.float64]
    is_smooth: NDArray[np.bool_]


def value_evidence(values: NDArray[np.float64], rate_hz: float) -> ValueEvidence:
    """The evidence of one episode (T, D) of at least five steps, all finite."""
    import numpy as np

    changes = np.diff(values, axis=0)
    ranges = np.ptp(values, axis=0)
    moves = ranges > 0
    mean = changes.mean(axis=0)
    share = (values - values.min(axis=0)) / np.where(moves, ranges, 1)
    bends = values[1:-1] - (values[2:] + values[:-2]) / 2
    return ValueEvidence(
        is_clock=moves & (mean > 0) & (changes.std(axis=0) < 0.01 * np.abs(mean)),
        is_quaternion=_quaternions(values),
        is_derivative=moves & _derivatives(values, changes * rate_hz),
        num_coupled=(np.abs(_correlations(values, values)) > _FINGER_CORRELATION).sum(axis=1) - moves,
        end_share=(np.minimum(share, 1 - share) < _END_WIDTH).mean(axis=0),
        is_smooth=moves & (np.quantile(np.abs(bends), 0.9, axis=0) < _SMOOTH_SHARE * ranges),
    )


def _quaternions(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    import numpy as np

    inside = np.zeros(values.shape[1], dtype=bool)
    for start in quaternion_starts(values):
        inside[start : start + 4] = True
    return inside


def _correlations(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L, R) correlations of the columns of (T, L) and (T, R); 0 for one that is constant."""
    import numpy as np

    units = []
    for part in (left, right):
        centred = part - part.mean(axis=0)
        norms = np.linalg.norm(centred, axis=0)
        units.append(centred / np.where(norms > 1e-9 * np.sqrt(len(part)), norms, np.inf))
    correlations: NDArray[np.float64] = units[0].T @ units[1]
    return correlations


def _derivatives(values: NDArray[np.float64], speeds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(D,) whether a dimension of the values (T, D) is the speed of another, from the speeds (T - 1, D)."""
    import numpy as np

    means = (values[1:] + values[:-1]) / 2
    spreads, own = speeds.std(axis=0), means.std(axis=0)
    ratio = own[:, None] / np.where(spreads > 0, spreads, np.inf)
    low, high = _DERIVATIVE_RATIO
    matches = (_correlations(means, speeds) > _DERIVATIVE_CORRELATION) & (ratio > low) & (ratio < high)
    np.fill_diagonal(matches, False)
    return np.asarray(matches.any(axis=1))
