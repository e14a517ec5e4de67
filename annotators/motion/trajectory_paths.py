"""The paths of a trajectory: of joints, of recorded positions, and of end effectors by forward kinematics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annotators.motion.columns import END_EFFECTOR
from annotators.motion.groups import MotionGroup, motion_groups
from annotators.motion.meaning import MotionMeaning
from annotators.motion.paths import PathMeasures, measure_path
from annotators.motion.resampling import EqualPeriods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory


def measure_paths(
    trajectory: Trajectory, meaning: MotionMeaning, periods: EqualPeriods | None
) -> tuple[list[PathMeasures], str]:
    """The measured paths, or why there is none.

    Args:
        trajectory: The signals.
        meaning: What their dimensions are.
        periods: Of the episode; None where its stamps do not rise.
    """
    import numpy as np

    signal = trajectory.state if meaning.path_signal == "state" else trajectory.action
    if signal is None:
        return [], "there is no state, and an action may be a position or a motion (give a spec)"
    if periods is None:
        return [], "the stamps do not rise"
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
    """(T, D) values of each path in radians or metres where the unit is known; recorded positions come first."""
    import numpy as np

    groups = motion_groups(signal.names, meaning.path_kinds)
    parts = {
        group: signal.values[:, list(group.columns)].astype(np.float64)
        * np.array([meaning.factor(column) for column in group.columns])
        for group in groups
    }
    if not any(group.space == END_EFFECTOR for group in groups):
        for end in meaning.end_effectors:
            parts[MotionGroup(END_EFFECTOR, end.chain.end_effector, ())] = end.positions(signal.values)
    return parts
