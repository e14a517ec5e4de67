"""The measures of one trajectory, and why some of them are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from annotators.motion.actions import measure_actions
from annotators.motion.columns import (
    END_EFFECTOR,
    END_EFFECTOR_COLUMNS,
    JOINT_COLUMNS,
    JOINTS,
    OTHER_DIMENSIONS,
)
from annotators.motion.events import count_events
from annotators.motion.meaning import MotionMeaning, named_meaning
from annotators.motion.paths import PathMeasures, combine_paths, moving_paths
from annotators.motion.resampling import equal_periods
from annotators.motion.trajectory_paths import measure_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ares.annotation import Column
    from ares.episode import Json, Signal, Trajectory

_MIN_STEPS = 5
_COLUMNS_OF_SPACE: Mapping[str, tuple[Column, ...]] = {
    END_EFFECTOR: END_EFFECTOR_COLUMNS,
    JOINTS: JOINT_COLUMNS,
}
_NO_PATH = "path, speed, smoothness"


def measure_motion(trajectory: Trajectory | None, meaning: MotionMeaning | None = None) -> dict[str, Json]:
    """Measures of a trajectory, with a status.

    A measure that needs data the episode does not have is left out: no NaN and no 0 replaces it. `motion_gaps` names
    the columns that are left out, and why.

    Args:
        trajectory: The signals.
        meaning: Kinds and units of the dimensions; None for the kinds that the names say, in radians and metres.

    Returns:
        Values by column, `arms` with the measures of each arm, `path_of` where actions were measured, and `status`:
        "ok", "no path" (only measures of gripper, action and time), "too short" or "no signals".
    """
    import numpy as np

    if trajectory is None or (trajectory.state is None and trajectory.action is None):
        return {"status": "no signals", "motion_gaps": ["all columns: the episode has no signals"]}
    steps = len(trajectory.timestamps)
    if steps < _MIN_STEPS:
        gaps: list[Json] = [f"all columns: the episode has fewer than {_MIN_STEPS} steps"]
        return {"status": "too short", "steps": steps, "motion_gaps": gaps}
    state, action = trajectory.state, trajectory.action
    if meaning is None:
        meaning = named_meaning(*(signal.names if signal else () for signal in (state, action)))
    periods = equal_periods(trajectory.timestamps)
    paths, obstacle = measure_paths(trajectory, meaning, periods)
    measures: dict[str, Json] = {
        **_path_columns(paths, meaning),
        **_event_columns(trajectory, meaning),
        **measure_actions(action, periods),
        "timestamp_jitter": round(float(np.std(np.diff(trajectory.timestamps))), 9),
    }
    reasons: list[Json] = [*_gaps(measures, paths, obstacle, action, meaning)]
    arms: list[Json] = [_arm(path) for path in paths] if len(paths) > 1 else []
    parts: dict[str, Json] = {"arms": arms} if arms else {}
    if paths and meaning.path_signal == "action":
        parts["path_of"] = "action"
    gaps_column: dict[str, Json] = {"motion_gaps": reasons} if reasons else {}
    return {"status": "ok" if paths else "no path", **measures, **gaps_column, **parts}


def _path_columns(paths: Sequence[PathMeasures], meaning: MotionMeaning) -> dict[str, Json]:
    import numpy as np

    if not paths:
        return {}
    columns: dict[str, Json] = {"motion_spaces": list(dict.fromkeys(path.group.space for path in paths))}
    for space, declared in _COLUMNS_OF_SPACE.items():
        of_space = [path for path in paths if path.group.space == space]
        values = combine_paths(of_space) if of_space else ()
        unit = _unit(of_space, meaning)
        columns |= {
            column.name: value
            for column, value in zip(declared, values, strict=False)
            if value is not None and np.isfinite(value) and (unit == "m" or column.unit not in ("m", "m/s"))
        }
        columns |= {"joint_unit": unit} if of_space and space == JOINTS else {}
    moving = np.any([path.moving for path in moving_paths(paths)] or [paths[0].moving & False], axis=0)
    columns["idle_share"] = float(1 - moving.mean())
    turns = np.concatenate([path.turns for path in moving_paths(paths)] or [np.zeros(0, dtype=np.intp)])
    return columns | _turn_column(turns.tolist(), float(moving.mean()), paths)


def _unit(paths: Sequence[PathMeasures], meaning: MotionMeaning) -> str:
    """The unit of paths in one space; forward kinematics, which needs no dimension of its own, gives metres."""
    numbers = [number for path in paths for number in path.group.columns]
    return meaning.measured_unit(numbers) if numbers else "m"


def _turn_column(turns: list[float], moving_share: float, paths: Sequence[PathMeasures]) -> dict[str, Json]:
    """Changes of direction per second of motion; none for a robot at rest."""
    seconds = moving_share * len(paths[0].moving) * paths[0].period
    return {"direction_changes": sum(turns) / len(turns) / seconds} if turns and seconds > 0 else {}


def _event_columns(trajectory: Trajectory, meaning: MotionMeaning) -> dict[str, Json]:
    signals, kinds = (trajectory.state, trajectory.action), (meaning.state_kinds, meaning.action_kinds)
    counts = {
        "gripper_events": count_events(signals, kinds, "gripper"),
        "hand_events": count_events(signals, kinds, "hand"),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _gaps(
    measures: Mapping[str, Json],
    paths: Sequence[PathMeasures],
    obstacle: str,
    action: Signal | None,
    meaning: MotionMeaning,
) -> list[str]:
    """Which columns are empty, and why; the texts are the same for every episode, so that they can be counted."""
    gaps = [f"{_NO_PATH}: {obstacle}"] if not paths else _space_gaps(measures, paths, meaning)
    gaps += [
        f"{kind}_events: no dimension is known as a {kind}"
        for kind in ("gripper", "hand")
        if f"{kind}_events" not in measures
    ]
    if "action_saturation" not in measures:
        reason = "there is no action" if action is None else "no action is continuous and finite"
        gaps.append(f"action_saturation, action_jumps: {reason}")
    return gaps


def _space_gaps(
    measures: Mapping[str, Json], paths: Sequence[PathMeasures], meaning: MotionMeaning
) -> list[str]:
    spaces = {path.group.space for path in paths}
    gaps = []
    if END_EFFECTOR not in spaces:
        reason = meaning.kinematics_gap or "the state has no position of it, and no URDF is given"
        gaps.append(f"path_length and others of the end effector: {reason}")
    if JOINTS not in spaces:
        gaps.append("joint_path_length and others of joints: no dimension of the state is known as a joint")
    if END_EFFECTOR in spaces and "path_length" not in measures:
        gaps.append(
            "path_length, mean_speed, peak_speed: the unit of positions is not known as m or mm (give a spec)"
        )
    smoothness = {"jerk_ldlj", "joint_jerk_ldlj"} & set(measures)
    if not smoothness and spaces != {OTHER_DIMENSIONS}:
        gaps.append("smoothness: the robot does not move, or the episode is too short")
    return gaps


def _arm(path: PathMeasures) -> Json:
    """The measures of one arm, for `ares show`."""
    values = {
        "length": path.length,
        "mean_speed": path.mean_speed,
        "peak_speed": path.peak_speed,
        "jerk": path.jerk,
        "sparc": path.sparc,
    }
    kept: dict[str, Json] = {name: round(value, 6) for name, value in values.items() if value is not None}
    return {"space": path.group.space, "arm": path.group.arm, **kept}
