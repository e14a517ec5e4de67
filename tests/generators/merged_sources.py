"""Poses of a tool, rotations in each form, and views of cameras, for sources of one robot that are merged.

Nothing here is shared with what compares datasets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ares.episode import Role
from tests.generators.two_sources import DEGREES

Array = NDArray[np.float64]

CAMERAS: tuple[tuple[str, Role], ...] = (
    ("top", "top"),
    ("wrist", "wrist"),
    ("side", "side"),
    ("cam_1", "other"),
)
_HEIGHT, _WIDTH = 36, 48


def tool_episodes(rng: np.random.Generator) -> Iterator[Array]:
    """Yield episodes (T, 13) of one task: position, gripper and the rows of a rotation matrix."""
    places = rng.uniform(-0.4, 0.4, (5, 3)) + rng.choice([-1, 1], 3) * 0.5
    turns = rng.choice([-1, 1], (5, 3)) * rng.uniform(0.2, 1.1, (5, 3)) * (1.0, 0.8, 1.0)
    grips = np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    while True:
        goals = places + rng.normal(0, 0.02, places.shape)
        angles = turns + rng.normal(0, 0.05, turns.shape)
        rows = []
        for leg in range(4):
            share = np.linspace(0, 1, int(rng.integers(14, 24)))[:, None]
            smooth = 3 * share**2 - 2 * share**3
            parts = [
                part[leg] + (part[leg + 1] - part[leg]) * smooth for part in (goals, angles, grips[:, None])
            ]
            rows.append(np.hstack([parts[0], parts[2], _matrices(parts[1]).reshape(-1, 9)]))
        table = np.concatenate(rows)
        table[:, :3] += rng.normal(0, 1e-3, (len(table), 3))
        yield table


def _matrices(angles: Array) -> Array:
    """(T, 3, 3) rotations by (T, 3) roll, pitch and yaw about fixed axes: the product of three."""
    product = np.eye(3)
    for axis in range(3):
        own, (first, second) = np.zeros((len(angles), 3, 3)), ((1, 2), (2, 0), (0, 1))[axis]
        own[:, axis, axis] = 1
        own[:, first, first] = own[:, second, second] = np.cos(angles[:, axis])
        own[:, second, first], own[:, first, second] = np.sin(angles[:, axis]), -np.sin(angles[:, axis])
        product = own @ product
    return np.asarray(product)


def write_rotations(matrices: Array, form: str) -> Array:
    """Rotations (T, 3, 3) as euler, euler deg, axis-angle, 6d, xyzw or wxyz, by formulas for less than half a turn."""
    skew = np.stack([matrices[:, b, a] - matrices[:, a, b] for a, b in ((1, 2), (2, 0), (0, 1))], axis=1) / 2
    angle = np.arctan2(np.linalg.norm(skew, axis=1), (np.trace(matrices, axis1=1, axis2=2) - 1) / 2)[:, None]
    axis = skew / np.maximum(np.linalg.norm(skew, axis=1), 1e-12)[:, None]
    if form == "axis-angle":
        return np.asarray(axis * angle)
    if form == "6d":
        return np.concatenate([matrices[:, :, 0], matrices[:, :, 1]], axis=1)
    if form in ("xyzw", "wxyz"):
        parts = [axis * np.sin(angle / 2), np.cos(angle / 2)]
        return np.hstack(parts if form == "xyzw" else parts[::-1])
    pitch = np.arcsin(np.clip(-matrices[:, 2, 0], -1, 1))
    roll = np.arctan2(matrices[:, 2, 1], matrices[:, 2, 2])
    yaw = np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0])
    return np.stack([roll, pitch, yaw], axis=1) * (DEGREES if form == "euler deg" else 1.0)


def draw_view(rng: np.random.Generator) -> NDArray[np.float64]:
    """(H, W, 3) what one camera looks at: a gradient and some things."""
    rows, columns = np.mgrid[0:_HEIGHT, 0:_WIDTH]
    slope = rng.uniform(-1, 1, 2)
    view = np.repeat((rng.uniform(60, 180) + slope[0] * rows + slope[1] * columns)[..., None], 3, axis=2)
    for _ in range(int(rng.integers(3, 8))):
        top, left = int(rng.integers(0, _HEIGHT - 6)), int(rng.integers(0, _WIDTH - 6))
        height, width = int(rng.integers(4, 18)), int(rng.integers(4, 24))
        view[top : top + height, left : left + width] = rng.uniform(0, 255, 3)
    return view
