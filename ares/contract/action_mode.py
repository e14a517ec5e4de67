"""How likely each mode of an action is, by how the state follows it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.contract.candidates import score_gain_for_units
from ares.contract.evidence import PooledContractEvidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A dimension moves where its range is at least this share of that of the dimension that moves most.
_MOVING_SHARE = 0.05
_CORRELATION_WEIGHT = 14.0
_DIFFERENCE_WEIGHT = 3.0
# A dimension follows its command, or its reverse, from this correlation on.
_FOLLOWS = 0.3
# Normalised motions are called deltas: by any factor a speed is one too.
_NORMALISED_SPEED = -4.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Following:
    """How the dimensions of a group follow their action.

    Attributes:
        absolute: Correlation of the changes of state and action at the best lag, mean over dimensions that move.
        motion: Correlation of the changes of the state with the action itself, likewise.
        difference: Difference of state and action over the range of the state, median over the dimensions that move.
        gains: Change of the state per change of the action, and per action, at the best lags; medians.
        lag_steps: Best lag, of the better of the two.
        signs: For each pair 1, -1, or 0 where it does not follow.
    """

    absolute: float
    motion: float
    difference: float
    gains: tuple[float, float]
    lag_steps: int
    signs: tuple[int, ...]


def measure_action_following(
    evidence: PooledContractEvidence, pairs: Sequence[int], states: Sequence[int]
) -> Following | None:
    """How some pairs follow; None where none of them moves.

    Args:
        evidence: Of the dataset.
        pairs: Numbers of the pairs.
        states: Number of the state's dimension of each.
    """
    import numpy as np

    ranges = evidence.state.range[list(states)]
    is_moving = (ranges > _MOVING_SHARE * ranges.max()) & (ranges > 0) if len(ranges) else ranges > 0
    if not is_moving.any():
        return None
    moving_pairs = np.asarray(pairs)[is_moving]
    correlations = evidence.pairs.correlations[:, :, moving_pairs]
    means = np.abs(correlations).mean(axis=2)
    lags = means.argmax(axis=1)
    better = int(means.max(axis=1).argmax())
    signed = evidence.pairs.correlations[better, lags[better]][list(pairs)]
    difference = evidence.pairs.difference[moving_pairs] / ranges[is_moving]
    return Following(
        absolute=float(means[0].max()),
        motion=float(means[1].max()),
        difference=float(np.median(difference)),
        gains=_median_gains(evidence, moving_pairs, lags),
        lag_steps=int(lags[better]),
        signs=tuple(int(np.sign(value)) if abs(value) > _FOLLOWS else 0 for value in signed),
    )


def _median_gains(
    evidence: PooledContractEvidence, pairs: NDArray[np.int64], lags: NDArray[np.int64]
) -> tuple[float, float]:
    import numpy as np

    absolute, motion = (
        float(np.median(np.abs(evidence.pairs.gains[number, lags[number]][pairs]))) for number in range(2)
    )
    return absolute, motion


def log_likelihoods_of_mode_and_units(
    following: Following,
    rate_hz: float,
    action_scores: Mapping[str, float],
    state_scores: Mapping[str, float],
) -> dict[tuple[str, str, str], float]:
    """Log-likelihood of the mode of an action, its unit and that of the state together.

    Args:
        following: How the state follows it.
        rate_hz: Steps per second.
        action_scores: Log-likelihoods of the units by the action's values, if it is absolute.
        state_scores: Log-likelihoods of the units by the values of the state.
    """
    better = _CORRELATION_WEIGHT * (following.absolute - following.motion)
    farther = _DIFFERENCE_WEIGHT * min(max(0.0, following.difference - 0.3), 2.0)
    absolute, motion = min(better - farther, 6.0), min(-better, 6.0)
    scores: dict[tuple[str, str, str], float] = {}
    for (unit, by_action), (of, by_state) in itertools.product(action_scores.items(), state_scores.items()):
        limit = min(by_action, 0.0) if unit == "normalised" else 0.0
        slower = _NORMALISED_SPEED if unit == "normalised" else 0.0
        gains = (following.gains[0], following.gains[1], following.gains[1] * rate_hz)
        fits = [by_state + score_gain_for_units(gain, of, unit) for gain in gains]
        scores["absolute", unit, of] = absolute + by_action + fits[0]
        scores["delta", unit, of] = motion + limit + fits[1]
        scores["velocity", unit, of] = motion + limit + fits[2] + slower
    return scores


def score_action_mode_by_level(
    low: NDArray[np.float64], high: NDArray[np.float64], middle: NDArray[np.float64]
) -> dict[str, float]:
    """Log-likelihoods of the mode where no state is comparable: motions are centred at 0, positions seldom are."""
    import numpy as np

    span = high - low
    is_moving = span > 0
    if not is_moving.any():
        return {}
    away = np.abs(middle[is_moving]) / span[is_moving]
    share = float((away > 0.35).mean())
    return {"absolute": 6 * min(share, 0.5) - 0.5, "delta": 0.0, "velocity": -1.0}
