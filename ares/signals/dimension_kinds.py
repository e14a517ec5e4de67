"""What each dimension of a signal is (joint, gripper, hand, base), by its name and its values."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ares.signals.quaternions import quaternion_starts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# "arm" is a joint of an arm, neck or torso; "position" (metres) and "rotation" are of an end effector; "other" is what
# says nothing of a pose: a velocity, a force, the time of a simulator, an object.
DimensionKind = Literal["arm", "gripper", "hand", "base", "position", "rotation", "other", "unknown"]
# Kinds that move smoothly, which the checks of values need.
CHECKED_KINDS: frozenset[DimensionKind] = frozenset({"arm", "position", "rotation"})

_TOKEN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_BASE = frozenset(
    {"base", "wheel", "wheels", "leg", "legs", "odom", "hip", "knee", "ankle", "foot", "chassis"}
)
_OTHER = frozenset(
    {
        "vel",
        "velocity",
        "velocities",
        "qvel",
        "speed",
        "speeds",
        "effort",
        "efforts",
        "torque",
        "torques",
        "force",
        "forces",
        "wrench",
        "current",
        "currents",
        "temperature",
        "time",
        "timestamp",
        "acc",
        "accel",
        "acceleration",
        "object",
        "obj",
        "reward",
        "discount",
        "tactile",
    }
)
_HAND = frozenset({"hand", "hands", "finger", "fingers", "thumb", "pinky", "index", "middle", "ring", "palm"})
_JOINT = frozenset(
    {
        "joint",
        "joints",
        "shoulder",
        "elbow",
        "wrist",
        "waist",
        "forearm",
        "upperarm",
        "arm",
        "arms",
        "neck",
        "torso",
        "head",
        "trunk",
        "qpos",
        "pan",
        "flex",
        "rotate",
        "motor",
        "motors",
        "servo",
    }
)
_ROTATION = frozenset(
    {
        "roll",
        "pitch",
        "yaw",
        "qx",
        "qy",
        "qz",
        "qw",
        "rx",
        "ry",
        "rz",
        "euler",
        "quat",
        "quaternion",
        "rot",
        "rotation",
        "orientation",
        "orn",
        "rotvec",
        "axisangle",
    }
)
_AXES = frozenset("xyz")

_NUMBERED_JOINT = frozenset({"q", "j", "axis"})
_GRIPPER = re.compile(r"grip|jaw|claw")
_LEFT_RIGHT = {"left": "left", "l": "left", "right": "right", "r": "right"}
# A derivative correlates so with the changes of another dimension, and has their size within a third.
_DERIVATIVE_CORRELATION = 0.97
_DERIVATIVE_RATIO = (0.75, 1.33)
# Fingers of one hand move together.
_FINGER_CORRELATION = 0.9
_END_WIDTH = 0.1
# Neighbours explain all but so much of a smooth motion, as a share of the range.
_SMOOTH_SHARE = 0.01
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


@functools.lru_cache(maxsize=256)
def classify_by_name(names: tuple[str, ...]) -> tuple[DimensionKind, ...]:
    """The kind that each name says; "unknown" for a name that says nothing, such as `states_17`."""
    return tuple(_kind_by_tokens(name_tokens(name)) for name in names)


def name_tokens(name: str) -> tuple[str, ...]:
    """Words and numbers of a name, in lower case: ("k", "left", "wrist", "yaw") of "kLeftWristYaw"."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def _kind_by_tokens(tokens: tuple[str, ...]) -> DimensionKind:
    words = frozenset(tokens)
    if words & _BASE:
        return "base"
    if words & _OTHER:
        return "other"
    if tokens and tokens[-1] in _AXES and not words & _ROTATION:
        return "position"
    return _kind_of_part(tokens, words)


def _kind_of_part(tokens: tuple[str, ...], words: frozenset[str]) -> DimensionKind:
    """Of what is neither a base nor a position: gripper, hand, joint or rotation."""
    if any(_GRIPPER.search(token) for token in tokens) and not words & _ROTATION:
        return "gripper"
    if words & _HAND and not words & {"roll", "pitch", "yaw"}:
        return "hand"
    if words & _JOINT or (len(tokens) > 1 and words & _NUMBERED_JOINT and tokens[-1].isdigit()):
        return "arm"
    if words & _ROTATION:
        return "rotation"
    numbered = bool(tokens) and tokens[-1].isdigit()
    return (
        "position" if numbered and words & {"ee", "eef", "tcp"} and words & {"pos", "position"} else "unknown"
    )


def are_smooth_kinds(kinds: Sequence[DimensionKind]) -> NDArray[np.bool_]:
    """(D,) which of the kinds move smoothly: arm joints, and poses of end effectors."""
    import numpy as np

    return np.array([kind in CHECKED_KINDS for kind in kinds], dtype=bool)


def parse_arm_name(name: str) -> str:
    """The arm that a name belongs to: "left", "right", "robot0", "arm1", or "" where it names none."""
    tokens = name_tokens(name)
    side = next((_LEFT_RIGHT[token] for token in tokens if token in _LEFT_RIGHT), "")
    pairs = itertools.pairwise(tokens)
    numbered = (f"{word}{number}" for word, number in pairs if word in ("robot", "arm") and number.isdigit())
    # "arm_3" of one arm is its third joint: only a name that goes on after the number numbers the arms.
    return side or next((label for label in numbered if not _ends_with(tokens, label)), "")


def _ends_with(tokens: tuple[str, ...], label: str) -> bool:
    return "".join(tokens[-2:]) == label


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueEvidence:
    """What the values of an episode say of each of D dimensions.

    Attributes:
        is_clock: (D,) whether it rises by equal steps.
        is_quaternion: (D,) whether it is one of four neighbours whose squares sum to 1.
        is_derivative: (D,) whether it is the speed of another dimension.
        num_coupled: (D,) other dimensions that move together with it.
        end_share: (D,) share of the steps near its smallest or largest value.
        is_smooth: (D,) whether it moves without noise or jumps.
    """

    is_clock: NDArray[np.bool_]
    is_quaternion: NDArray[np.bool_]
    is_derivative: NDArray[np.bool_]
    num_coupled: NDArray[np.intp]
    end_share: NDArray[np.float64]
    is_smooth: NDArray[np.bool_]


def value_evidence(values: NDArray[np.float64], rate_hz: float) -> ValueEvidence:
    """The evidence of one episode (T, D) of at least five steps, all finite."""
    import numpy as np

    changes = np.diff(values, axis=0)
    ranges = np.ptp(values, axis=0)
    moves = ranges > 0
    mean = changes.mean(axis=0)
    share = (values - values.min(axis=0)) / np.where(moves, ranges, 1)
    bends = values[1:-1] - (values[2:] + values[:-2]) / 2
    return ValueEvidence(
        is_clock=moves & (mean > 0) & (changes.std(axis=0) < 0.01 * np.abs(mean)),
        is_quaternion=_quaternion_dimensions(values),
        is_derivative=moves & _derivative_dimensions(values, changes * rate_hz),
        num_coupled=(np.abs(_column_correlations(values, values)) > _FINGER_CORRELATION).sum(axis=1) - moves,
        end_share=(np.minimum(share, 1 - share) < _END_WIDTH).mean(axis=0),
        is_smooth=moves & (np.quantile(np.abs(bends), 0.9, axis=0) < _SMOOTH_SHARE * ranges),
    )


def _quaternion_dimensions(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    import numpy as np

    inside = np.zeros(values.shape[1], dtype=bool)
    for start in quaternion_starts(values):
        inside[start : start + 4] = True
    return inside


def _column_correlations(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L, R) correlations of the columns of (T, L) and (T, R); 0 for one that is constant."""
    import numpy as np

    units = []
    for part in (left, right):
        centred = part - part.mean(axis=0)
        norms = np.linalg.norm(centred, axis=0)
        units.append(centred / np.where(norms > 1e-9 * np.sqrt(len(part)), norms, np.inf))
    correlations: NDArray[np.float64] = units[0].T @ units[1]
    return correlations


def _derivative_dimensions(values: NDArray[np.float64], speeds: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(D,) whether a dimension of the values (T, D) is the speed of another, from the speeds (T - 1, D)."""
    import numpy as np

    means = (values[1:] + values[:-1]) / 2
    spreads, value_spreads = speeds.std(axis=0), means.std(axis=0)
    ratio = value_spreads[:, None] / np.where(spreads > 0, spreads, np.inf)
    low, high = _DERIVATIVE_RATIO
    matches = (_column_correlations(means, speeds) > _DERIVATIVE_CORRELATION) & (ratio > low) & (ratio < high)
    np.fill_diagonal(matches, False)
    return np.asarray(matches.any(axis=1))


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
    named = classify_by_name(names)
    if "unknown" not in named or len(evidence) < _FEWEST_EPISODES:
        return named
    learnt = classify_by_values(evidence, ranges, largest, switches)
    return tuple(
        by_value if kind == "unknown" else kind for kind, by_value in zip(named, learnt, strict=True)
    )


def classify_by_values(
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
    fingers = free & _finger_dimensions(evidence)
    hand = fingers & (ranges > _FINGER_RANGE * ranges[free].max(initial=0.0))
    gripper = free & ~fingers & switches & (ranges > _LEAST_OPENING)
    ends = np.median([part.end_share for part in evidence], axis=0)
    smooth = most([part.is_smooth for part in evidence]) & (ends < _ARM_ENDS)
    # The whole state of a simulator has poses and speeds of objects, some of which look like joints.
    is_simulator = rotation.any() or most([part.is_derivative for part in evidence]).any()
    arm = _angle_dimensions(free & ~fingers & ~gripper & smooth, ranges, largest) & ~is_simulator
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


def _finger_dimensions(evidence: Sequence[ValueEvidence]) -> NDArray[np.bool_]:
    """(D,) dimensions that move together with three others and dwell at their ends."""
    import numpy as np

    coupled = np.quantile([part.num_coupled for part in evidence], _FINGER_EPISODES, axis=0)
    ends = np.median([part.end_share for part in evidence], axis=0)
    is_enough = len(evidence) >= _FEWEST_EPISODES
    return np.asarray((coupled >= _FINGERS - 1) & (ends > _FINGER_ENDS) & is_enough)


def _angle_dimensions(
    smooth: NDArray[np.bool_], ranges: NDArray[np.float64], largest: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """(D,) smooth dimensions that are angles: too large for metres, in radians or in degrees."""
    import numpy as np

    radians = smooth & (largest > _FARTHEST_METRES) & (largest < _LARGEST_RADIANS) & (ranges > 0.1)
    degrees = smooth & (largest >= _LARGEST_RADIANS) & (largest < _LARGEST_DEGREES) & (ranges > 5)
    return np.asarray(degrees if degrees.sum() >= _FEWEST_ANGLES > radians.sum() else radians)
