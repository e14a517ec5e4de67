"""How likely each unit of joints and positions is, by pooled values, and scores as estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log, pi
from typing import TYPE_CHECKING, TypeVar

from ares.contract.contracts import NO_ESTIMATE, Estimate, Origin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Size of one unit in the first of its kind; other units cannot be compared by size.
_SIZES: Mapping[str, float] = {"rad": 1.0, "deg": pi / 180, "m": 1.0, "mm": 0.001}
_ANGLES, _LENGTHS = frozenset({"rad", "deg"}), frozenset({"m", "mm"})
# One turn and the rounding of a wrapped angle; two turns of a wrist that is not wrapped.
_TURN, _TWO_TURNS = 6.6, 13.0
_TURN_DEGREES, _TWO_TURNS_DEGREES = 360.0, 730.0
# Encoders of servos count to 1023, 4095 or 16383 in a turn; several turns of a large one.
_MOST_TICKS = 70_000.0
# Episodes in another unit: a degree is 57 times smaller than a radian, and poses differ.
_LEAST_RADIANS, _UNIT_FACTOR, _LARGEST_UNIT_FACTOR = 0.2, 20.0, 170.0
# Motions by a factor apart from each other are as improbable as so many nats per nat of the factor.
_GAIN_WIDTH = 0.35
_WORST_GAIN = 8.0


@dataclass(frozen=True, slots=True)
class ValueRange:
    """The values of a group of dimensions.

    Attributes:
        low: Smallest value.
        high: Largest value.
        num_large: Dimensions that leave the range from -1 to 1.
        num_dimensions: Dimensions that have another value than 0.
        at_unit: Share of the steps that are exactly 1 or -1, in the dimension with most.
        at_hundred: Share of the steps that are exactly 100 or -100, in the dimension with most.
        is_whole: Whether all values are whole numbers.
    """

    low: float
    high: float
    num_large: int
    num_dimensions: int
    at_unit: float
    at_hundred: float
    is_whole: bool = False

    @property
    def size(self) -> float:
        """Largest absolute value."""
        return max(abs(self.low), abs(self.high))


def value_range(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    at_unit: NDArray[np.float64],
    at_hundred: NDArray[np.float64],
    is_whole: NDArray[np.float64],
) -> ValueRange:
    """The range of dimensions (D,); D is at least 1."""
    import numpy as np

    size = np.maximum(np.abs(low), np.abs(high))
    return ValueRange(
        low=float(low.min()),
        high=float(high.max()),
        num_large=int((size > 1.001).sum()),
        num_dimensions=int((size > 0).sum()),
        at_unit=float(at_unit.max()),
        at_hundred=float(at_hundred.max()),
        is_whole=bool(is_whole.min() >= 1),
    )


def score_angle_units(values: ValueRange) -> dict[str, float]:
    """Log-likelihoods of the units of joint angles; none where nothing differs from 0."""
    size = values.size
    if size == 0:
        return {}
    return {
        "rad": 0.0 if size <= _TURN else -3.0 if size <= _TWO_TURNS else -12.0,
        "deg": _degree_score(values),
        "ticks": _tick_score(values),
        "percent": _percent_score(values),
        "normalised": _normalised_score(values),
    }


def _degree_score(values: ValueRange) -> float:
    """Degrees end at two turns, which no joint of an arm goes beyond."""
    if values.size <= _TURN:
        return -4.0 - 0.5 * values.num_dimensions
    return -0.7 if values.size <= 100 else 0.0 if values.size <= _TWO_TURNS_DEGREES else -12.0


def _tick_score(values: ValueRange) -> float:
    """Steps of a servo's encoder: beyond two turns in degrees and within its range, or whole numbers of hundreds."""
    if not _TURN_DEGREES < values.size <= _MOST_TICKS:
        return -12.0
    if values.size > _TWO_TURNS_DEGREES:
        return 0.0
    return 3.5 if values.is_whole and values.low >= 0 else -6.0


def _percent_score(values: ValueRange) -> float:
    """Percent of the range of a joint, from -100 to 100: clipped there, or a little beyond for a leader arm."""
    if values.size <= _TURN:
        return -10.0
    if values.at_hundred > 0 and values.size < 130:
        return 4.0
    return -0.7 if values.size <= 100 else -4.0 if values.size < 130 else -12.0


def _normalised_score(values: ValueRange) -> float:
    if values.size > 1.001:
        return -8.0
    return 2.0 if values.at_unit > 0 else -3.0


def score_length_units(values: ValueRange) -> dict[str, float]:
    """Log-likelihoods of the units of positions; none where nothing differs from 0."""
    size = values.size
    if size == 0:
        return {}
    return {
        "m": 0.0 if size <= 3 else -3.0 if size <= 10 else -12.0,
        "mm": -6.0 if size <= 10 else 0.0,
        "normalised": _normalised_score(values) - 2,
    }


def mixed_angle_units(sizes: NDArray[np.float64]) -> tuple[str, ...]:
    """Units of joints that are not the same in all episodes: some within a turn in radians, others of degrees.

    Args:
        sizes: (N,) largest absolute value of each episode.
    """
    import numpy as np

    large, small = sizes[sizes > _TWO_TURNS], sizes[(sizes > _LEAST_RADIANS) & (sizes <= _TURN)]
    if not len(large) or not len(small):
        return ()
    factor = float(np.median(large) / np.median(small))
    return ("rad", "deg") if _UNIT_FACTOR <= factor <= _LARGEST_UNIT_FACTOR else ()


def score_gain_for_units(gain: float, state_unit: str, action_unit: str) -> float:
    """Log-likelihood that a state of one unit moves by the gain for each unit of its action.

    Args:
        gain: Change of the state per commanded change.
        state_unit: Unit of the state.
        action_unit: Unit of the action.
    """
    if gain <= 0:
        return -_WORST_GAIN
    if "normalised" in (state_unit, action_unit) and state_unit != action_unit:
        return -2.5  # any factor
    if state_unit == action_unit:
        factor = 1.0
    elif {state_unit, action_unit} <= _ANGLES or {state_unit, action_unit} <= _LENGTHS:
        factor = _SIZES[action_unit] / _SIZES[state_unit]
    else:
        return -_WORST_GAIN
    return -min(abs(log(gain / factor)) / _GAIN_WIDTH, _WORST_GAIN)


Key = TypeVar("Key", str, tuple[str, str, str])
# No value is ruled out entirely by values alone.
_FLOOR = 0.005
_LEAST_KEPT = 0.02


def scores_to_estimate(scores: Mapping[str, float], origin: Origin) -> Estimate:
    """The estimate of log-likelihoods; one without candidates where all are alike."""
    if not scores or (len(scores) > 1 and max(scores.values()) - min(scores.values()) < 1e-9):
        return NO_ESTIMATE
    shares = normalize_log_likelihoods(scores)
    kept = {value: share for value, share in shares.items() if share >= _LEAST_KEPT}
    return Estimate(candidates=kept, origin=origin)


def normalize_log_likelihoods(scores: Mapping[Key, float]) -> dict[Key, float]:
    """Probabilities that sum to 1, from log-likelihoods."""
    best = max(scores.values())
    weights = {value: exp(score - best) + _FLOOR / len(scores) for value, score in scores.items()}
    total = sum(weights.values())
    return {value: weight / total for value, weight in weights.items()}
