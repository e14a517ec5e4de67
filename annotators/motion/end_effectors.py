"""Positions of end effectors by forward kinematics, where the state has the joints of a URDF."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import TYPE_CHECKING

from ares.kinematics import KinematicChain, Kinematics, end_effector_positions, match_joints

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FACTORS = {"revolute": {"rad": 1.0, "deg": pi / 180}, "prismatic": {"m": 1.0, "mm": 0.001}}
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEffector:
    """A link whose position follows from dimensions of the state.

    Attributes:
        chain: Its joints.
        dimensions: Dimension of each joint of `chain.joint_types`.
        factors: What each is multiplied by to be radians or metres.
    """

    chain: KinematicChain
    dimensions: tuple[int, ...]
    factors: tuple[float, ...]

    def positions(self, state: NDArray[np.float32]) -> NDArray[np.float64]:
        """(T, 3) metres in the frame of the base, from states (T, S); NaN where one of them is not finite."""
        import numpy as np

        if not np.isfinite(state[:, list(self.dimensions)]).all():
            return np.full((len(state), 3), np.nan)
        values = {
            joint: factor * state[:, number].astype(np.float64)
            for joint, number, factor in zip(
                self.chain.joint_types, self.dimensions, self.factors, strict=True
            )
        }
        points = end_effector_positions(self.chain, values)
        return np.broadcast_to(points, (len(state), 3))


def find_end_effectors(
    kinematics: Kinematics, names: tuple[str, ...], units: tuple[str, ...]
) -> tuple[tuple[EndEffector, ...], str]:
    """The end effectors of some kinematics, all or none, and why there is none.

    Args:
        kinematics: Chains, and stated names of joints.
        names: Names of the dimensions of the state.
        units: Their units.
    """
    ends = []
    for chain in kinematics.chains:
        match = match_joints(chain.joint_types, names, kinematics.joints)
        if match.unmatched:
            listed = ", ".join(match.unmatched[:_MOST_NAMES])
            more = f" and {len(match.unmatched) - _MOST_NAMES} more" if match.unmatched[_MOST_NAMES:] else ""
            return (
                (),
                f"no dimension of the state is named like the joints {listed}{more} of the URDF (give a spec)",
            )
        dimensions = tuple(match.dimensions[joint] for joint in chain.joint_types)
        factors = [
            _FACTORS[joint_type].get(units[number])
            for joint_type, number in zip(chain.joint_types.values(), dimensions, strict=True)
        ]
        known = tuple(factor for factor in factors if factor is not None)
        if len(known) < len(factors):
            wrong = sorted(
                {units[n] for n, factor in zip(dimensions, factors, strict=True) if factor is None}
            )
            return (), f"joints of the URDF are in the unit {', '.join(wrong)} in the state (give a spec)"
        ends.append(EndEffector(chain=chain, dimensions=dimensions, factors=known))
    return tuple(ends), ""
