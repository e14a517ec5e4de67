"""URDF texts of robots, and rotations by OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

LIMIT = '<limit lower="-3" upper="3" effort="1" velocity="1"/>'


def joint(name: str, parent: str, child: str, inside: str = "", type: str = "revolute") -> str:
    """A joint element."""
    return f'<joint name="{name}" type="{type}"><parent link="{parent}"/><child link="{child}"/>{LIMIT}{inside}</joint>'


def robot(*joints: str, links: int = 0, more: str = "") -> str:
    """A robot with the links l0, l1... and these joints."""
    names = (f'<link name="l{number}"/>' for number in range(links or len(joints) + 1))
    return f'<robot name="r">{"".join(names)}{"".join(joints)}{more}</robot>'


def planar_arm(lengths: list[float]) -> str:
    """Links in a plane, each of its length along x; the last joint is fixed."""
    joints = []
    for number in range(len(lengths) + 1):
        x, fixed = (0.0, *lengths)[number], number == len(lengths)
        inside = f'<origin xyz="{x} 0 0"/><axis xyz="0 0 1"/>'
        joints.append(
            joint(f"j{number}", f"l{number}", f"l{number + 1}", inside, "fixed" if fixed else "revolute")
        )
    return robot(*joints)


def turn(*vector: float) -> NDArray[np.float64]:
    """(3, 3) the rotation about an axis by its length."""
    return np.asarray(cv2.Rodrigues(np.array(vector))[0], np.float64)
