"""What the names of dimensions say outright: mode, role, frame, rotation and the open end of a gripper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ares.contract.contracts import Estimate, Origin, PropertyName, possible
from ares.contract.evidence import DimensionGroup
from ares.signals import name_tokens

_VELOCITY_WORDS = frozenset(["vel", "velocity", "velocities", "dq", "qd", "speed"])
# Values of each property, by words of names.
_WORDS: Mapping[PropertyName, Mapping[str, tuple[str, ...]]] = {
    "role": {"leader": ("leader", "master"), "follower": ("follower", "puppet", "slave")},
    "frame": {"world": ("world",), "base": ("base",), "tool": ("tool", "local")},
}
# Rotations by the width of one, with the words that say them; without any, each is possible.
_ROTATIONS: Mapping[int, Mapping[str, tuple[str, ...]]] = {
    3: {
        "euler": ("roll", "pitch", "yaw", "euler", "rpy", "droll", "dpitch", "dyaw"),
        "axis-angle": ("rotvec", "axis", "angle", "axisangle"),
    },
    4: {"quaternion xyzw": (), "quaternion wxyz": ()},
    6: {"6d": ("rot6d", "6"), "euler": ("roll", "pitch", "yaw", "euler", "rpy")},
}
_OPEN_WORDS = frozenset(["open", "opening", "opened", "openness", "width", "aperture"])
_CLOSED_WORDS = frozenset(["close", "closed", "closing", "closedness", "closure"])


def named_estimates(group: DimensionGroup) -> dict[PropertyName, Estimate]:
    """The properties that the names of a group say; a rotation has one in any case."""
    named: dict[PropertyName, Estimate] = {}
    if all(_VELOCITY_WORDS & {*name_tokens(name)} for name in group.names):
        named["mode"] = possible(["velocity"], "names")
    for property_name, words in _WORDS.items():
        values = [value for value, listed in words.items() if group.words & {*listed}]
        if len(values) == 1 and (property_name == "role" or group.kind in ("position", "rotation")):
            named[property_name] = possible(values, "names")
    if group.kind == "rotation":
        named["rotation"] = _rotation_estimate(group)
    return named


def _rotation_estimate(group: DimensionGroup) -> Estimate:
    """The convention of a group of rotations, of one arm or of two."""
    is_double = {"left", "right"} <= group.words and len(group.numbers) % 2 == 0
    width = len(group.numbers) // (2 if is_double or len(group.numbers) == 8 else 1)
    known = _ROTATIONS.get(width, {})
    letters = "".join(_axis_letters(group.names[:width]))
    by_name = [
        value for value, words in known.items() if group.words & {*words} or value == f"quaternion {letters}"
    ]
    origin: Origin = "names" if len(by_name) == 1 else "values"
    return possible(by_name or known, origin)


def _axis_letters(names: tuple[str, ...]) -> Iterator[str]:
    """The axes of a quaternion that names say: "qx", "quat_w"."""
    for word in (name_tokens(name)[-1] for name in names):
        yield word[-1] if word in {"x", "y", "z", "w", "qx", "qy", "qz", "qw"} else "?"


def named_gripper(group: DimensionGroup, unit: Estimate) -> tuple[Estimate, int]:
    """The unit of a gripper, and its high end: 1 where that is open, -1 where it is closed, 0 where nothing says.

    Args:
        group: Its dimensions.
        unit: Units that its values can have.
    """
    by_name = bool(_OPEN_WORDS & group.words) - bool(_CLOSED_WORDS & group.words)
    # "gripper.pos" of LeRobot's motor buses is 0 to 100, 100 is open; a width is wide where it is open.
    is_lerobot = "percent" in unit.candidates and all(name.endswith(".pos") for name in group.names)
    unit = possible(["percent"]) if is_lerobot else unit
    return unit, by_name or int(unit.value in ("m", "mm") or is_lerobot)
