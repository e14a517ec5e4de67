"""The kinds of the dimensions of a dataset, from names first and from values where names say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.quality.kinds.evidence import ValueEvidence
from ares.quality.kinds.names import DimensionKind, kinds_by_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# No arm that reaches so far in metres records it: a larger value is an angle.
_FARTHEST_METRES = 1.6
_LARGEST_RADIANS, _LARGEST_DEGREES = 7.0, 400.0
# Dimensions beyond the metres from which the others of the same size count as joints too.
_FEWEST_ANGLES = 3
_FINGERS = 4
_FINGER_ENDS = 0.55
# In four of five episodes; short episodes, in which everything moves once, say little.
_FINGER_EPISODES = 0.2
_FEWEST_EPISODES = 3
# Fingers move as far as this share of the widest dimension; less is a parked arm.
_FINGER_RANGE = 0.2
# An arm joint that dwells longer at its ends may be a slow gripper.
_ARM_ENDS = 0.45
# A gripper that opens by less, in metres or any other unit, rests.
_LEAST_OPENING = 0.005


def learn_kinds(
    names: tuple[str, ...],
    evidence: Sequence[ValueEvidence],
    ranges: NDArray[np.float64],
    largest: NDArray[np.float64],
    switches: NDArray[np.bool_],
) -> tuple[DimensionKind, ...]:
    """Kinds by name; by values of at least three episodes for names that say nothing; "unknown" where neither does.

    Args:
        names: Names of the D dimensions.
        evidence: Of each episode.
        ranges: (D,) median range in an episode.
        largest: (D,) largest absolute value of all episodes.
        switches: (D,) whether it has two levels in most episodes.
    """
    named = kinds_by_name(names)
    if "unknown" not in named or len(evidence) < _FEWEST_EPISODES:
        return named
    learnt = kinds_by_values(evidence, ranges, largest, switches)
    return tuple(
        by_value if kind == "unknown" else kind for kind, by_value in zip(named, learnt, strict=True)
    )


def kinds_by_values(
    evidence: Sequence[ValueEvidence],
    ranges: NDArray[np.float64],
    largest: NDArray[np.float64],
    switches: NDArray[np.bool_],
) -> tuple[DimensionKind, ...]:
    """Kinds by values alone; the arguments are those of `learn_kinds`."""
    import numpy as np

    def most(rows: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        return np.asarray(np.mean(rows, axis=0) > 0.5)

    other = most([part.is_clock | part.is_derivative for part in evidence])
    rotation = np.all([part.is_quaternion for part in evidence], axis=0) & ~other
    free = ~other & ~rotation & (ranges > 0)
    fingers = free & _fingers(evidence)
    hand = fingers & (ranges > _FINGER_RANGE * ranges[free].max(initial=0.0))
    gripper = free & ~fingers & switches & (ranges > _LEAST_OPENING)
    ends = np.median([part.end_share for part in evidence], axis=0)
    smooth = most([part.is_smooth for part in evidence]) & (ends < _ARM_ENDS)
    # The whole state of a simulator has poses and speeds of objects, some of which look like joints.
    is_simulator = rotation.any() or most([part.is_derivative for part in evidence]).any()
    arm = _angles(free & ~fingers & ~gripper & smooth, ranges, largest) & ~is_simulator
    kinds: list[DimensionKind] = ["unknown"] * len(ranges)
    parts: tuple[tuple[DimensionKind, NDArray[np.bool_]], ...] = (
        ("other", other),
        ("rotation", rotation),
        ("hand", hand),
        ("gripper", gripper),
        ("arm", arm),
    )
    for kind, members in parts:
        for number in np.flatnonzero(members):
            kinds[int(number)] = kind
    return tuple(kinds)


def _fingers(evidence: Sequence[ValueEvidence]) -> NDArray[np.bool_]:
    """(D,) dimensions that move together with three others and dwell at their ends."""
    import numpy as np

    coupled = np.quantile([part.num_coupled for part in evidence], _FINGER_EPISODES, axis=0)
    ends = np.median([part.end_share for part in evidence], axis=0)
    is_enough = len(evidence) >= _FEWEST_EPISODES
    return np.asarray((coupled >= _FINGERS - 1) & (ends > _FINGER_ENDS) & is_enough)


def _angles(
    smooth: NDArray[np.bool_], ranges: NDArray[np.float64], largest: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """(D,) smooth dimensions that are angles: too large for metres, in radians or in degrees."""
    import numpy as np

    radians = smooth & (largest > _FARTHEST_METRES) & (largest < _LARGEST_RADIANS) & (ranges > 0.1)
    degrees = smooth & (largest >= _LARGEST_RADIANS) & (largest < _LARGEST_DEGREES) & (ranges > 5)
    return np.asarray(degrees if degrees.sum() >= _FEWEST_ANGLES > radians.sum() else radians)
