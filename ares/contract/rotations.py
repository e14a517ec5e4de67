"""Rotations from one form to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.errors import RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
if TYPE_CHECKING:
    Array = NDArray[np.float64]


# Cosine of the pitch below which roll and yaw cannot be distinguished.
_UPRIGHT = 1e-7

# Numbers of one rotation in each convention; those of six numbers are named, and none is converted to or from them.
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
        if name not in _TO_QUATERNION:
            raise RequestError(f"no rotation convention {name!r}", f"there are: {', '.join(_TO_QUATERNION)}")
    if values.shape[-1] != WIDTHS[source]:
        raise RequestError(
            f"a rotation as {source} has {count_of(WIDTHS[source], 'number')}", f"got {values.shape[-1]}"
        )
    return _FROM_QUATERNION[target](_TO_QUATERNION[source](values))


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


_TO_QUATERNION: Mapping[str, Callable[[Array], Array]] = {
    "euler": _from_euler,
    "axis-angle": _from_axis_angle,
    "quaternion xyzw": _unchanged_values,
    "quaternion wxyz": _from_wxyz,
}

_FROM_QUATERNION: Mapping[str, Callable[[Array], Array]] = {
    "euler": _to_euler,
    "axis-angle": _to_axis_angle,
    "quaternion xyzw": _unchanged_values,
    "quaternion wxyz": _to_wxyz,
}
