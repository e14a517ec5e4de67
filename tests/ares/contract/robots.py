"""URDF texts of generated robots, and where their links are by products of matrices."""

from __future__ import annotations

import xml.etree.ElementTree as ET

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


def random_robot(rng: np.random.Generator, size: int) -> str:
    """A tree of links with joints of every type, some of which mimic others."""
    joints: list[str] = []
    free: list[str] = []
    for number in range(1, size):
        kind = str(rng.choice(["revolute", "continuous", "prismatic", "fixed"]))
        xyz, rpy, axis = rng.normal(0, 0.3, 3), rng.uniform(-3, 3, 3), rng.normal(size=3)
        inside = f'<origin xyz="{_text(xyz)}" rpy="{_text(rpy)}"/><axis xyz="{_text(axis)}"/>'
        if kind != "fixed" and free and rng.random() < 0.2:
            factor, offset = rng.uniform(-2, 2), rng.uniform(-1, 1)
            inside += f'<mimic joint="{rng.choice(free)}" multiplier="{factor}" offset="{offset}"/>'
        elif kind != "fixed":
            free.append(f"j{number}")
        parent = rng.integers(max(0, number - 3), number)
        joints.append(joint(f"j{number}", f"l{parent}", f"l{number}", inside, kind))
    return robot(*joints)


def _text(numbers: NDArray[np.float64]) -> str:
    return " ".join(map(repr, numbers.tolist()))


def position_by_matrices(urdf: str, link: str, values: dict[str, float]) -> NDArray[np.float64]:
    """(3,) position of a link at one pose: 4 x 4 matrices with the rotations of OpenCV."""
    joints = {element.find("child").get("link"): element for element in ET.fromstring(urdf).findall("joint")}  # type: ignore[union-attr]
    pose = np.eye(4)
    while link in joints:
        element = joints[link]
        pose = _joint_matrix(element, values) @ pose
        link = str(element.find("parent").get("link"))  # type: ignore[union-attr]
    return np.asarray(pose[:3, 3])


def turn(*vector: float) -> NDArray[np.float64]:
    """(3, 3) the rotation about an axis by its length."""
    return np.asarray(cv2.Rodrigues(np.array(vector))[0], np.float64)


def _joint_matrix(element: ET.Element, values: dict[str, float]) -> NDArray[np.float64]:
    matrix, motion = np.eye(4), np.eye(4)
    if (origin := element.find("origin")) is not None:
        matrix[:3, 3] = _numbers(origin, "xyz", "0 0 0")
        roll, pitch, yaw = _numbers(origin, "rpy", "0 0 0")
        matrix[:3, :3] = turn(0, 0, yaw) @ turn(0, pitch, 0) @ turn(roll, 0, 0)
    if element.get("type") == "fixed":
        return matrix
    direction = _numbers(element.find("axis"), "xyz", "1 0 0")
    direction = direction / np.linalg.norm(direction)
    mimic = element.find("mimic")
    value = values[str(element.get("name"))] if mimic is None else (
        float(mimic.get("multiplier", "1")) * values[str(mimic.get("joint"))] + float(mimic.get("offset", "0"))
    )  # fmt: skip
    if element.get("type") == "prismatic":
        motion[:3, 3] = value * direction
    else:
        motion[:3, :3] = turn(*(value * direction))
    return np.asarray(matrix @ motion)


def _numbers(element: ET.Element | None, name: str, otherwise: str) -> NDArray[np.float64]:
    text = otherwise if element is None else element.get(name, otherwise)
    return np.array([float(part) for part in text.split()])
