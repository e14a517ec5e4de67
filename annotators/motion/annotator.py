"""The annotator `motion`: measures of the robot's motion and vectors for similarity, from recorded signals only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.base import Annotator, Options, Result, Work, new_annotation
from annotators.motion.trajectory_vectors import TrajectoryVectors
from ares.annotation import Column, Maker
from ares.errors import AresError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json, Signal, Trajectory
    from ares.store import Stores

_VERSION = "2"
_BATCH_SIZE = 64
# A step is idle when the position moves at less than this share of the episode's own 95th percentile of speed.
_IDLE_SHARE_OF_SPEED = 0.05
# An action is saturated within this share of its dimension's range from the range's ends.
_SATURATION_MARGIN = 0.01
# A gripper changes state when it crosses from below the lower to above the upper share of its range, or back.
_GRIPPER_LOW, _GRIPPER_HIGH = 0.35, 0.65
_MIN_STEPS = 5
# A slower peak is rounding, not motion; metres per second.
_MIN_PEAK_SPEED = 1e-9

COLUMNS = (
    Column(name="path_length", type="float64", unit="m", meaning="Length of the path of the end effector."),
    Column(
        name="jerk_ldlj", type="float64", meaning="Log dimensionless jerk of that path; nearer 0 is smoother."
    ),
    Column(
        name="peak_speed", type="float64", unit="m/s", meaning="95th percentile of the end effector's speed."
    ),
    Column(
        name="idle_share", type="float64", meaning="Share of steps at which the end effector hardly moves."
    ),
    Column(name="gripper_events", type="int64", meaning="Times that the gripper opens or closes."),
    Column(
        name="action_saturation",
        type="float64",
        meaning="Share of continuous action values at the ends of their range.",
    ),
    Column(
        name="action_jumps", type="float64", meaning="Mean step of the actions, as a share of their range."
    ),
    Column(
        name="timestamp_jitter",
        type="float64",
        unit="s",
        meaning="Standard deviation of the time between steps.",
    ),
)


def make_motion_annotator(options: Options, stores: Stores) -> Annotator:
    """An annotator that measures motion and makes the vectors of `ares search --by state,action`.

    An episode without signals gets the status "no signals".
    """
    settings: dict[str, Json] = {
        "idle": _IDLE_SHARE_OF_SPEED,
        "saturation": _SATURATION_MARGIN,
        "gripper": [_GRIPPER_LOW, _GRIPPER_HIGH],
    }
    maker = Maker(annotator="motion", version=_VERSION, settings=settings, columns=COLUMNS)
    vectors = TrajectoryVectors(stores)

    def process(works: Sequence[Work]) -> list[Result | AresError]:
        return [
            Result(
                annotations=[new_annotation(work, maker, measure_motion(work.trajectory))],
                vectors=tuple(vectors.make_vectors(work)),
            )
            for work in works
        ]

    return Annotator(maker=maker, process=process, needs_signals=True, batch_size=_BATCH_SIZE)


def measure_motion(trajectory: Trajectory | None) -> dict[str, Json]:
    """Measures of a trajectory, with a status.

    A measure that needs data the episode does not have is left out: no NaN and no 0 replaces it. Status is "ok",
    "no position" (only measures of gripper, action and time), "too short" or "no signals".
    """
    import numpy as np

    if trajectory is None or (trajectory.state is None and trajectory.action is None):
        return {"status": "no signals"}
    if len(trajectory.timestamps) < _MIN_STEPS:
        return {"status": "too short", "steps": len(trajectory.timestamps)}
    position = _position(trajectory.state)
    measures: dict[str, float | int | None] = {
        **_path_measures(position, trajectory.timestamps),
        "gripper_events": _count_gripper_events(trajectory),
        **_action_measures(trajectory.action),
        "timestamp_jitter": round(float(np.std(np.diff(trajectory.timestamps))), 9),
    }
    finite: dict[str, Json] = {
        name: value for name, value in measures.items() if value is not None and np.isfinite(value)
    }
    return {"status": "ok" if position is not None else "no position", **finite}


def _position(state: Signal | None) -> NDArray[np.float64] | None:
    """(T, 3) metres of the end effector, or None when no three columns are named as its position."""
    import numpy as np

    if state is None:
        return None
    names = [name.lower() for name in state.names]
    for axes in (
        ("x", "y", "z"),
        ("pos_x", "pos_y", "pos_z"),
        ("ee_x", "ee_y", "ee_z"),
        ("eef_x", "eef_y", "eef_z"),
    ):
        if all(axis in names for axis in axes):
            return state.values[:, [names.index(axis) for axis in axes]].astype(np.float64)
    return None


def _path_measures(
    position: NDArray[np.float64] | None, seconds: NDArray[np.float64]
) -> dict[str, float | None]:
    import numpy as np

    if position is None or not np.isfinite(position).all() or np.any(np.diff(seconds) <= 0):
        return {}
    speeds = np.linalg.norm(np.diff(position, axis=0), axis=1) / np.diff(seconds)
    peak = float(np.percentile(speeds, 95))
    return {
        "path_length": float(np.linalg.norm(np.diff(position, axis=0), axis=1).sum()),
        "jerk_ldlj": log_dimensionless_jerk(position, seconds),
        "peak_speed": peak,
        "idle_share": float(np.mean(speeds < _IDLE_SHARE_OF_SPEED * peak)) if peak > 0 else 1.0,
    }


def log_dimensionless_jerk(position: NDArray[np.float64], seconds: NDArray[np.float64]) -> float | None:
    """Log dimensionless jerk of a path, the smoothness measure of Balasubramanian, Melendez-Calderon, Roby-Brami and
    Burdet, "On the analysis of movement smoothness", J. NeuroEng. Rehabil. 12:112 (2015), eq. 8:
    -ln(T^3 / v_peak^2 * integral of |d2v/dt2|^2 dt), with duration T and the speed's peak v_peak.

    Args:
        position: (T, D) metres.
        seconds: (T,) strictly rising.

    Returns:
        A number without unit, None for a path at rest.
    """
    import numpy as np

    velocity = np.gradient(position, seconds, axis=0)
    jerk = np.gradient(np.gradient(velocity, seconds, axis=0), seconds, axis=0)
    peak = float(np.linalg.norm(velocity, axis=1).max())
    total = float(np.trapezoid((jerk**2).sum(axis=1), seconds))
    if peak < _MIN_PEAK_SPEED or total <= 0:
        return None
    return float(-np.log(total * (seconds[-1] - seconds[0]) ** 3 / peak**2))


def _count_gripper_events(trajectory: Trajectory) -> int | None:
    """Changes between open and closed, of the first column of state (else of action) named as a gripper."""
    import numpy as np

    for signal in (trajectory.state, trajectory.action):
        columns = (
            []
            if signal is None
            else [column for column, name in enumerate(signal.names) if "grip" in name.lower()]
        )
        if signal is None or not columns:
            continue
        values = signal.values[:, columns[0]].astype(np.float64)
        value_range = np.ptp(values)
        if not np.isfinite(value_range) or value_range < 1e-3 * max(1.0, float(np.abs(values).max())):
            return 0 if np.isfinite(value_range) else None
        share = (values - values.min()) / value_range
        states = np.where(share >= _GRIPPER_HIGH, 1, np.where(share <= _GRIPPER_LOW, -1, 0))
        open_or_closed = states[states != 0]
        return int(np.count_nonzero(np.diff(open_or_closed)))
    return None


def _action_measures(action: Signal | None) -> dict[str, float | None]:
    """Saturation and jumps over the continuous dimensions, those with more than three different values."""
    import numpy as np

    if action is None or not np.isfinite(action.values).all():
        return {}
    values = action.values.astype(np.float64)
    continuous = [column for column in range(values.shape[1]) if len(np.unique(values[:, column])) > 3]
    if not continuous:
        return {}
    values = values[:, continuous]
    low, high = values.min(axis=0), values.max(axis=0)
    margin = _SATURATION_MARGIN * (high - low)
    # The extreme itself is always at the end of its range, so one value per end does not count as saturation.
    ends = ((values <= low + margin).sum(axis=0) - 1) + ((values >= high - margin).sum(axis=0) - 1)
    return {
        "action_saturation": float(ends.sum() / values.size),
        "action_jumps": float(np.mean(np.abs(np.diff(values, axis=0)) / (high - low))),
    }
