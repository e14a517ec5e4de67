"""How likely each convention of a rotation is, by names and pooled values."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

from ares.contract.candidates import scores_to_estimate
from ares.contract.contracts import NO_ESTIMATE, Estimate
from ares.contract.evidence import DimensionGroup, PooledSignal
from ares.signals import name_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
