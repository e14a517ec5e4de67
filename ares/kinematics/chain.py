"""The joints from a base of a robot to one of its links, as far as they matter for where the link is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
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
        axis: Unit vector in its own frame that it turns about or slides along.
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
