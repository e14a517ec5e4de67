"""Converts values from one unit, gripper convention, mode or rotation to another.

Rotations: Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1(3), 1978; Diebel, Representing attitude,
2006, for Euler angles and vectors; Zhou et al., On the continuity of rotation representations, CVPR 2019, for 6d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


if TYPE_CHECKING:
    Array = NDArray[np.float64]

# Kind of quantity and size of each unit that can be converted.
_UNIT_FACTORS: Mapping[str, tuple[str, float]] = {
    "rad": ("angle", 1.0),
    "deg": ("angle", pi / 180),
    "m": ("length", 1.0),
    "mm": ("length", 0.001),
}
# Ends of the range of a gripper in each unit that says them.
GRIPPER_RANGES: Mapping[str, tuple[float, float]] = {
    "fraction": (0.0, 1.0),
    "signed": (-1.0, 1.0),
    "percent": (0.0, 100.0),
}


@dataclass(frozen=True, slots=True)
class GripperConvention:
    """How a gripper is written.

    Attributes:
        low: Value at its low end.
        high: Value at its high end.
        is_high_open: Whether the high end is open.
    """

    low: float
    high: float
    is_high_open: bool


# Unit of each convention, and whether its high end is open: "open1" is 1 where open, 0 where closed.
GRIPPER_CONVENTIONS: Mapping[str, tuple[str, bool]] = {
    "open1": ("fraction", True),
    "close1": ("fraction", False),
    "open1-signed": ("signed", True),
    "close1-signed": ("signed", False),
    "open100": ("percent", True),
    "close100": ("percent", False),
}


def gripper_convention(name: str) -> GripperConvention:
    """The convention of a name. Raises RequestError that lists the names."""
    if name not in GRIPPER_CONVENTIONS:
        raise RequestError(f"no gripper convention {name!r}", f"there are: {', '.join(GRIPPER_CONVENTIONS)}")
    unit, is_high_open = GRIPPER_CONVENTIONS[name]
    return GripperConvention(*GRIPPER_RANGES[unit], is_high_open)


def unit_factor(source: str, target: str) -> float:
    """What a value in one unit is multiplied by to have it in another.

    Raises RequestError where there is no such factor: a percentage of the range of a joint is no angle.
    """
    if source == target:
        return 1.0
    kinds = [_UNIT_FACTORS.get(unit, ("", 0.0))[0] for unit in (source, target)]
    if not kinds[0] or kinds[0] != kinds[1]:
        raise RequestError(
            f"{source} cannot be converted to {target}", f"factors exist between {', '.join(_UNIT_FACTORS)}"
        )
    return _UNIT_FACTORS[source][1] / _UNIT_FACTORS[target][1]


def convert_gripper(values: Array, source: GripperConvention, target: GripperConvention) -> Array:
    """Gripper values (T, D) in another convention; linear, so that values between the ends stay between them."""
    share = (values - source.low) / (source.high - source.low)
    if source.is_high_open != target.is_high_open:
        share = 1 - share
    return target.low + share * (target.high - target.low)


def absolute_to_delta(values: Array, start: Array) -> Array:
    """Positions (T, D) as changes: the first from the start (D,), each other from the one before."""
    import numpy as np

    return np.diff(values, axis=0, prepend=start[None, :])


def delta_to_absolute(values: Array, start: Array) -> Array:
    """Changes (T, D) as positions: the start (D,) and all changes up to each step."""
    import numpy as np

    return np.asarray(start + np.cumsum(values, axis=0))


# Cosine of the pitch below which roll and yaw cannot be distinguished.
_UPRIGHT = 1e-7
# Numbers of one rotation in each convention.
WIDTHS: Mapping[str, int] = {
    "euler": 3,
    "axis-angle": 3,
    "quaternion xyzw": 4,
    "quaternion wxyz": 4,
    "6d": 6,
}


def convert_rotation(values: Array, source: str, target: str) -> Array:
    """Rotations (..., W) in one convention as (..., V) in another; see `WIDTHS`.

    Orders of a quaternion are exchanged exactly. Other ways lose only rounding, and which of the equal forms of a
    rotation it was: a quaternion and its negative, an angle and the angle with a whole turn more.

    Raises:
        RequestError: A convention is unknown, or the last axis has not its width.
    """
    for name in (source, target):
        if name not in WIDTHS:
            raise RequestError(f"no rotation convention {name!r}", f"there are: {', '.join(WIDTHS)}")
    if values.shape[-1] != WIDTHS[source]:
        raise RequestError(
            f"a rotation as {source} has {count_of(WIDTHS[source], 'number')}", f"got {values.shape[-1]}"
        )
    return _FROM_QUATERNION[target](_TO_QUATERNION[source](values))


# What a merge plan calls the forms of a rotation: convention, and the unit of angles.
ROTATION_FORMS: Mapping[str, tuple[str, str]] = {
    "euler": ("euler", "rad"),
    "euler deg": ("euler", "deg"),
    "axis-angle": ("axis-angle", "rad"),
    "axis-angle deg": ("axis-angle", "deg"),
    "xyzw": ("quaternion xyzw", ""),
    "wxyz": ("quaternion wxyz", ""),
    "6d": ("6d", ""),
}


def rotation_width(form: str) -> int:
    """How many numbers a rotation has in a form of `ROTATION_FORMS`."""
    return WIDTHS[ROTATION_FORMS[form][0]]


def convert_rotation_form(values: Array, source: str, target: str) -> Array:
    """Rotations (T, N W) of N arms in one form as (T, N V) in another; see `ROTATION_FORMS`.

    The quaternions of an arm have one sign: none jumps to its negative, and the first has no negative w.
    """
    import numpy as np

    (rotation, unit), (goal, goal_unit) = ROTATION_FORMS[source], ROTATION_FORMS[target]
    arms = values.shape[1] // WIDTHS[rotation]
    parts = values.reshape(len(values), arms, WIDTHS[rotation]) * (pi / 180 if unit == "deg" else 1.0)
    turned = convert_rotation(parts, rotation, goal)
    if goal.startswith("quaternion") and len(turned):
        flips = (turned[1:] * turned[:-1]).sum(axis=-1) < 0
        start = np.where(turned[0, :, -1 if goal.endswith("xyzw") else 0] < 0, -1.0, 1.0)
        signs = np.cumprod(np.concatenate([start[None], np.where(flips, -1.0, 1.0)]), axis=0)
        turned = turned * signs[..., None]
    turned = turned * (180 / pi if goal_unit == "deg" else 1.0)
    return np.asarray(turned.reshape(len(values), arms * WIDTHS[goal]))


def _from_wxyz(values: Array) -> Array:
    return values[..., [1, 2, 3, 0]]


def _to_wxyz(quaternions: Array) -> Array:
    return quaternions[..., [3, 0, 1, 2]]


def _unchanged_values(values: Array) -> Array:
    return values


def _from_axis_angle(values: Array) -> Array:
    import numpy as np

    angle = np.linalg.norm(values, axis=-1, keepdims=True)
    # np.sinc(x / pi) is sin(x) / x, and 1 at 0.
    return np.concatenate([values * np.sinc(angle / (2 * np.pi)) / 2, np.cos(angle / 2)], axis=-1)


def _to_axis_angle(quaternions: Array) -> Array:
    import numpy as np

    unit = quaternions * np.where(quaternions[..., 3:] < 0, -1, 1)
    sine = np.linalg.norm(unit[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, unit[..., 3:])
    factor = np.where(sine > 1e-12, angle / np.maximum(sine, 1e-12), 2.0)
    return np.asarray(unit[..., :3] * factor)


def _from_euler(values: Array) -> Array:
    import numpy as np

    (sx, sy, sz), (cx, cy, cz) = (np.moveaxis(part(values / 2), -1, 0) for part in (np.sin, np.cos))
    return np.stack(
        [
            sx * cy * cz - cx * sy * sz,
            cx * sy * cz + sx * cy * sz,
            cx * cy * sz - sx * sy * cz,
            cx * cy * cz + sx * sy * sz,
        ],
        axis=-1,
    )


def _to_euler(quaternions: Array) -> Array:
    import numpy as np

    matrix = _to_matrix(quaternions)
    level = np.hypot(matrix[..., 2, 1], matrix[..., 2, 2])
    pitch = np.arctan2(-matrix[..., 2, 0], level)
    # At a pitch of a quarter turn, roll and yaw are about one axis: all of it is yaw.
    is_upright = level < _UPRIGHT
    roll = np.where(is_upright, 0.0, np.arctan2(matrix[..., 2, 1], matrix[..., 2, 2]))
    yaw = np.arctan2(
        np.where(is_upright, -matrix[..., 0, 1], matrix[..., 1, 0]),
        np.where(is_upright, matrix[..., 1, 1], matrix[..., 0, 0]),
    )
    return np.stack([roll, pitch, yaw], axis=-1)


def _to_matrix(quaternions: Array) -> Array:
    import numpy as np

    norm = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    x, y, z, w = np.moveaxis(quaternions / np.where(norm > 0, norm, 1), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _from_6d(values: Array) -> Array:
    import numpy as np

    first = values[..., :3] / np.linalg.norm(values[..., :3], axis=-1, keepdims=True)
    second = values[..., 3:] - (first * values[..., 3:]).sum(axis=-1, keepdims=True) * first
    second = second / np.linalg.norm(second, axis=-1, keepdims=True)
    return _from_matrix(np.stack([first, second, np.cross(first, second)], axis=-1))


def _to_6d(quaternions: Array) -> Array:
    import numpy as np

    matrix = _to_matrix(quaternions)
    return np.concatenate([matrix[..., 0], matrix[..., 1]], axis=-1)


def _from_matrix(matrix: Array) -> Array:
    """The row of K, which is 4 q q^T of the quaternion q, with the largest diagonal is well conditioned."""
    import numpy as np

    m = [[matrix[..., row, column] for column in range(3)] for row in range(3)]
    k = [
        [1 + m[0][0] - m[1][1] - m[2][2], m[0][1] + m[1][0], m[0][2] + m[2][0], m[2][1] - m[1][2]],
        [m[0][1] + m[1][0], 1 - m[0][0] + m[1][1] - m[2][2], m[1][2] + m[2][1], m[0][2] - m[2][0]],
        [m[0][2] + m[2][0], m[1][2] + m[2][1], 1 - m[0][0] - m[1][1] + m[2][2], m[1][0] - m[0][1]],
        [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], 1 + m[0][0] + m[1][1] + m[2][2]],
    ]
    rows = np.stack([np.stack(row, axis=-1) for row in k], axis=-2)
    best = np.diagonal(rows, axis1=-2, axis2=-1).argmax(axis=-1)
    row = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    return np.asarray(row / np.linalg.norm(row, axis=-1, keepdims=True))


_TO_QUATERNION: Mapping[str, Callable[[Array], Array]] = {
    "euler": _from_euler,
    "axis-angle": _from_axis_angle,
    "quaternion xyzw": _unchanged_values,
    "quaternion wxyz": _from_wxyz,
    "6d": _from_6d,
}
_FROM_QUATERNION: Mapping[str, Callable[[Array], Array]] = {
    "euler": _to_euler,
    "axis-angle": _to_axis_angle,
    "quaternion xyzw": _unchanged_values,
    "quaternion wxyz": _to_wxyz,
    "6d": _to_6d,
}
