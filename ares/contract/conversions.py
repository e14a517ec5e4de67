"""Converts values from one unit, gripper convention, mode or rotation to another.

Rotations: Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1(3), 1978; Diebel, Representing attitude,
2006, for Euler angles and vectors; Zhou et al., On the continuity of rotation representations, CVPR 2019, for 6d.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING

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
    "cm": ("length", 0.01),
    "mm": ("length", 0.001),
}
# Ends of the range of a gripper in each unit that says them.
GRIPPER_RANGES: Mapping[str, tuple[float, float]] = {
    "fraction": (0.0, 1.0),
    "signed": (-1.0, 1.0),
    "percent": (0.0, 100.0),
    "byte": (0.0, 255.0),
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
