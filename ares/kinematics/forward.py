"""Forward kinematics of all steps of an episode at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.kinematics.chain import Joint, KinematicChain, Triple


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
            points = _move(joint, points, joint.multiplier * values[joint.moved_by] + joint.offset)
        points = points @ _rotation(joint.rpy).T + np.array(joint.xyz)
    return points


def _move(joint: Joint, points: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (T, 3) turned about the axis of a joint by (T,) radians (Rodrigues), or moved along it by (T,) metres."""
    import numpy as np

    axis = np.array(joint.axis)
    if joint.type == "prismatic":
        return np.asarray(points + value[:, None] * axis)
    sines, cosines = np.sin(value)[:, None], np.cos(value)[:, None]
    x, y, z = joint.axis
    across = points @ np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]).T
    return np.asarray(cosines * points + sines * across + (1 - cosines) * (points @ axis)[:, None] * axis)


def _rotation(rpy: Triple) -> NDArray[np.float64]:
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
