"""The kind of a dimension by its name, and the arm that it belongs to."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

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
    }
)
_AXES = frozenset("xyz")

_NUMBERED_JOINT = frozenset({"q", "j", "axis"})
_GRIPPER = re.compile(r"grip|jaw|claw")
_LEFT_RIGHT = {"left": "left", "l": "left", "right": "right", "r": "right"}


@functools.lru_cache(maxsize=256)
def kinds_by_name(names: tuple[str, ...]) -> tuple[DimensionKind, ...]:
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


def are_checked(kinds: Sequence[DimensionKind]) -> NDArray[np.bool_]:
    """(D,) which of the kinds move smoothly: arm joints, and poses of end effectors."""
    import numpy as np

    return np.array([kind in CHECKED_KINDS for kind in kinds], dtype=bool)


def arm_of(name: str) -> str:
    """The arm that a name belongs to: "left", "right", "robot0", "arm1", or "" where it names none."""
    tokens = name_tokens(name)
    side = next((_LEFT_RIGHT[token] for token in tokens if token in _LEFT_RIGHT), "")
    pairs = itertools.pairwise(tokens)
    numbered = (f"{word}{number}" for word, number in pairs if word in ("robot", "arm") and number.isdigit())
    # "arm_3" of one arm is its third joint: only a name that goes on after the number numbers the arms.
    return side or next((label for label in numbered if not _ends_with(tokens, label)), "")


def _ends_with(tokens: tuple[str, ...], label: str) -> bool:
    return "".join(tokens[-2:]) == label
