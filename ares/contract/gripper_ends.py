"""How likely each range of a gripper is, and which of its ends is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.contract.candidates import ValueRange, scores_to_estimate
from ares.contract.contracts import NO_ESTIMATE, Estimate
from ares.contract.evidence import DimensionGroup, PooledContractEvidence, PooledSignal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# State and action rise together, or one falls, from this correlation of their levels on.
_FOLLOWS = 0.3
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
    of_state = _group_score(state, units[0]) + _start_score(evidence, state)
    of_action = _group_score(action, units[1])
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


def _group_score(group: DimensionGroup | None, unit: Estimate) -> float:
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
