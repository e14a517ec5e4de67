"""When grippers and hands open and close."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ares.signals import DimensionKind
from ares_annotators.motion.columns import find_gripper_dimensions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal


# A gripper changes state when it crosses from below the lower to above the upper share of its range, or back.
GRIPPER_LOW, GRIPPER_HIGH = 0.35, 0.65
# A gripper or hand that moves less than this share of its largest value rests.
_LEAST_GRIPPER_SHARE = 1e-3
# A hand that moves less rests: radians, or the share of a hand from 0 to 1.
_LEAST_HAND_RANGE = 0.1


class GripperChange(NamedTuple):
    """A gripper or hand opens or closes.

    Attributes:
        step: The step from which on it is open or closed.
        number: The dimension that moves most.
        rises: Whether that dimension goes up.
    """

    step: int
    number: int
    rises: bool


def find_gripper_events(
    signal: Signal, kinds: tuple[DimensionKind, ...], kind: DimensionKind
) -> list[GripperChange]:
    """The changes that `count_gripper_events` counts, in order of time.

    Args:
        signal: State or action.
        kinds: Kinds of its dimensions.
        kind: "gripper" or "hand".
    """
    changes = [
        GripperChange(step, columns[number], rises)
        for columns in _end_dimensions(signal.names, kinds, kind)
        for step, number, rises in _closure_changes(signal.values[:, list(columns)], kind) or ()
    ]
    return sorted(changes)


def _closure_changes(values: NDArray[np.float32], kind: DimensionKind) -> list[tuple[int, int, bool]] | None:
    """Changes of the mean closure of the dimensions (T, D) of one gripper or hand; None where they are not finite.

    Of each its step, the number of the leading dimension, and whether that rises.
    """
    import numpy as np

    wide = values.astype(np.float64)
    if not np.isfinite(np.ptp(wide, axis=0)).all():
        return None
    moving = np.flatnonzero(_moving_dimensions(wide, kind))
    # One joint of a hand alone, such as a thumb that turns at the start, neither opens nor closes it.
    fewest = 2 if kind == "hand" and values.shape[1] > 2 else 1
    if len(moving) < fewest:
        return []
    closure, least = _mean_closure(wide[:, moving])
    steps = np.flatnonzero(np.abs(closure) > least)
    signs = np.sign(closure[steps])
    leader = int(moving[np.ptp(wide[:, moving], axis=0).argmax()])
    return [(int(steps[at + 1]), leader, bool(signs[at + 1] > 0)) for at in np.flatnonzero(np.diff(signs))]


def is_gripper_at_rest(values: NDArray[np.float64]) -> bool:
    """Whether no dimension (T, D) of a gripper moves; False for values that are not finite."""
    import numpy as np

    is_known = len(values) > 1 and bool(np.isfinite(values).all())
    return is_known and not _moving_dimensions(values, "gripper").any()


def count_gripper_events(
    signals: Sequence[Signal | None], kinds: Sequence[tuple[DimensionKind, ...]], kind: DimensionKind
) -> int | None:
    """Changes between open and closed, summed over the grippers or hands of the first signal that has any.

    Args:
        signals: State, then action.
        kinds: Kinds of the dimensions of each.
        kind: "gripper" or "hand".

    Returns:
        None where no signal has one, or its values are not finite.
    """
    for signal, signal_kinds in zip(signals, kinds, strict=True):
        parts = _end_dimensions(signal.names, signal_kinds, kind) if signal is not None else ()
        if signal is not None and parts:
            changes = [_closure_changes(signal.values[:, list(columns)], kind) for columns in parts]
            return None if None in changes else sum(map(len, filter(None, changes)))
    return None


@functools.lru_cache(maxsize=256)
def _end_dimensions(
    names: tuple[str, ...], kinds: tuple[DimensionKind, ...], kind: DimensionKind
) -> tuple[tuple[int, ...], ...]:
    return find_gripper_dimensions(names, kinds, kind)


def _moving_dimensions(values: NDArray[np.float64], kind: DimensionKind) -> NDArray[np.bool_]:
    """Which of the dimensions (T, D) of a gripper or hand move, (D,)."""
    import numpy as np

    ranges = np.ptp(values, axis=0)
    least = _LEAST_GRIPPER_SHARE * max(1.0, float(np.abs(values).max()))
    moving: NDArray[np.bool_] = ranges >= max(
        least if kind == "gripper" else _LEAST_HAND_RANGE, 0.3 * float(ranges.max())
    )
    return moving


def _mean_closure(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """(T,) mean of the dimensions (T, D), from -0.5 to 0.5, and how far from 0 it is open or closed."""
    import numpy as np

    shares = (values - values.min(axis=0)) / np.ptp(values, axis=0) - 0.5
    # Fingers of one gripper may move against each other.
    leader = shares[:, np.ptp(values, axis=0).argmax()]
    signs = np.where((shares - shares.mean(axis=0)).T @ (leader - leader.mean()) < 0, -1.0, 1.0)
    mean = (shares * signs).mean(axis=1)
    share = (mean - mean.min()) / max(float(np.ptp(mean)), 1e-12)
    middle = (GRIPPER_LOW + GRIPPER_HIGH) / 2
    return share - middle, (GRIPPER_HIGH - GRIPPER_LOW) / 2 - 1e-9
