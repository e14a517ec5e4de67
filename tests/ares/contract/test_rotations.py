"""Rotations survive a conversion to any other convention and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ares.contract import ROTATION_FORMS, convert_rotation_form, rotation_width
from ares.contract.contracts import _reordered_rotation, certain
from ares.contract.conversions import convert_rotation
from ares.errors import RequestError
from tests.ares.contract.robots import turn
from tests.generators.merged_sources import write_rotations

ANGLES = st.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi, 1e-9, -1e-5]) | st.floats(-3.2, 3.2)


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


def matrices_of(turns: list[tuple[float, float, float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(T, 3, 3) the product of turns about x, y and z, by OpenCV."""
    return np.array([turn(0, 0, z) @ turn(0, y, 0) @ turn(x, 0, 0) for x, y, z in turns])


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(list(ROTATION_FORMS)),
    st.sampled_from(list(ROTATION_FORMS)),
    st.lists(st.tuples(ANGLES, ANGLES, ANGLES), min_size=1, max_size=5),
    st.integers(1, 2),
)
def test_forms_of_a_plan_there_and_back(
    source: str, target: str, turns: list[tuple[float, float, float]], arms: int
) -> None:
    """Every rotation, also those at which roll and yaw are one, and of two arms at once."""
    truth = write_rotations(matrices_of(turns), "6d")
    values = convert_rotation_form(np.tile(truth, arms), "6d", source)
    again = convert_rotation_form(values, source, target)
    assert again.shape == (len(turns), arms * rotation_width(target))
    back = convert_rotation_form(convert_rotation_form(again, target, source), source, "6d")
    np.testing.assert_allclose(back, np.tile(truth, arms), atol=1e-6)


def test_a_quaternion_does_not_jump_to_its_negative() -> None:
    turns = [(0.0, 0.0, yaw) for yaw in np.linspace(-3.0, 9.0, 60)]
    quaternions = convert_rotation_form(write_rotations(matrices_of(turns), "6d"), "6d", "xyzw")
    assert quaternions[0, 3] > 0 and np.abs(np.diff(quaternions, axis=0)).max() < 0.2


@pytest.mark.parametrize(
    ("value", "order", "becomes"),
    [
        ("quaternion wxyz", [1, 2, 3, 0], "quaternion xyzw"),
        ("quaternion xyzw", [3, 0, 1, 2, 7, 4, 5, 6], "quaternion wxyz"),
        ("quaternion xyzw", [0, 1, 2, 3], "quaternion xyzw"),
        ("quaternion xyzw", [1, 0, 2, 3], "unknown"),
        ("euler", [2, 1, 0], "unknown"),
    ],
)
def test_the_order_of_a_quaternion_follows_its_names(value: str, order: list[int], becomes: str) -> None:
    """A merge by names puts qw, qx, qy, qz in the order of the other source: no second exchange is needed."""
    assert _reordered_rotation(certain(value, "names"), order).value == becomes
