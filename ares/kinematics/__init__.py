"""Forward kinematics: where the links of a robot are, from the angles of its joints and its URDF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.kinematics.chain import KinematicChain, Kinematics, kinematics_from_json
    from ares.kinematics.forward import end_effector_positions
    from ares.kinematics.matching import JointMatch, match_joints
    from ares.kinematics.urdf import read_chains

__all__ = [
    "JointMatch",
    "KinematicChain",
    "Kinematics",
    "end_effector_positions",
    "kinematics_from_json",
    "match_joints",
    "read_chains",
]

__getattr__ = lazy_exports(__name__)
