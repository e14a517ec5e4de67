"""Checks whether single dimensions take values no joint would: dead, stuck, coarse or cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ares.checks.codes import (
    DEAD_CHANNEL,
    QUANTISED,
    SATURATED,
    STUCK,
)
from ares.checks.commanded_positions import FOLLOWS, commanded_position
from ares.checks.finding import QualityFinding, finding_confidence, findings_of, make_finding
from ares.checks.record import FEW_STEPS
from ares.signals import (
    CHECKED_KINDS,
    FEWEST_STEPS,
    EpisodeSignals,
    TypicalEpisode,
    TypicalSignal,
    are_smooth_kinds,
    cubic_residuals,
    find_equal_steps,
    paired_dimensions,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A dead channel moves by at least this share of an arm joint's range in four of five other episodes.
_DEAD_SHARE = 0.2
# A joint is commanded to move by more than this share of what it usually is.
_COMMANDED_SHARE = 0.1
# A dimension moves if its range is more than this share of an arm joint's.
_MOVING_SHARE = 0.05
# A stuck value is left by a jump so many times as large as the change after it, and so large against the range.
_STUCK_JUMP = 1.3
_STUCK_SHARE = 0.03
_FEWEST_STUCK = 4
# Its jump is also larger than so many times the noise, and than so many times the smallest change.
_STUCK_NOISE, _STUCK_CHANGES = 6, 3
# A joint rests where its command moves by less than this share of the jump that ends the rest.
_STUCK_COMMAND = 0.3
# A grid is coarse from this share of an arm joint's range on.
_COARSE_SHARE = 0.004
# An encoder of 2048 steps a turn is fine, however little the robot moves.
_FINEST_RADIANS = 0.0032
_FEWEST_LEVELS = 8
# A dimension is cut off where it stays at its extreme so long, entered and left at this share of its usual speed.
_CUT_OFF_SHARE = 0.02
_CUT_OFF_SPEED = 0.3
_FEWEST_CUT_OFF = 3
# The usual speed is this quantile of the changes; a speed is no noise from so many times the noise on.
_USUAL_SPEED_QUANTILE = 0.75
_SPEED_NOISE = 3
# What comes to a rest slows down by more than this in its last step but one.
_NOT_SLOWING = 0.65
# This share is enough of a joint with friction that is commanded to move on.
_FRICTION_SPEED = 0.1
# It is commanded to move by so much of the range of an arm joint meanwhile.
_CUT_OFF_MOTION = 0.02
# What neighbours do not explain changes its sign at four of five steps of white noise, and seldom in a smooth motion.
_NOISY_FLIPS = 0.6
_FEW_EQUAL = 0.02


def check_state_values(signals: EpisodeSignals, typical: TypicalEpisode) -> Iterator[QualityFinding]:
    """A002, A003, A005 and A006 of the state."""
    import numpy as np

    values = signals.state
    if len(values) < FEW_STEPS or not typical.state.scale:
        return
    ranges = np.ptp(values, axis=0)
    yield from _check_dead(signals, typical, ranges)
    if len(values) < FEWEST_STEPS:
        return
    # Nearly all dimensions end at these, which are computed for all of them at once.
    repeated = (values[1:] == values[:-1]).sum(axis=0)
    at_extremes = np.maximum(
        (values == values.max(axis=0)).sum(axis=0), (values == values.min(axis=0)).sum(axis=0)
    )
    may_be_coarse = _may_be_coarse(values, typical.state.scale)
    for number in np.flatnonzero(ranges > _MOVING_SHARE * typical.state.scale):
        if typical.state.kinds[number] in CHECKED_KINDS:
            if repeated[number] >= _FEWEST_STUCK - 1:
                yield from _check_stuck(signals, typical, int(number))
            coarse = tuple(_check_grid(signals, typical.state, int(number))) if may_be_coarse[number] else ()
            yield from coarse
            if not coarse and at_extremes[number] >= _CUT_OFF_SHARE * len(values):
                yield from _check_cut_off(signals, typical, int(number))


def _may_be_coarse(values: NDArray[np.float64], scale: float) -> NDArray[np.bool_]:
    """(D,) whether a dimension may lie on a coarse grid: seven of ten gaps between its levels are not small."""
    import numpy as np

    gaps = np.sort(np.diff(np.sort(values, axis=0), axis=0), axis=0)
    equal = (gaps == 0).sum(axis=0)
    row = np.minimum(np.ceil(equal + 0.3 * (len(gaps) - 1 - equal)).astype(int), len(gaps) - 1)
    smallest = np.take_along_axis(gaps, row[None], axis=0)[0]
    # The step that `_check_grid` finds is below 1.5 times this quantile.
    return np.asarray(1.5 * smallest > _COARSE_SHARE * scale)


def _check_dead(
    signals: EpisodeSignals, typical: TypicalEpisode, ranges: NDArray[np.float64]
) -> Iterator[QualityFinding]:
    """Constant in this episode, but moved in most others; or commanded to move in this one."""
    import numpy as np

    expected = _expected_ranges(signals, typical)
    arms = are_smooth_kinds(typical.state.kinds)
    lost = np.where((ranges == 0) & arms, expected / typical.state.scale, np.nan)
    bars = np.full(len(ranges), _DEAD_SHARE)
    for finding in findings_of(DEAD_CHANNEL, "state", signals.state_names, lost, bars, np.zeros(len(ranges))):
        yield replace(finding, size=float(len(signals.state)))


def _expected_ranges(signals: EpisodeSignals, typical: TypicalEpisode) -> NDArray[np.float64]:
    """(S,) how far each dimension moves in four of five other episodes, or is commanded to move in this one."""
    import numpy as np

    width = signals.state.shape[1]
    expected = typical.state.least_range.copy() if typical.num_episodes >= 3 else np.zeros(width)
    for pair, (number, command) in enumerate(paired_dimensions(signals.state_names, signals.action_names)):
        column = signals.action[:, command]
        commanded = float(np.ptp(column))
        if commanded <= _COMMANDED_SHARE * typical.action.range[command]:
            expected[number] = 0.0  # nothing commands it to move in this episode
        elif typical.meaning == "absolute":
            expected[number] = max(expected[number], commanded)
        elif typical.correlations[pair] > FOLLOWS:
            motion = float(np.ptp(np.cumsum(column)) * abs(typical.gains[pair]))
            expected[number] = max(expected[number], motion)
    return expected


def _check_stuck(signals: EpisodeSignals, typical: TypicalEpisode, number: int) -> Iterator[QualityFinding]:
    """The run of one value that the largest jump ends; a joint that rests starts again slowly, or was not to move."""
    import numpy as np

    command = commanded_position(signals, typical, number)
    changes = np.abs(np.diff(signals.state[:, number]))
    noise = max(
        _STUCK_NOISE * typical.state.noise[number],
        _STUCK_CHANGES * float(changes[changes > 0].min(initial=np.inf)),
    )
    bar = float(max(_STUCK_SHARE * typical.state.scale, noise if np.isfinite(noise) else 0.0))
    worst = (0.0, 0, 0)
    for start, stop in find_equal_steps(changes == 0, _FEWEST_STUCK):
        inside = start >= 1 and stop < len(changes)
        if not inside or changes[stop - 1] <= max(bar, _STUCK_JUMP * changes[stop]):
            continue
        if command is None or np.ptp(command[start:stop]) >= _STUCK_COMMAND * changes[stop - 1]:
            worst = max(worst, (float(changes[stop - 1]), int(start), int(stop)))
    jump, start, stop = worst
    if jump:
        seconds = float(signals.seconds[start])
        yield make_finding(
            STUCK,
            "state",
            signals.state_names[number],
            seconds,
            float(signals.seconds[stop - 1]) - seconds,
            finding_confidence(jump, bar),
        )


def _check_grid(signals: EpisodeSignals, typical: TypicalSignal, number: int) -> Iterator[QualityFinding]:
    """All values are multiples of one step, which is large against the range of an arm joint."""
    import numpy as np

    levels = np.unique(signals.state[:, number])
    if len(levels) < _FEWEST_LEVELS:
        return
    gaps = np.diff(levels)
    step = float(np.median(gaps[gaps < 1.5 * np.quantile(gaps, 0.3)]))
    multiples = gaps / step
    finest = _FINEST_RADIANS * typical.units_per_radian if typical.kinds[number] != "position" else 0.0
    bar = max(_COARSE_SHARE * typical.scale, finest)
    if step >= bar and (np.abs(multiples - np.round(multiples)) < 0.05).all():
        confidence = finding_confidence(step, bar)
        yield make_finding(QUANTISED, "state", signals.state_names[number], 0.0, step, confidence)


def _check_cut_off(signals: EpisodeSignals, typical: TypicalEpisode, number: int) -> Iterator[QualityFinding]:
    """It stays exactly at its extreme while it is commanded to move.

    Without a command: it comes there or leaves at full speed, and a joint that rests slows down.
    """
    import numpy as np

    column = signals.state[:, number]
    flat = find_equal_steps(np.diff(column) == 0, _FEWEST_CUT_OFF)
    command, least = commanded_position(signals, typical, number), _CUT_OFF_SPEED
    if command is not None:
        bar = _CUT_OFF_MOTION * typical.state.scale
        moves = [bool(np.ptp(command[start:stop]) >= bar) for start, stop in flat]
        flat = _without_friction(column, command, flat[np.array(moves, dtype=bool)])
        # A joint with friction stops against its command too, and slows down before.
        least = _FRICTION_SPEED
    for extreme in (column.max(), column.min()):
        runs = [run for run in flat if column[run[0]] == extreme]
        cut = _sharp_runs(signals, typical.state, number, runs, least)
        share = sum(int(stop - start) for start, stop in cut) / len(column)
        if share >= _CUT_OFF_SHARE:
            seconds = float(signals.seconds[cut[0][0]])
            confidence = finding_confidence(share, _CUT_OFF_SHARE)
            yield make_finding(SATURATED, "state", signals.state_names[number], seconds, share, confidence)
            return


def _without_friction(
    column: NDArray[np.float64], command: NDArray[np.float64], runs: NDArray[np.intp]
) -> NDArray[np.intp]:
    """The runs (N, 2) at an extreme from which friction alone does not hold the joint.

    A joint that stands still elsewhere too, as far from its command, has friction there: no limit is needed for it.
    """
    import numpy as np

    away = command - column
    away = np.abs(away - np.median(away))
    farthest = np.array([away[start:stop].max() for start, stop in runs])
    inside = (column[runs[:, 0]] > column.min()) & (column[runs[:, 0]] < column.max())
    return np.asarray(runs[~inside & (farthest > farthest[inside].max(initial=0.0))])


def _sharp_runs(
    signals: EpisodeSignals,
    typical: TypicalSignal,
    number: int,
    runs: Sequence[NDArray[np.intp]],
    least: float,
) -> list[NDArray[np.intp]]:
    """Runs that are entered and left at least at a share of the usual speed, or of a joint that is never still."""
    import numpy as np

    changes = np.diff(signals.state[:, number])
    sizes = np.abs(changes[changes != 0])
    usual = float(np.quantile(sizes, _USUAL_SPEED_QUANTILE))
    speed = max(least * usual, _SPEED_NOISE * float(typical.noise[number]))
    if _is_noisy(signals.state[:, [number]]):
        return list(runs)
    return [run for run in runs if _is_sharp_run(changes, int(run[0]), int(run[1]), speed)]


def _is_noisy(column: NDArray[np.float64]) -> bool:
    """Whether a joint (T, 1) that rests is not exactly still, but for its extremes."""
    import numpy as np

    residual = cubic_residuals(column)[:, 0]
    inside = (column > column.min()) & (column < column.max())
    equal = float(((np.diff(column, axis=0) == 0) & inside[1:]).mean())
    return bool((residual[1:] * residual[:-1] < 0).mean() > _NOISY_FLIPS and equal < _FEW_EQUAL)


def _is_sharp_run(changes: NDArray[np.float64], start: int, stop: int, speed: float) -> bool:
    """Whether a run is entered and left at this speed; an end of the episode is neither."""
    import numpy as np

    before, after = np.abs(changes[max(0, start - 3) : max(0, start - 1)]), np.abs(changes[stop : stop + 2])
    if len(before) < 2 or len(after) < 2:
        return False
    return bool(min(before.min(), after.min()) > speed and before[1] > _NOT_SLOWING * before[0])
