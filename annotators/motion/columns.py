"""The filter columns of the annotator `motion`, and the groups of dimensions that each needs."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ares.annotation import Column
from ares.signals import DimensionKind, name_tokens, parse_arm_name

END_EFFECTOR, JOINTS, OTHER_DIMENSIONS = "end effector", "joints", "other dimensions"

# Columns of one space, in the order of `PathMeasures`; the first three have a unit.
END_EFFECTOR_COLUMNS = (
    Column(
        name="path_length",
        type="float64",
        unit="m",
        meaning="Length of the path of the end effector; summed over arms. Longer episodes have more.",
    ),
    Column(
        name="mean_speed",
        type="float64",
        unit="m/s",
        meaning="Mean speed of the end effector while it moves; of the faster arm.",
    ),
    Column(
        name="peak_speed",
        type="float64",
        unit="m/s",
        meaning="95th percentile of the end effector's speed while it moves; of the faster arm.",
    ),
    Column(
        name="jerk_ldlj",
        type="float64",
        meaning="Log dimensionless jerk of the end effector, of one average movement; nearer 0 is smoother.",
    ),
    Column(
        name="sparc",
        type="float64",
        meaning="Spectral arc length of the end effector's speed, of one average movement; nearer 0 is smoother.",
    ),
)
JOINT_COLUMNS = (
    Column(
        name="joint_path_length",
        type="float64",
        unit="rad, or as joint_unit says",
        meaning="Length of the path in joint space; summed over arms. Longer episodes have more.",
    ),
    Column(
        name="joint_mean_speed",
        type="float64",
        unit="rad/s, or as joint_unit says",
        meaning="Mean speed in joint space while the arm moves; of the faster arm.",
    ),
    Column(
        name="joint_peak_speed",
        type="float64",
        unit="rad/s, or as joint_unit says",
        meaning="95th percentile of the speed in joint space while the arm moves; of the faster arm.",
    ),
    Column(
        name="joint_jerk_ldlj",
        type="float64",
        meaning="Log dimensionless jerk in joint space, of one average movement; nearer 0 is smoother.",
    ),
    Column(
        name="joint_sparc",
        type="float64",
        meaning="Spectral arc length of the speed in joint space, of one average movement; nearer 0 is smoother.",
    ),
)
COLUMNS = (
    *END_EFFECTOR_COLUMNS,
    *JOINT_COLUMNS,
    Column(
        name="joint_unit",
        type="string",
        meaning="Unit of joint_path_length and of the speeds in joint space; degrees are converted to radians.",
        choices=("rad", "percent", "normalised", "unknown"),
    ),
    Column(
        name="idle_share",
        type="float64",
        meaning="Share of the time in which no arm moves at a tenth of its usual speed.",
    ),
    Column(
        name="direction_changes",
        type="float64",
        unit="1/s",
        meaning="Changes of direction per second, mean over the dimensions that move.",
    ),
    Column(
        name="motion_spaces",
        type="list<string>",
        meaning="What the measures of motion are of.",
        choices=(END_EFFECTOR, JOINTS, OTHER_DIMENSIONS),
    ),
    Column(
        name="gripper_events",
        type="int64",
        meaning="Times that a gripper opens or closes; summed over grippers.",
    ),
    Column(name="hand_events", type="int64", meaning="Times that a hand opens or closes; summed over hands."),
    Column(
        name="action_saturation",
        type="float64",
        meaning="Share of continuous action values at the ends of their range; longer episodes have less.",
    ),
    Column(
        name="action_jumps",
        type="float64",
        meaning="Mean change of the actions in 0.1 s, as a share of their range from 5 % to 95 %.",
    ),
    Column(
        name="action_lag_seconds",
        type="float64",
        unit="s",
        meaning="Time by which the state follows the action, by the correlation of their speeds.",
    ),
    Column(
        name="timestamp_jitter",
        type="float64",
        unit="s",
        meaning="Standard deviation of the time between steps.",
    ),
    Column(
        name="motion_gaps",
        type="list<string>",
        meaning="Which columns are empty, and why.",
        is_gap_reason=True,
    ),
)


@dataclass(frozen=True, slots=True)
class MotionGroup:
    """Dimensions that make one path.

    Attributes:
        space: What the path is of, see `COLUMNS`.
        arm: Name of the arm, or "".
        columns: Indices of the dimensions.
    """

    space: str
    arm: str
    columns: tuple[int, ...]


@functools.lru_cache(maxsize=256)
def find_motion_groups(names: tuple[str, ...], kinds: tuple[DimensionKind, ...]) -> tuple[MotionGroup, ...]:
    """The paths of a state: one per arm and space; where there is none, one of all dimensions of unknown kind.

    Args:
        names: Names of the D dimensions.
        kinds: (D,) their kinds.
    """
    groups = (*_end_effectors(names, kinds), *_joint_groups(names, kinds))
    unknown = tuple(number for number, kind in enumerate(kinds) if kind == "unknown")
    return groups if groups or not unknown else (MotionGroup(OTHER_DIMENSIONS, "", unknown),)


def _joint_groups(names: tuple[str, ...], kinds: tuple[DimensionKind, ...]) -> list[MotionGroup]:
    by_arm: dict[str, list[int]] = {}
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if kind == "arm":
            by_arm.setdefault(parse_arm_name(name), []).append(number)
    return [MotionGroup(JOINTS, arm, tuple(columns)) for arm, columns in by_arm.items()]


def _end_effectors(names: tuple[str, ...], kinds: tuple[DimensionKind, ...]) -> list[MotionGroup]:
    """Positions whose names differ only in x, y, z, or 0, 1, 2; of dimensions without names every three in order."""
    by_prefix: dict[tuple[str, ...], dict[str, int]] = {}
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        tokens = name_tokens(name)
        if kind == "position" and tokens:
            by_prefix.setdefault(tokens[:-1], {})[tokens[-1]] = number
    groups = []
    for axes in by_prefix.values():
        columns = next((tuple(axes[a] for a in t) for t in ("xyz", "012") if set(t) <= set(axes)), None)
        if columns is not None:
            groups.append(MotionGroup(END_EFFECTOR, parse_arm_name(names[columns[0]]), columns))
    return groups


def find_gripper_dimensions(
    names: tuple[str, ...], kinds: tuple[DimensionKind, ...], kind: DimensionKind
) -> tuple[tuple[int, ...], ...]:
    """Indices of the dimensions of each gripper, or of each hand.

    Names that differ by a side are two grippers only where the robot has two arms: fingers of one gripper have sides
    too.
    """
    arms = {
        parse_arm_name(name)
        for name, dimension_kind in zip(names, kinds, strict=True)
        if dimension_kind in ("arm", "position")
    }
    by_arm: dict[str, tuple[int, ...]] = {}
    for number, (name, dimension_kind) in enumerate(zip(names, kinds, strict=True)):
        if dimension_kind == kind:
            arm = parse_arm_name(name) if parse_arm_name(name) in arms else ""
            by_arm[arm] = (*by_arm.get(arm, ()), number)
    return tuple(by_arm.values())
