"""How likely each unit, mode, gripper end and rotation convention is, by names and pooled values."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, pi
from typing import TYPE_CHECKING, TypeVar

from ares.contract.contracts import NO_ESTIMATE, Estimate, Origin
from ares.contract.evidence import DimensionGroup, PooledContractEvidence, PooledSignal
from ares.signals import name_tokens

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
    following: Following, rate_hz: float, own_scores: Mapping[str, float], state_scores: Mapping[str, float]
) -> dict[tuple[str, str, str], float]:
    """Log-likelihood of the mode of an action, its unit and that of the state together.

    Args:
        following: How the state follows it.
        rate_hz: Steps per second.
        own_scores: Log-likelihoods of the units by the action's own values, if it is absolute.
        state_scores: Log-likelihoods of the units by the values of the state.
    """
    better = _CORRELATION_WEIGHT * (following.absolute - following.motion)
    farther = _DIFFERENCE_WEIGHT * min(max(0.0, following.difference - 0.3), 2.0)
    absolute, motion = min(better - farther, 6.0), min(-better, 6.0)
    scores: dict[tuple[str, str, str], float] = {}
    for (unit, own), (of, by_state) in itertools.product(own_scores.items(), state_scores.items()):
        limit = min(own, 0.0) if unit == "normalised" else 0.0
        slower = _NORMALISED_SPEED if unit == "normalised" else 0.0
        gains = (following.gains[0], following.gains[1], following.gains[1] * rate_hz)
        fits = [by_state + score_gain_for_units(gain, of, unit) for gain in gains]
        scores["absolute", unit, of] = absolute + own + fits[0]
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


_OPEN_WORDS = frozenset(["open", "opening", "opened", "openness", "width", "aperture"])
_CLOSED_WORDS = frozenset(["close", "closed", "closing", "closedness", "closure"])
_NAME_WEIGHT = 4.0
_WIDTH_WEIGHT = 3.5
# "gripper.pos" of LeRobot's motor buses is 0 to 100, 100 is open.
_LEROBOT_WEIGHT = 2.5
_BLOCKED_WEIGHT, _MOST_BLOCKED = 14.0, 4.0
_START_WEIGHT = 0.6
# A gripper from -1 to 1 comes nearer to its end than this; a finger, in metres, is within this of the middle.
_LEAST_SIGNED, _WIDEST_FINGER = -0.7, 0.06
_NOMINAL_RANGES = {"fraction": (0.0, 1.0), "signed": (-1.0, 1.0), "percent": (0.0, 100.0)}


def score_gripper_ranges(values: ValueRange) -> dict[str, float]:
    """Log-likelihoods of the range of a gripper; none where it has one value.

    "fraction" is 0 to 1, "signed" -1 to 1, "percent" 0 to 100, "m" and "mm" a width, "rad" and "deg" a motor.
    """
    low, high = values.low, values.high
    if high - low < 1e-6:
        return {}
    size = values.size
    motor = {
        "rad": -9.0
        if size > 3.2
        else -1.0
        if low < -1.1 or high > 1.25 or _LEAST_SIGNED <= low < -0.1
        else -4.0,
        "deg": -9.0 if size <= 3.2 else -0.5 if low < -10 or high > 130 else -4.0,
    }
    fingers = size <= _WIDEST_FINGER  # two that move apart: one of them is below 0
    opening = 0.0 if high > 0.7 else -1.5 if high > 0.3 else -4.5
    return motor | {
        "fraction": opening if low >= -0.1 and high <= 1.25 else -9.0,
        "signed": (0.5 if low < _LEAST_SIGNED else -2.0) if -1.1 <= low < -0.3 and high <= 1.1 else -9.0,
        "percent": (0.0 if high > 20 else -2.0) if low >= -10 and 3 < high <= 130 else -9.0,
        "m": (0.0 if high <= 0.11 else -2.0) if fingers or (low >= -0.01 and 0.005 < high <= 0.2) else -9.0,
        "mm": -4.0 if low >= -2 and 15 < high <= 200 else -9.0,
    }


def estimate_gripper_open_end(
    evidence: PooledContractEvidence,
    state: DimensionGroup | None,
    action: DimensionGroup | None,
    pairs: Sequence[int],
    units: tuple[Estimate, Estimate],
) -> tuple[Estimate, Estimate]:
    """Which end is open, in the state and in the action.

    Args:
        evidence: Of the dataset.
        state: Gripper dimensions of the state.
        action: Gripper dimensions of the action.
        pairs: Numbers of the pairs between them.
        units: Ranges of state and action.
    """
    of_state = _own_score(state, units[0]) + _start_score(evidence, state)
    of_action = _own_score(action, units[1])
    sign = _level_sign(evidence, pairs)
    if not sign:
        return _open_end_estimate(of_state, state), _open_end_estimate(of_action, action)
    blocked = _blocked_score(evidence, state, action, pairs, units, sign) if state and action else 0.0
    total = of_state + sign * of_action + blocked
    return _open_end_estimate(total, state), _open_end_estimate(sign * total, action)


def _open_end_estimate(score: float, group: DimensionGroup | None) -> Estimate:
    """Of a log-likelihood ratio, positive where the high end is open."""
    if group is None or score == 0:
        return NO_ESTIMATE
    is_named = bool((_OPEN_WORDS | _CLOSED_WORDS) & group.words)
    return scores_to_estimate(
        {"high is open": score, "high is closed": 0.0}, "names" if is_named else "values"
    )


def _own_score(group: DimensionGroup | None, unit: Estimate) -> float:
    if group is None:
        return 0.0
    words = group.words
    score = _NAME_WEIGHT * (bool(_OPEN_WORDS & words) - bool(_CLOSED_WORDS & words))
    if unit.value in ("m", "mm"):
        score += _WIDTH_WEIGHT
    is_lerobot = unit.value == "percent" and all(name.endswith(".pos") for name in group.names)
    return score + (_LEROBOT_WEIGHT if is_lerobot else 0.0)


def _start_score(evidence: PooledContractEvidence, group: DimensionGroup | None) -> float:
    """Most episodes begin with an open gripper, though not those of arms that rest closed."""
    if group is None:
        return 0.0
    numbers = list(group.numbers)
    low, high = evidence.state.low[numbers], evidence.state.high[numbers]
    share = (evidence.state.starts[:, numbers] - low) / _nonzero_spans(low, high)
    return _START_WEIGHT * float((share > 0.85).mean() - (share < 0.15).mean())


def _level_sign(evidence: PooledContractEvidence, pairs: Sequence[int]) -> int:
    """1 where state and action rise together, -1 where one falls, 0 where the data cannot say."""
    import numpy as np

    if not len(pairs):
        return 0
    level = float(np.mean(evidence.pairs.level_sign[list(pairs)]))
    return int(np.sign(level)) if abs(level) >= _FOLLOWS else 0


def _blocked_score(
    evidence: PooledContractEvidence,
    state: DimensionGroup,
    action: DimensionGroup,
    pairs: Sequence[int],
    units: tuple[Estimate, Estimate],
    sign: int,
) -> float:
    """An object keeps the fingers from the closed end: the state stays away from it although the command is there."""
    import numpy as np

    ends = evidence.pairs.ends[..., list(pairs)]
    follower = _as_share(ends[:, 0], units[0].value, evidence.state, state)
    command = _as_share(ends[:, 1], units[1].value, evidence.action, action)
    if follower is None or command is None:
        return 0.0
    if sign < 0:  # the low end of the command is the high end of the state
        follower, command = follower[:, ::-1], 1 - command[:, ::-1]
    gaps = _finite_median(follower[:, 0] - command[:, 0]) - _finite_median(command[:, 1] - follower[:, 1])
    return float(np.clip(_BLOCKED_WEIGHT * gaps, -_MOST_BLOCKED, _MOST_BLOCKED))


def _as_share(
    levels: NDArray[np.float64], unit: str, signal: PooledSignal, group: DimensionGroup
) -> NDArray[np.float64] | None:
    """Levels as shares of the range that a gripper of this unit has; None where the unit does not say the range."""
    if unit in _NOMINAL_RANGES:
        low, high = _NOMINAL_RANGES[unit]
    elif unit in ("m", "mm"):
        low, high = 0.0, float(signal.high[list(group.numbers)].max())
    else:
        return None
    return (levels - low) / (high - low)


def _finite_median(values: NDArray[np.float64]) -> float:
    """The median of the finite values; 0 without any: an end that is never commanded shows no gap."""
    import numpy as np

    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else 0.0


def _nonzero_spans(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.where(high > low, high - low, 1)


_EULER_WORDS = frozenset(["roll", "pitch", "yaw", "euler", "rpy", "droll", "dpitch", "dyaw"])
_VECTOR_WORDS = frozenset(["rotvec", "axis", "angle", "axisangle"])
_UR_WORDS = frozenset(["rx", "ry", "rz"])
_QUATERNION_ORDERS = {"xyzw": "quaternion xyzw", "wxyz": "quaternion wxyz"}
# Names decide where they say it; rx, ry, rz are an axis-angle on most robots and Euler angles on some.
_NAME_SCORE, _UR_SCORE = 5.0, 1.5
_TOLERANCE = 0.02
# Weak: a gripper that points down has a large x instead of w.
_POSITIVE_SCORE = 1.5


def rotation_estimate(group: DimensionGroup, signal: PooledSignal) -> Estimate:
    """The convention of a group of rotations, of one arm or of two."""
    numbers = list(group.numbers)
    width = len(numbers) // _num_arms(group)
    first = numbers[:width]
    if width == 3:
        return _three_values(group, signal.low[first], signal.high[first])
    if width == 4:
        return _quaternion_order_estimate(group.names[:4], signal, first)
    if width == 6:
        is_named = {"6", "d"} <= group.words or "rot6d" in group.words
        is_bounded = bool((signal.low[first] > -1.02).all() and (signal.high[first] < 1.02).all())
        return scores_to_estimate({"6d": 5.0 if is_named or is_bounded else 0.0, "euler": 0.0}, "values")
    return NO_ESTIMATE


def _num_arms(group: DimensionGroup) -> int:
    is_double = {"left", "right"} <= group.words and len(group.numbers) % 2 == 0
    return 2 if is_double or len(group.numbers) == 8 else 1


def _three_values(group: DimensionGroup, low: NDArray[np.float64], high: NDArray[np.float64]) -> Estimate:
    """An axis-angle may have a second value beyond a quarter turn, a pitch may not; small turns say nothing."""
    words = group.words
    if words & _EULER_WORDS:
        return scores_to_estimate({"euler": _NAME_SCORE, "axis-angle": 0.0}, "names")
    if words & _VECTOR_WORDS:
        return scores_to_estimate({"axis-angle": _NAME_SCORE, "euler": 0.0}, "names")
    pitch = max(abs(float(low[1])), abs(float(high[1])))
    is_vector = 1.02 * pi / 2 < pitch < 1.02 * pi
    scores = {"axis-angle": 3.0 if is_vector else 0.0, "euler": 0.0}
    scores["axis-angle"] += _UR_SCORE if words & _UR_WORDS else 0.0
    return scores_to_estimate(scores, "values")


def _quaternion_order_estimate(names: tuple[str, ...], signal: PooledSignal, numbers: list[int]) -> Estimate:
    if signal.norm_error[numbers[0]] > _TOLERANCE:
        return NO_ESTIMATE
    letters = "".join(_axis_letter(name) for name in names)
    if letters in _QUATERNION_ORDERS:
        return scores_to_estimate(
            {
                order: _NAME_SCORE if order == _QUATERNION_ORDERS[letters] else 0.0
                for order in _QUATERNION_ORDERS.values()
            },
            "names",
        )
    return scores_to_estimate(_order_scores(signal.low[numbers], signal.high[numbers]), "values")


def _axis_letter(name: str) -> str:
    """The axis of a quaternion that a name says: "qx", "quat_w"."""
    word = name_tokens(name)[-1]
    return word[-1] if word in {"x", "y", "z", "w", "qx", "qy", "qz", "qw"} else "?"


def _order_scores(low: NDArray[np.float64], high: NDArray[np.float64]) -> dict[str, float]:
    """Many libraries keep w positive: the end of the four that never is negative, while the other three cross 0."""
    is_positive, crosses = low >= 0, (low < -0.02) & (high > 0.02)
    first, last = bool(is_positive[0]), bool(is_positive[3])
    score = _POSITIVE_SCORE * (
        (last and not first and bool(crosses[0])) - (first and not last and bool(crosses[3]))
    )
    return {"quaternion xyzw": score + 1e-6, "quaternion wxyz": 0.0}
