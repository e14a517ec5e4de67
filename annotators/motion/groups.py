"""Which dimensions of a state move together: the joints of each arm, and the position of each end effector."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from annotators.motion.columns import END_EFFECTOR, JOINTS, OTHER_DIMENSIONS
from ares.quality.kinds import DimensionKind, arm_of, name_tokens


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
def motion_groups(names: tuple[str, ...], kinds: tuple[DimensionKind, ...]) -> tuple[MotionGroup, ...]:
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
            by_arm.setdefault(arm_of(name), []).append(number)
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
            groups.append(MotionGroup(END_EFFECTOR, arm_of(names[columns[0]]), columns))
    return groups


def ends_of_arms(
    names: tuple[str, ...], kinds: tuple[DimensionKind, ...], kind: DimensionKind
) -> tuple[tuple[int, ...], ...]:
    """Indices of the dimensions of each gripper, or of each hand.

    Names that differ by a side are two grippers only where the robot has two arms: fingers of one gripper have sides
    too.
    """
    arms = {arm_of(name) for name, own in zip(names, kinds, strict=True) if own in ("arm", "position")}
    by_arm: dict[str, tuple[int, ...]] = {}
    for number, (name, own) in enumerate(zip(names, kinds, strict=True)):
        if own == kind:
            arm = arm_of(name) if arm_of(name) in arms else ""
            by_arm[arm] = (*by_arm.get(arm, ()), number)
    return tuple(by_arm.values())
