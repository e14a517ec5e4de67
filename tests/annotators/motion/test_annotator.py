"""Motion measures on signals whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ares.episode import Episode, Signal, Trajectory
from ares.workspace import Workspace
from ares_annotators.base import Options, Result, Work
from ares_annotators.motion import MotionAnnotator
from ares_annotators.motion.columns import COLUMNS
from ares_annotators.motion.measures import measure_motion

SECONDS = np.linspace(0.0, 2.0, 401)


def _trajectory(state: np.ndarray | None, names: tuple[str, ...] = ("x", "y", "z", "gripper")) -> Trajectory:
    signal = None if state is None else Signal(state.astype(np.float32), names)
    steps = len(SECONDS) if state is None else len(state)
    return Trajectory(timestamps=SECONDS[:steps], state=signal)


def _reach(gripper: np.ndarray) -> np.ndarray:
    """Minimum-jerk reach of 0.3 m along x in 2 s."""
    tau = SECONDS / 2.0
    x = 0.3 * (10 * tau**3 - 15 * tau**4 + 6 * tau**5)
    return np.stack([x, 0 * x, 0 * x, gripper], axis=1)


def test_a_known_reach() -> None:
    gripper = np.where(SECONDS < 1.0, 1.0, 0.0)
    measures = measure_motion(_trajectory(_reach(gripper)))
    assert measures["status"] == "ok"
    assert measures["path_length"] == pytest.approx(0.3, rel=1e-3)
    assert measures["gripper_events"] == 1
    assert 0.0 < float(str(measures["idle_share"])) < 0.2
    assert set(measures) - {"status"} <= {column.name for column in COLUMNS}
    assert measures["motion_gaps"] == [
        "joint_path_length and others of joints: no dimension of the state is known as a joint",
        "hand_events: no dimension is known as a hand",
        "action_saturation, action_jumps: there is no action",
        "action_lag_seconds: state and action do not say by how much one follows the other",
    ]


def test_a_robot_at_rest_has_no_jerk_rather_than_a_number() -> None:
    measures = measure_motion(_trajectory(np.ones((401, 4))))
    assert (measures["path_length"], measures["idle_share"], measures["gripper_events"]) == (0.0, 1.0, 0)
    assert any("the robot does not move" in str(gap) for gap in measures["motion_gaps"])  # type: ignore[union-attr]
    assert "jerk_ldlj" not in measures


def test_a_regrasp_is_three_events_and_noise_is_none() -> None:
    gripper = np.select([SECONDS < 0.5, SECONDS < 1.0, SECONDS < 1.5], [1.0, 0.0, 1.0], 0.0)
    noise = 0.05 * np.sin(50 * SECONDS)
    assert measure_motion(_trajectory(_reach(gripper + noise)))["gripper_events"] == 3


def test_columns_that_are_not_named_as_a_position_are_not_taken_for_one() -> None:
    measures = measure_motion(_trajectory(_reach(np.zeros_like(SECONDS)), ("a", "b", "c", "d")))
    assert measures["motion_spaces"] == ["other dimensions"]
    assert not {"path_length", "jerk_ldlj", "gripper_events"} & set(measures)


def test_saturated_actions() -> None:
    free, saturated = np.sin(SECONDS * 3), np.clip(3 * np.sin(SECONDS * 3), -1, 1)
    names = ("dx", "gripper")
    step = np.where(SECONDS < 1, 0.0, 1.0)

    def share(dx: np.ndarray) -> float:
        action = Signal(np.stack([dx, step], axis=1).astype(np.float32), names)
        return float(str(measure_motion(Trajectory(timestamps=SECONDS, action=action))["action_saturation"]))

    assert share(saturated) > 0.6 > 0.2 > share(free)


def test_missing_and_broken_signals_have_a_status_and_no_nan() -> None:
    nothing = {"status": "no signals", "motion_gaps": ["all columns: the episode has no signals"]}
    assert measure_motion(None) == nothing
    assert measure_motion(_trajectory(None)) == nothing
    short = measure_motion(_trajectory(_reach(np.zeros_like(SECONDS))[:3]))
    assert (short["status"], short["steps"]) == ("too short", 3)
    broken = _reach(np.zeros_like(SECONDS))
    broken[7] = np.nan
    measures = measure_motion(_trajectory(broken))
    assert all(value == value for value in measures.values())
    assert "path, speed, smoothness: the state has values that are not finite" in measures["motion_gaps"]  # type: ignore[operator]


def test_a_clock_that_jumps_is_named_and_takes_no_memory() -> None:
    trajectory = _trajectory(_reach(np.zeros_like(SECONDS)))
    stamps = SECONDS + 1e13 * (SECONDS > 1)  # 10^14 periods of a tenth of a second
    measures = measure_motion(Trajectory(timestamps=stamps, state=trajectory.state, action=trajectory.state))
    assert "path, speed, smoothness: the stamps jump too far" in measures["motion_gaps"]  # type: ignore[operator]
    assert "path_length" not in measures


def test_an_episode_without_signals_is_done(
    options: Options, ws: Workspace, episodes: dict[str, Episode], work_for: Callable[..., Work]
) -> None:
    annotator = MotionAnnotator(options, ws.stores)
    (result,) = annotator.process([work_for(episodes["drawer-close_000"], [annotator])])
    assert isinstance(result, Result)
    assert result.annotations[0].value["status"] == "no signals"
    assert all(column.meaning for column in annotator.producer.columns)
