"""Motion vectors do not depend on names, speed, units or the representation of rotations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ares.episode import Signal
from ares.search import compute_motion_features, compute_motion_vector, find_signal_layout, fit_feature_scale

_ANGLES = st.floats(-3.14, 3.14)


def _signal(values: np.ndarray, names: tuple[str, ...]) -> Signal:
    return Signal(np.asarray(values, np.float32), names)


def _features(values: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    layout = find_signal_layout(names)
    assert layout is not None
    return compute_motion_features(_signal(values, names), layout)


@settings(deadline=None)
@given(st.tuples(_ANGLES, _ANGLES, _ANGLES))
def test_a_rotation_is_the_same_however_it_is_written(angles: tuple[float, float, float]) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation.from_euler("xyz", [angles])
    expected = rotation.as_matrix()[:, :, :2].transpose(0, 2, 1).reshape(1, 6)
    for values, names in (
        (rotation.as_quat(), ("qx", "qy", "qz", "qw")),
        (-rotation.as_quat(), ("qx", "qy", "qz", "qw")),
        (rotation.as_rotvec(), ("rx", "ry", "rz")),
        (np.array([angles]), ("roll", "pitch", "yaw")),
        (np.array([angles[::-1]]), ("yaw", "pitch", "roll")),
    ):
        assert _features(values, names) == pytest.approx(expected, abs=1e-5)


def test_an_angle_that_wraps_round_does_not_jump() -> None:
    almost = _features(np.array([[0, 0, 3.13], [0, 0, -3.13]]), ("roll", "pitch", "yaw"))
    assert np.abs(np.diff(almost, axis=0)).max() < 0.03


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        (("x", "y", "z"), "xyz"),
        (("ee_x", "ee_y", "ee_z", "gripper"), "xyz-gripper"),
        (("gripper", "joint_0", "x", "y", "z", "qw", "qx", "qy", "qz"), "xyz-rotation-gripper"),
        (("x", "y", "z", "roll", "pitch", "yaw", "gripper"), "xyz-rotation-gripper"),
    ],
)
def test_a_hand_is_one_layout_whatever_else_is_recorded(names: tuple[str, ...], layout: str) -> None:
    signal_layout = find_signal_layout(names)
    assert signal_layout is not None and signal_layout.name == layout


def test_without_a_hand_every_name_counts_but_not_their_order() -> None:
    layout, swapped_layout = (
        find_signal_layout(("joint_0", "joint_1")),
        find_signal_layout(("joint_1", "joint_0")),
    )
    assert layout is not None and swapped_layout is not None
    assert (
        layout.name == swapped_layout.name != getattr(find_signal_layout(("joint_0", "joint_2")), "name", "")
    )
    values = np.array([[1.0, 2.0]])
    assert np.array_equal(
        compute_motion_features(_signal(values, ("joint_0", "joint_1")), layout),
        compute_motion_features(_signal(values[:, ::-1], ("joint_1", "joint_0")), swapped_layout),
    )
    assert find_signal_layout(()) is None


def test_two_hands_are_told_apart() -> None:
    names = tuple(
        f"{side}_{name}" for side in ("left", "right") for name in ("x", "y", "z", "rx", "ry", "rz")
    )
    layout = find_signal_layout(names)
    assert layout is not None and layout.width == 6 + 2 * 6


def _path(steps: int, sideways: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    seconds = np.linspace(0, steps / 10, steps)
    share = np.linspace(0, 1, steps)
    return np.stack([share, sideways * np.sin(np.pi * share), 0 * share], axis=1), seconds


def _vector(values: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    vector = compute_motion_vector(values, seconds, fit_feature_scale(_path(500, 1.0)[0]))
    assert vector is not None
    return vector


def test_speed_and_sampling_make_no_difference_but_another_path_does() -> None:
    slow, quick, other = (_vector(*_path(400)), _vector(*_path(80)), _vector(*_path(80, 0.5)))
    assert float(slow @ quick) == pytest.approx(1.0, abs=1e-3)
    assert float(slow @ other) < 0.97


@given(st.lists(st.floats(0, 2), min_size=3, max_size=3, unique=True))
def test_the_cosine_falls_with_the_distance(sideways: list[float]) -> None:
    near, middle, far = sorted(sideways)
    start = _vector(*_path(80, near))
    assert float(start @ _vector(*_path(80, middle))) >= float(start @ _vector(*_path(80, far))) - 1e-6


def test_the_unit_of_a_dataset_makes_no_difference() -> None:
    metres, seconds = _path(100, 0.7)
    millimetres = metres * 1000
    metre_vector = compute_motion_vector(metres, seconds, fit_feature_scale(metres))
    millimetre_vector = compute_motion_vector(millimetres, seconds, fit_feature_scale(millimetres))
    assert metre_vector is not None and millimetre_vector is not None
    assert np.allclose(metre_vector, millimetre_vector, atol=1e-6)


def test_what_never_changes_says_nothing_and_a_rare_gripper_counts() -> None:
    gripper = np.zeros(100)
    gripper[90:] = 1.0
    rows = np.stack([np.full(100, 5.0), gripper], axis=1)
    scale = fit_feature_scale(rows)
    assert scale.spread[0] == 0.0 and scale.spread[1] > 0.0
    seconds = np.arange(100.0)
    shifted = compute_motion_vector(rows + np.array([100.0, 0.0]), seconds, scale)
    assert shifted is not None and np.allclose(shifted, compute_motion_vector(rows, seconds, scale))  # type: ignore[arg-type]


def test_a_course_that_is_not_finite_has_no_vector() -> None:
    values, seconds = _path(10)
    values[3, 1] = np.nan
    assert compute_motion_vector(values, seconds, fit_feature_scale(values)) is None
    single_step = compute_motion_vector(values[:1], seconds[:1], fit_feature_scale(values))
    assert single_step is not None and np.linalg.norm(single_step) == pytest.approx(1.0)
