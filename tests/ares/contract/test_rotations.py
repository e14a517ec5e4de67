"""Rotations survive a conversion to any other convention and back."""

from __future__ import annotations

import numpy as np
import pytest

from ares.contract.conversions import WIDTHS, convert_rotation
from ares.errors import RequestError


@pytest.mark.parametrize("source", WIDTHS)
@pytest.mark.parametrize("target", WIDTHS)
def test_there_and_back(source: str, target: str) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    print(f"seed {seed}")
    quaternions = np.random.default_rng(seed).normal(size=(200, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    quaternions[0], quaternions[1] = (0, 0, 0, 1), (1, 0, 0, 0)
    values = convert_rotation(quaternions, "quaternion xyzw", source)
    again = convert_rotation(convert_rotation(values, source, target), target, source)
    turned = convert_rotation(again, source, "6d")
    np.testing.assert_allclose(turned, convert_rotation(quaternions, "quaternion xyzw", "6d"), atol=1e-6)


def test_a_quarter_turn_about_z() -> None:
    turn = np.array([[0, 0, np.pi / 2]])
    half = np.sqrt(0.5)
    for source in ("euler", "axis-angle"):
        np.testing.assert_allclose(
            convert_rotation(turn, source, "quaternion wxyz"), [[half, 0, 0, half]], atol=1e-12
        )
        np.testing.assert_allclose(convert_rotation(turn, source, "6d"), [[0, 1, 0, -1, 0, 0]], atol=1e-12)


def test_roll_is_applied_first() -> None:
    """Fixed axes: a roll of a quarter turn leaves x where it is, and the yaw then turns it to y."""
    matrix = convert_rotation(np.array([np.pi / 2, 0, np.pi / 2]), "euler", "6d")
    np.testing.assert_allclose(matrix, [0, 1, 0, 0, 0, 1], atol=1e-12)


def test_a_wrong_convention_or_width_is_refused() -> None:
    with pytest.raises(RequestError, match="no rotation convention 'rpy'"):
        convert_rotation(np.zeros((2, 3)), "rpy", "euler")
    with pytest.raises(RequestError, match=r"a rotation as 6d has 6 numbers: got 3"):
        convert_rotation(np.zeros((2, 3)), "6d", "euler")
