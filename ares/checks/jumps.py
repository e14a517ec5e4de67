"""Checks whether a joint jumps: single spikes, whole turns, and to and fro at every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.codes import (
    CHATTER,
    SPIKE,
    WRAP_AROUND,
)
from ares.checks.finding import QualityFinding, findings_of
from ares.signals import (
    FEWEST_STEPS,
    EpisodeSignals,
    TypicalSignal,
    are_smooth_kinds,
    cubic_residuals,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A spike is this many times what is not explained in 95 % of the steps, and so large against the range.
_SPIKE_FACTOR = 5.0
_SPIKE_SHARE = 0.04
# Alternation of at least this share of the range, above the noise, for so long.
_CHATTER_SHARE = 0.012
_CHATTER_NOISE = 4.5
_CHATTER_SECONDS = 0.3
_FEWEST_ALTERNATIONS = 6
# A jump is a whole turn within this tolerance, and so many times as large as the changes beside it.
_TURN_TOLERANCE = 0.12
_TURN_FACTOR = 6.0


def check_jumps(signals: EpisodeSignals, typical: TypicalSignal) -> Iterator[QualityFinding]:
    """A004, A007 and A009 of the arm joints of the state."""
    if not _can_be_checked(signals, typical):
        return
    residual, turns = _arm_joint_residuals(signals, typical), find_turns(signals, typical)
    counts = turns.sum(axis=0).astype(float)
    seconds = signals.seconds[turns.argmax(axis=0)]
    yield from findings_of(WRAP_AROUND, "state", signals.state_names, counts, counts * 0 + 1, seconds)
    residual[:, counts > 0] = 0.0
    for finding in tuple(_check_chatter(signals, typical, residual)):
        residual[:, signals.state_names.index(finding.dimension)] = 0.0
        yield finding
    peaks, bars = _spike_sizes_and_thresholds(signals, typical, residual)
    seconds = signals.seconds[peaks.argmax(axis=0) + 2]
    yield from findings_of(SPIKE, "state", signals.state_names, peaks.max(axis=0), bars, seconds)


def _can_be_checked(signals: EpisodeSignals, typical: TypicalSignal) -> bool:
    return len(signals.state) >= FEWEST_STEPS and bool(typical.scale)


def _arm_joint_residuals(signals: EpisodeSignals, typical: TypicalSignal) -> NDArray[np.float64]:
    """(T - 4, S) what the neighbours of a value do not explain, of arm joints; else 0."""
    import numpy as np

    return np.where(are_smooth_kinds(typical.kinds), cubic_residuals(signals.state), 0.0)


def find_turns(signals: EpisodeSignals, typical: TypicalSignal) -> NDArray[np.bool_]:
    """(T - 1, S) where an arm joint of the state jumps by a whole turn from one step to the next."""
    import numpy as np

    turn = 2 * np.pi * typical.units_per_radian  # 6.3 degrees are none
    changes = np.abs(np.diff(signals.state, axis=0))
    if not _can_be_checked(signals, typical):
        return np.zeros(changes.shape, dtype=bool)
    beside = np.maximum(np.pad(changes, ((1, 0), (0, 0)))[:-1], np.pad(changes, ((0, 1), (0, 0)))[1:])
    usual = np.quantile(changes, 0.98, axis=0)
    is_turn = np.abs(changes / turn - 1) < _TURN_TOLERANCE
    is_turn &= are_smooth_kinds(typical.kinds) & (changes > _TURN_FACTOR * np.minimum(beside, usual + 1e-9))
    return np.asarray(is_turn)


def find_spikes(signals: EpisodeSignals, typical: TypicalSignal) -> NDArray[np.float64]:
    """(T, S) by how much each spike of A004 is above what its neighbours say; 0 for all other values."""
    import numpy as np

    sizes = np.zeros(signals.state.shape)
    if _can_be_checked(signals, typical):
        residual = _arm_joint_residuals(signals, typical)
        peaks, bars = _spike_sizes_and_thresholds(signals, typical, residual)
        sizes[2:-2] = np.where(peaks >= bars, residual, 0.0)
    return sizes


def _spike_sizes_and_thresholds(
    signals: EpisodeSignals, typical: TypicalSignal, residual: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(T - 4, S) sizes of values that lie above or below both neighbours, and (S,) from which on they are spikes.

    They do so by at least half of what their neighbours do not explain.
    """
    import numpy as np

    changes = np.diff(signals.state, axis=0)
    before, after = changes[:-3], changes[3:]
    # What moves evenly on both sides of a spike also moves under it.
    is_even = np.abs(before - after) < 0.5 * np.abs(residual)
    motion = np.where(is_even, (before + after) / 2, 0.0)
    rise, fall = changes[1:-2] - motion, changes[2:-1] - motion
    is_peak = (rise * fall < 0) & (np.minimum(np.abs(rise), np.abs(fall)) > 0.5 * np.abs(residual))
    # A spike leaves its mark on five steps, which are many in a short episode.
    usual = max(0.3, min(0.95, 1 - 8 / len(residual)))
    bars = np.maximum(_SPIKE_FACTOR * np.quantile(np.abs(residual), usual, axis=0), 12 * typical.noise)
    return np.where(is_peak, np.abs(residual), 0.0), np.maximum(bars, _SPIKE_SHARE * typical.scale)


def _check_chatter(
    signals: EpisodeSignals, typical: TypicalSignal, residual: NDArray[np.float64]
) -> Iterator[QualityFinding]:
    """The smallest of so many successive residuals that change their sign at every step."""
    import numpy as np

    length = max(_FEWEST_ALTERNATIONS, round(_CHATTER_SECONDS * signals.rate_hz))
    if len(residual) < length + 1:
        return
    alternating = np.where(
        residual[1:] * residual[:-1] < 0, np.minimum(np.abs(residual[1:]), np.abs(residual[:-1])), 0
    )
    windows = np.lib.stride_tricks.sliding_window_view(alternating, length - 1, axis=0)
    sizes = windows.min(axis=2)
    bars = np.maximum(_CHATTER_SHARE * typical.scale, _CHATTER_NOISE * typical.noise)
    # A change of +s and -s in turn leaves 8/3 s that the neighbours do not explain.
    largest = sizes.max(axis=0)
    seconds = signals.seconds[sizes.argmax(axis=0) + 2]
    yield from findings_of(CHATTER, "state", signals.state_names, largest * 0.375, bars * 0.375, seconds)
