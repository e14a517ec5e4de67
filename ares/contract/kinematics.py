"""Where a link of a robot is at each step, computed from its URDF and the joints that the state names."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from ares.console import count_of
from ares.errors import RequestError, SourceError
from ares.input import read_xml
from ares.registry import did_you_mean

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json


JointType = Literal["revolute", "prismatic", "fixed"]
Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """One joint of a chain, in the terms of a URDF.

    Attributes:
        name: Its name.
        type: "revolute" stands for a continuous joint too.
        xyz: Position of its frame in that of its parent, in metres.
        rpy: Rotation of its frame: roll, pitch and yaw about the fixed axes of its parent, in radians.
        axis: Unit vector in its frame that it turns about or slides along.
        moved_by: The joint whose value moves it: itself, or the joint that it mimics; "" for a fixed joint.
        multiplier: It moves by this times the value of that joint,
        offset: plus this, in radians or metres.
    """

    name: str
    type: JointType
    xyz: Triple
    rpy: Triple
    axis: Triple = (1.0, 0.0, 0.0)
    moved_by: str = ""
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KinematicChain:
    """The joints from a base of a robot to one of its links.

    Attributes:
        end_effector: The link.
        joints: From the base to the link.
    """

    end_effector: str
    joints: tuple[Joint, ...]

    @property
    def joint_types(self) -> dict[str, JointType]:
        """The joints whose values say where the link is, in the order of the chain, with their types."""
        return {joint.moved_by: joint.type for joint in self.joints if joint.moved_by}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinematics:
    """What forward kinematics needs for the episodes of a dataset.

    Attributes:
        chains: One for each end effector.
        joints: Joint by dimension of the state, where their names differ.
    """

    chains: tuple[KinematicChain, ...]
    joints: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """The chains and names as JSON."""
        return {"chains": [cast("Json", asdict(chain)) for chain in self.chains], "joints": dict(self.joints)}


def kinematics_from_json(document: Json) -> Kinematics:
    """The kinematics that `Kinematics.to_json` wrote."""
    fields = cast("Mapping[str, Any]", document)
    return Kinematics(chains=tuple(map(_chain_from_json, fields["chains"])), joints=dict(fields["joints"]))


def _chain_from_json(fields: Mapping[str, Any]) -> KinematicChain:
    return KinematicChain(
        end_effector=fields["end_effector"], joints=tuple(map(_joint_from_json, fields["joints"]))
    )


def _joint_from_json(fields: Mapping[str, Any]) -> Joint:
    vectors: dict[str, Any] = {name: tuple(fields[name]) for name in ("xyz", "rpy", "axis")}
    return Joint(**{**fields, **vectors})


def end_effector_positions(
    chain: KinematicChain, values: Mapping[str, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Positions of the origin of a link in the frame of the base of its chain.

    The point is carried through the joints from the link to the base, so that a joint costs a few operations on T
    points and no product of T matrices (Lynch and Park, "Modern Robotics", 2017, section 4.1, in the order of a URDF).

    Args:
        chain: The joints of the link.
        values: (T,) radians or metres of each of `chain.joint_types`, by name; T is at least 1.

    Returns:
        (T, 3) metres.
    """
    import numpy as np

    points = np.zeros((max((len(part) for part in values.values()), default=1), 3))
    for joint in reversed(chain.joints):
        if joint.moved_by:
            points = _move_by_joint(joint, points, joint.multiplier * values[joint.moved_by] + joint.offset)
        points = points @ _rotation_matrix(joint.rpy).T + np.array(joint.xyz)
    return points


def _move_by_joint(
    joint: Joint, points: NDArray[np.float64], value: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points (T, 3) turned about the axis of a joint by (T,) radians (Rodrigues), or moved along it by (T,) metres."""
    import numpy as np

    axis = np.array(joint.axis)
    if joint.type == "prismatic":
        return np.asarray(points + value[:, None] * axis)
    sines, cosines = np.sin(value)[:, None], np.cos(value)[:, None]
    x, y, z = joint.axis
    across = points @ np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]).T
    return np.asarray(cosines * points + sines * across + (1 - cosines) * (points @ axis)[:, None] * axis)


def _rotation_matrix(rpy: Triple) -> NDArray[np.float64]:
    """(3, 3) rotation by roll, pitch and yaw about fixed axes."""
    import numpy as np

    (sr, sp, sy), (cr, cp, cy) = np.sin(rpy), np.cos(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


_TYPES: dict[str, JointType] = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "fixed": "fixed",
}


@dataclass(frozen=True, slots=True)
class _UrdfElements:
    """The elements of a URDF by name.

    Attributes:
        path: The file, for messages.
        links: Names of its links.
        joints: By name.
        by_child: The joint that leads to each link but the root.
    """

    path: str
    links: frozenset[str]
    joints: dict[str, Element]
    by_child: dict[str, Element]


def read_kinematic_chains(
    path: str, end_effectors: Sequence[str], base_link: str = ""
) -> tuple[KinematicChain, ...]:
    """The chains from a base of a robot to some of its links.

    Only the joints of these chains are looked at closely.

    Args:
        path: A URDF file; a xacro file must be expanded first.
        end_effectors: Names of the links.
        base_link: The link at which the chains begin; "" for the root of the robot.

    Raises:
        RequestError: The robot has no such link, or the base is on no way to an end effector.
        SourceError: The file cannot be read, is no URDF, or a joint of a chain is wrong or cannot be computed.
    """
    robot = _read_robot(path)
    return tuple(
        KinematicChain(
            end_effector=link,
            joints=tuple(_parse_joint(element, robot) for element in _joints_to_link(link, base_link, robot)),
        )
        for link in end_effectors
    )


def _read_robot(path: str) -> _UrdfElements:
    try:
        root = read_xml(path)
    except OSError as error:
        raise SourceError("URDF cannot be read", f"{path}: {error}") from None
    if root.tag != "robot":
        raise SourceError("file is no URDF", f"{path}: its root is <{root.tag[:60]}>, not <robot>")
    if any(element.tag.startswith("xacro:") for element in root.iter()):
        raise SourceError("URDF is a xacro file", f"{path}: expand it first, `xacro FILE > robot.urdf`")
    links = frozenset(link.get("name", "") for link in root.findall("link"))
    joints: dict[str, Element] = {}
    by_child: dict[str, Element] = {}
    for joint in root.findall("joint"):
        name, child = joint.get("name", ""), _link_of(joint, "child", links, path)
        if name in joints:
            raise SourceError("URDF has two joints of one name", f"{path}: {name!r}")
        if child in by_child:
            raise SourceError("URDF has two joints that lead to one link", f"{path}: link {child!r}")
        joints[name] = by_child[child] = joint
    return _UrdfElements(path, links, joints, by_child)


def _link_of(joint: Element, end: str, links: frozenset[str], path: str) -> str:
    """The parent or child of a joint."""
    element = joint.find(end)
    link = element.get("link", "") if element is not None else ""
    if link not in links:
        raise SourceError(
            "URDF has a joint without a link", f"{path}: {end} {link!r} of joint {joint.get('name', '')!r}"
        )
    return link


def _joints_to_link(link: str, base_link: str, robot: _UrdfElements) -> list[Element]:
    """The joints from the base to a link."""
    for name in filter(None, (link, base_link)):
        _check_link(name, robot)
    end, visited = link, {link}
    joints: list[Element] = []
    while link != base_link and (joint := robot.by_child.get(link)) is not None:
        joints.append(joint)
        link = _link_of(joint, "parent", robot.links, robot.path)
        if link in visited:
            raise SourceError("joints of a URDF go in a circle", f"{robot.path}: through link {link!r}")
        visited.add(link)
    if base_link and link != base_link:
        raise RequestError(
            f"link {base_link!r} is not on the way to {end!r}", f"{robot.path}: that begins at {link!r}"
        )
    return joints[::-1]


def _check_link(link: str, robot: _UrdfElements) -> None:
    if link not in robot.links:
        meant = did_you_mean(link, sorted(robot.links)) or f"there are {count_of(len(robot.links), 'link')}"
        raise RequestError(f"URDF has no link {link!r}", f"{robot.path}: {meant}")


def _parse_joint(element: Element, robot: _UrdfElements) -> Joint:
    name, joint_type = element.get("name", ""), _joint_type(element, robot)
    moved_by, multiplier, offset = ("", 1.0, 0.0) if joint_type == "fixed" else _driving_joint(element, robot)
    return Joint(
        name=name,
        type=joint_type,
        xyz=_parse_triple(element, "origin", "xyz", "0 0 0", robot),
        rpy=_parse_triple(element, "origin", "rpy", "0 0 0", robot),
        axis=(1.0, 0.0, 0.0) if joint_type == "fixed" else _joint_axis(element, robot),
        moved_by=moved_by,
        multiplier=multiplier,
        offset=offset,
    )


def _joint_type(element: Element, robot: _UrdfElements) -> JointType:
    joint_type = element.get("type", "")
    if joint_type not in _TYPES:
        detail = f"{element.get('name', '')!r} is {joint_type!r}, not one of {', '.join(_TYPES)}"
        raise SourceError("URDF has a joint of a type that is not computed", f"{robot.path}: {detail}")
    return _TYPES[joint_type]


def _driving_joint(element: Element, robot: _UrdfElements) -> tuple[str, float, float]:
    """The joint whose value moves a joint, with factor and offset, through all joints that mimic others."""
    multiplier, offset = 1.0, 0.0
    for joint, mimic in _follow_mimics(element, robot):
        if mimic is None:
            return joint.get("name", ""), multiplier, offset
        (factor,) = _parse_numbers(mimic.get("multiplier", "1"), 1, joint, "multiplier", robot)
        (constant,) = _parse_numbers(mimic.get("offset", "0"), 1, joint, "offset", robot)
        offset += multiplier * constant
        multiplier *= factor
    raise SourceError(
        "joints of a URDF mimic each other in a circle", f"{robot.path}: joint {element.get('name', '')!r}"
    )


def _follow_mimics(element: Element, robot: _UrdfElements) -> Iterator[tuple[Element, Element | None]]:
    """A joint and those that it mimics, one after the other, each with its element; ends where they repeat."""
    visited: set[str] = set()
    while (name := element.get("name", "")) not in visited:
        visited.add(name)
        mimic = element.find("mimic")
        yield element, mimic
        if mimic is None:
            return
        target = robot.joints.get(mimic.get("joint", ""))
        if target is None or target.get("type") == "fixed":
            detail = f"{robot.path}: {name!r} mimics {mimic.get('joint', '')!r}"
            raise SourceError("URDF has a joint that mimics none that moves", detail)
        element = target


def _joint_axis(element: Element, robot: _UrdfElements) -> Triple:
    """The axis of a joint as a unit vector."""
    x, y, z = _parse_triple(element, "axis", "xyz", "1 0 0", robot)
    length = math.hypot(x, y, z)
    if length < 1e-9:
        raise SourceError("URDF has a joint without an axis", f"{robot.path}: {element.get('name', '')!r}")
    return x / length, y / length, z / length


def _parse_triple(element: Element, tag: str, attribute: str, default: str, robot: _UrdfElements) -> Triple:
    part = element.find(tag)
    text = default if part is None else part.get(attribute, default)
    x, y, z = _parse_numbers(text, 3, element, f"{tag} {attribute}", robot)
    return x, y, z


def _parse_numbers(text: str, count: int, joint: Element, what: str, robot: _UrdfElements) -> list[float]:
    try:
        numbers = [float(part) for part in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        detail = f"{what} {text[:60]!r} of joint {joint.get('name', '')!r}, not {count} finite"
        raise SourceError("URDF has wrong numbers", f"{robot.path}: {detail}")
    return numbers
