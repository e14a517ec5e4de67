"""Names of the numbers of a flattened MuJoCo state by its model, and the rate by the time in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.input import check_relative_path, parse_xml, read_xml, translate_hdf5_errors

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


_FREE_POSE, _FREE_VELOCITY = ("x", "y", "z", "qw", "qx", "qy", "qz"), ("vx", "vy", "vz", "wx", "wy", "wz")
_AXES = {
    "free": (_FREE_POSE, _FREE_VELOCITY),
    "ball": (_FREE_POSE[3:], _FREE_VELOCITY[3:]),
    "hinge": (("",), ("",)),
    "slide": (("",), ("",)),
}


# Steps are even where no period differs by more than this share.
_UNEVEN_PERIOD = 0.01


@dataclass(frozen=True, slots=True)
class _Joint:
    name: str
    type: str
    tree: int


def name_mujoco_state(model: object, path: str, width: int) -> tuple[str, ...]:
    """Names of a flattened MuJoCo state: the time, the positions of all joints in the model's order, the velocities.

    Joints of bodies that no actuator moves are called `object_NAME`, and a robot that floats has a `base_NAME`.

    Args:
        model: The attribute `model_file` of a demonstration: the model as MJCF, or the name of its file in the
            folder `models` beside the HDF5 file.
        path: Path of the HDF5 file.
        width: Dimensions of the state.

    Returns:
        One name for each dimension, or () where there is no such model or it has another number of them.
    """
    root = _read_model(model, path)
    joints = [] if root is None else list(_joints_in_order(root))
    moved = set() if root is None else _moved_trees(root, joints)
    labels = [(_joint_label(joint, moved), _AXES[joint.type]) for joint in joints]
    positions = [_axis_name(label, axis) for label, (axes, _) in labels for axis in axes]
    velocities = [_axis_name(label, axis or "vel") for label, (_, axes) in labels for axis in axes]
    names = ("time", *positions, *velocities)
    return names if len(names) == width == len(set(names)) else ()


def _read_model(model: object, path: str) -> Element | None:
    """The root of the model; None for one that is missing or cannot be read: names are a convenience."""
    if not isinstance(model, str):
        return None
    try:
        if model.lstrip().startswith("<"):
            return parse_xml(model, path)
        return read_xml(str(PurePosixPath(path).parent / "models" / check_relative_path(model, path)))
    except (SourceError, OSError):
        return None


def _joints_in_order(root: Element) -> Iterator[_Joint]:
    """The joints in the order of the state: depth first, each body's own before those of its children."""
    world = root.find("worldbody")
    for number, tree in enumerate(world.findall("body") if world is not None else ()):
        for element in _in_order(tree):
            joint_type = "free" if element.tag == "freejoint" else element.get("type", "hinge")
            if joint_type in _AXES:
                yield _Joint(element.get("name", ""), joint_type, number)


def _in_order(body: Element) -> Iterator[Element]:
    for element in body:
        if element.tag in ("joint", "freejoint"):
            yield element
    for child in body.findall("body"):
        yield from _in_order(child)


def _moved_trees(root: Element, joints: list[_Joint]) -> set[int]:
    """Numbers of the trees of bodies with a joint that an actuator moves; all trees where there is no actuator."""
    actuated = {element.get("joint", "") for part in root.findall("actuator") for element in part}
    trees = {joint.tree for joint in joints if joint.name and joint.name in actuated}
    return trees or {joint.tree for joint in joints}


def _joint_label(joint: _Joint, moved: set[int]) -> str:
    if joint.tree not in moved:
        return f"object_{joint.name}"
    return f"base_{joint.name}" if joint.type == "free" else joint.name


def _axis_name(label: str, axis: str) -> str:
    return f"{label}_{axis}" if axis else label


def simulator_rate_hz(state: Any, model: object, path: str) -> float | None:
    """Steps per second by the time that MuJoCo keeps in the state of a demonstration; None where it is uneven.

    Args:
        state: (T, D) dataset of the flattened state, or None.
        model: As in `name_mujoco_state`.
        path: The file, for a model beside it.

    Raises SourceError when the state is damaged.
    """
    import numpy as np

    if state is None or state.ndim != 2 or len(state) < 3:
        return None
    if name_mujoco_state(model, path, state.shape[1])[:1] != ("time",):
        return None
    with translate_hdf5_errors(path):
        periods = np.diff(state[:, 0])
    usual = float(np.median(periods))
    is_even = usual > 0 and bool((np.abs(periods - usual) <= _UNEVEN_PERIOD * usual).all())
    return round(1 / usual, 3) if is_even else None
