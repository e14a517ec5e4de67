"""Rotations survive a conversion to any other convention and back."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ares.contract.rotations import WIDTHS, convert_rotation
from ares.errors import RequestError

_CONVERTED = [name for name in WIDTHS if name != "6d"]
ANGLES = st.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi, 1e-9, -1e-5]) | st.floats(-3.2, 3.2)


def test_a_quarter_turn_about_z() -> None:
    turn = np.array([[0, 0, np.pi / 2]])
    half = np.sqrt(0.5)
    for source in ("euler", "axis-angle"):
        np.testing.assert_allclose(
            convert_rotation(turn, source, "quaternion wxyz"), [[half, 0, 0, half]], atol=1e-12
        )


def test_roll_is_applied_first() -> None:
    """Fixed axes: a roll of a quarter turn leaves x where it is, and the yaw then turns it to y."""
    quaternion = convert_rotation(np.array([np.pi / 2, 0, np.pi / 2]), "euler", "quaternion xyzw")
    np.testing.assert_allclose(quaternion, [0.5, 0.5, 0.5, 0.5], atol=1e-12)


def test_a_wrong_convention_or_width_is_refused() -> None:
    with pytest.raises(RequestError, match="no rotation convention 'rpy'"):
        convert_rotation(np.zeros((2, 3)), "rpy", "euler")
    with pytest.raises(RequestError, match=r"a rotation as quaternion xyzw has 4 numbers: got 3"):
        convert_rotation(np.zeros((2, 3)), "quaternion xyzw", "euler")


def turn(*vector: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(3, 3) the rotation about an axis by its length."""
    return np.asarray(cv2.Rodrigues(np.array(vector))[0], np.float64)


def matrices_of(turns: list[tuple[float, float, float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(T, 3, 3) the product of turns about x, y and z, by OpenCV."""
    return np.array([turn(0, 0, z) @ turn(0, y, 0) @ turn(x, 0, 0) for x, y, z in turns])


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(_CONVERTED),
    st.sampled_from(_CONVERTED),
    st.lists(st.tuples(ANGLES, ANGLES, ANGLES), min_size=1, max_size=5),
)
def test_every_convention_there_and_back(
    source: str, target: str, turns: list[tuple[float, float, float]]
) -> None:
    """Every rotation, also those at which roll and yaw are one."""
    vectors = np.array([cv2.Rodrigues(matrix)[0][:, 0] for matrix in matrices_of(turns)])
    values = convert_rotation(vectors, "axis-angle", source)
    again = convert_rotation(values, source, target)
    assert again.shape == (len(turns), WIDTHS[target])
    back = convert_rotation(convert_rotation(again, target, source), source, "axis-angle")
    truth, found = ([turn(*vector) for vector in part] for part in (vectors, back))
    np.testing.assert_allclose(found, truth, atol=1e-6)
