"""All measures of one trajectory, with a status and with what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares_annotators.motion.actions import measure_action_lag, measure_actions
from ares_annotators.motion.columns import (
    END_EFFECTOR,
    END_EFFECTOR_COLUMNS,
    JOINT_COLUMNS,
    JOINTS,
    OTHER_DIMENSIONS,
    MotionGroup,
    find_motion_groups,
)
from ares_annotators.motion.curves import (
    PathMeasures,
    combine_path_measures,
    drop_parked_arms,
    measure_path,
)
from ares_annotators.motion.grippers import count_gripper_events
from ares_annotators.motion.meaning import MotionMeaning, infer_meaning_by_names
from ares_annotators.motion.periods import EpisodePeriods, divide_into_equal_periods

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from ares.annotation import Column
    from ares.episode import Json, Signal, Trajectory


def measure_arm_paths(
    trajectory: Trajectory, meaning: MotionMeaning, periods: EpisodePeriods | None
) -> tuple[list[PathMeasures], str]:
    """The measured paths, or why there is none.

    Args:
        trajectory: The signals.
        meaning: What their dimensions are.
        periods: Of the episode; None where its stamps jump or do not rise.
    """
    import numpy as np

    signal = trajectory.state if meaning.path_signal == "state" else trajectory.action
    if signal is None:
        return [], "there is no state, and an action may be a position or a motion (give a spec)"
    if periods is None:
        is_rising = bool((np.diff(trajectory.timestamps) > 0).all())
        return [], "the stamps jump too far" if is_rising else "the stamps do not rise"
    parts = _path_values(signal, meaning)
    if not parts:
        return [], "no dimension of the state is known as a joint or a position"
    values = np.concatenate(list(parts.values()), axis=1)
    if not np.isfinite(values).all():
        return [], "the state has values that are not finite"
    # From the first value on, so that a constant is exactly at rest.
    if periods.count < 2:
        return [], "the episode is shorter than two periods"
    resampled, start = periods.means(values - values[0]), 0
    paths = []
    for group, part in parts.items():
        stop = start + part.shape[1]
        paths.append(measure_path(group, resampled[:, start:stop], periods.period))
        start = stop
    return paths, ""


def _path_values(signal: Signal, meaning: MotionMeaning) -> dict[MotionGroup, NDArray[np.float64]]:
    """(T, D) values of each path in radians or metres where the unit is known."""
    import numpy as np

    return {
        group: signal.values[:, list(group.columns)].astype(np.float64)
        * np.array([meaning.factor(column) for column in group.columns])
        for group in find_motion_groups(signal.names, meaning.path_kinds)
    }


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
        meaning = infer_meaning_by_names(*(signal.names if signal else () for signal in (state, action)))
    periods = divide_into_equal_periods(trajectory.timestamps)
    paths, obstacle = measure_arm_paths(trajectory, meaning, periods)
    measures: dict[str, Json] = {
        **_path_columns(paths, meaning),
        **_event_columns(trajectory, meaning),
        **measure_actions(action, periods),
        "timestamp_jitter": round(float(np.std(np.diff(trajectory.timestamps))), 9),
    }
    lag = measure_action_lag(trajectory, meaning.action_meaning)
    measures |= {} if lag is None else {"action_lag_seconds": lag}
    reasons: list[Json] = [*_empty_column_reasons(measures, paths, obstacle, action)]
    arms: list[Json] = [_arm_measures(path) for path in paths] if len(paths) > 1 else []
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
        values = combine_path_measures(of_space) if of_space else ()
        unit = meaning.measured_unit([number for path in of_space for number in path.group.columns])
        columns |= {
            column.name: value
            for column, value in zip(declared, values, strict=False)
            if value is not None and np.isfinite(value) and (unit == "m" or column.unit not in ("m", "m/s"))
        }
        columns |= {"joint_unit": unit} if of_space and space == JOINTS else {}
    moving = np.any([path.moving for path in drop_parked_arms(paths)] or [paths[0].moving & False], axis=0)
    columns["idle_share"] = float(1 - moving.mean())
    turns = np.concatenate([path.turns for path in drop_parked_arms(paths)] or [np.zeros(0, dtype=np.intp)])
    return columns | _turn_column(turns.tolist(), float(moving.mean()), paths)


def _turn_column(turns: list[float], moving_share: float, paths: Sequence[PathMeasures]) -> dict[str, Json]:
    """Changes of direction per second of motion; none for a robot at rest."""
    seconds = moving_share * len(paths[0].moving) * paths[0].period
    return {"direction_changes": sum(turns) / len(turns) / seconds} if turns and seconds > 0 else {}


def _event_columns(trajectory: Trajectory, meaning: MotionMeaning) -> dict[str, Json]:
    signals, kinds = (trajectory.state, trajectory.action), (meaning.state_kinds, meaning.action_kinds)
    counts = {
        "gripper_events": count_gripper_events(signals, kinds, "gripper"),
        "hand_events": count_gripper_events(signals, kinds, "hand"),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _empty_column_reasons(
    measures: Mapping[str, Json],
    paths: Sequence[PathMeasures],
    obstacle: str,
    action: Signal | None,
) -> list[str]:
    """Which columns are empty, and why; the texts are the same for every episode, so that they can be counted."""
    gaps = [f"{_NO_PATH}: {obstacle}"] if not paths else _space_gaps(measures, paths)
    gaps += [
        f"{kind}_events: no dimension is known as a {kind}"
        for kind in ("gripper", "hand")
        if f"{kind}_events" not in measures
    ]
    if "action_saturation" not in measures:
        reason = "there is no action" if action is None else "no action is continuous and finite"
        gaps.append(f"action_saturation, action_jumps: {reason}")
    if "action_lag_seconds" not in measures:
        gaps.append("action_lag_seconds: state and action do not say by how much one follows the other")
    return gaps


def _space_gaps(measures: Mapping[str, Json], paths: Sequence[PathMeasures]) -> list[str]:
    spaces = {path.group.space for path in paths}
    gaps = []
    if END_EFFECTOR not in spaces:
        gaps.append("path_length and others of the end effector: the state has no position of it")
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


def _arm_measures(path: PathMeasures) -> Json:
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
