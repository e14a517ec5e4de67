"""The kind of each dimension, arm joint, gripper, hand or base: by its name and its values; "unnamed" says nothing."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DimensionKind = Literal["arm", "gripper", "hand", "base", "unnamed"]
# The first that matches; a hand has several fingers, a gripper one degree of freedom.
_NAMES: tuple[tuple[DimensionKind, re.Pattern[str]], ...] = (
    ("gripper", re.compile(r"gripper|grip|jaw|claw")),
    ("hand", re.compile(r"hand|finger|thumb|pinky|(^|_)(index|middle|ring)($|_)")),
    ("base", re.compile(r"base|wheel|(^|_)(leg|odom)($|_)")),
    # Such as the whole state of a simulator: its time, quaternions of objects, velocities.
    ("unnamed", re.compile(r"^(observation\.)?(states?|actions?)?[._]?\d+$")),
)
# A dimension that spends so much of its time near two values is a switch.
_SWITCH_SHARE = 0.9
_SWITCH_WIDTH = 0.05


@functools.lru_cache(maxsize=256)
def kinds_by_name(names: tuple[str, ...]) -> tuple[DimensionKind, ...]:
    """The kind that each name says; "arm" for every other name."""
    return tuple(_kind_by_name(name.lower()) for name in names)


def _kind_by_name(name: str) -> DimensionKind:
    return next((kind for kind, pattern in _NAMES if pattern.search(name)), "arm")


def switch_like(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the dimensions (T, D) move, but are nearly always near their lowest or their highest value."""
    import numpy as np

    low, span = values.min(axis=0), np.ptp(values, axis=0)
    share = (values - low) / np.where(span > 0, span, 1)
    near = (np.minimum(share, 1 - share) < _SWITCH_WIDTH).mean(axis=0)
    at_both = (share > 1 - _SWITCH_WIDTH).mean(axis=0)
    return np.asarray((span > 0) & (near > _SWITCH_SHARE) & (at_both > 0.02) & (at_both < 0.98))
