"""Units that values can have, by a table of plausible ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from ares.contract.contracts import Estimate, GroupKind, possible
from ares.contract.evidence import SignalRanges


@dataclass(frozen=True, slots=True)
class UnitRange:
    """Values that a unit can have: the smallest of a group is within `low`, the largest within `high`."""

    unit: str
    low: tuple[float, float]
    high: tuple[float, float]

    def holds(self, low: float, high: float) -> bool:
        """Whether values from low to high are plausible; ends of the table are exclusive where they begin."""
        return self.low[0] <= low <= self.low[1] and self.high[0] < high <= self.high[1]


def _size_within(unit: str, least: float, most: float) -> UnitRange:
    """By the largest absolute value."""
    return UnitRange(unit, (-inf, inf), (least, most))


# Joints, by the largest absolute value. A wrist that is not wrapped may turn twice. No arm stays within 4 degrees of
# zero in all joints. Encoders of servos count from 0 to 1023, 4095 or 16383 in a turn.
_ROTATIONS = (
    _size_within("rad", 0.0, 13.0),
    _size_within("deg", 4.0, 360.0),
    UnitRange("deg", (-inf, -1e-9), (360.0, 730.0)),
    _size_within("percent", 4.0, 100.0),
    _size_within("ticks", 360.0, 70_000.0),
)
_ANGLES = (*_ROTATIONS, _size_within("normalised", 0.0, 1.0))
# No arm reaches 2 metres; a position in a room may be farther.
_LENGTHS = (
    _size_within("m", 0.0, 10.0),
    _size_within("cm", 2.0, 200.0),
    _size_within("mm", 10.0, 100_000.0),
)
# By the smallest and the largest value. Two fingers that move apart are within 0.06 m of the middle.
_GRIPPERS = (
    UnitRange("m", (-0.06, 0.2), (0.005, 0.2)),
    UnitRange("fraction", (-0.1, 1.0), (0.2, 1.25)),
    UnitRange("signed", (-1.1, -0.1), (-0.3, 1.1)),
    UnitRange("percent", (-10.0, 100.0), (3.2, 130.0)),
    UnitRange("rad", (-3.2, 3.2), (0.2, 3.2)),
    UnitRange("rad", (-3.2, -0.1), (-3.2, 0.2)),
    UnitRange("deg", (-360.0, 1050.0), (3.2, 1050.0)),
    UnitRange("mm", (-10.0, 200.0), (3.2, 200.0)),
    UnitRange("byte", (0.0, 255.0), (100.0, 255.0)),
    UnitRange("ticks", (-inf, inf), (130.0, 70_000.0)),
)
# A gripper that ends within this of 1 or -1 is no angle.
_AT_END = 0.01
# A percentage is clipped at 100, though the leader of an arm may go a little beyond.
_MOST_PERCENT = 130.0

# Episodes in another unit: a degree is 57 times smaller than a radian, and poses differ.
_LEAST_RADIANS, _TURN, _TWO_TURNS = 0.2, 6.6, 13.0
_UNIT_FACTOR, _LARGEST_UNIT_FACTOR = 20.0, 170.0


def possible_units(kind: GroupKind, episodes: Sequence[SignalRanges]) -> Estimate:
    """The units in which the values of a kind of dimensions are plausible; none where nothing differs from 0."""
    import numpy as np

    low, high = (np.array([getattr(part, end) for part in episodes]) for end in ("low", "high"))
    lowest, highest, size = float(low.min()), float(high.max()), float(np.abs([low, high]).max())
    is_clipped = bool((np.abs([low.min(axis=0), high.max(axis=0)]) == 100).any())
    if kind != "position" and is_clipped and size < _MOST_PERCENT:
        return possible(["percent"])
    if kind == "gripper":
        is_angle = abs(size - 1) > _AT_END
        units = (part.unit for part in _GRIPPERS if part.holds(lowest, highest))
        return possible(unit for unit in units if is_angle or unit != "rad")
    if kind != "position" and size == 1:
        return possible(["normalised"])
    table = {"position": _LENGTHS, "rotation": _ROTATIONS}.get(kind, _ANGLES)
    return possible(part.unit for part in table if part.holds(lowest, size))


def mixed_angle_units(sizes: Sequence[float]) -> tuple[str, ...]:
    """Units of joints that are not the same in all episodes: some within a turn in radians, others of degrees.

    Args:
        sizes: Largest absolute value of each episode.
    """
    large = [size for size in sizes if size > _TWO_TURNS]
    small = [size for size in sizes if _LEAST_RADIANS < size <= _TURN]
    if not large or not small:
        return ()
    factor = median(large) / median(small)
    return ("rad", "deg") if _UNIT_FACTOR <= factor <= _LARGEST_UNIT_FACTOR else ()
