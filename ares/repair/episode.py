"""Corrects gaps, spikes and whole turns of one episode, and keeps what the checks agree with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ares.checks import (
    NOT_FINITE,
    SPIKE,
    WRAP_AROUND,
    QualityFinding,
    check_signals,
    commanded_position,
    find_spikes,
    find_turns,
)
from ares.console import count_of
from ares.signals import (
    FEWEST_STEPS,
    Correction,
    EpisodeSignals,
    SignalChange,
    SignalDimension,
    TypicalEpisode,
    apply_signal_changes,
    cubic_residuals,
    find_runs,
    make_signal_change,
    paired_dimensions,
    with_continuous_rotations,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_LONGEST_GAP = 2
# The values beside a gap are as near to each other as in so many of the places of the episode, so far apart in steps.
_USUAL_SHARE = 0.99
# An interpolated value is off by at most so much of the range of the dimension.
_LARGEST_ERROR = 0.02
# A spike changes what its neighbours say of four steps around it: others must be further away.
_FEWEST_BETWEEN = 5
# A command that jumps by this share of a spike, so many steps around it, explains it.
_COMMANDED_SHARE, _COMMANDED_STEPS = 0.25, 4


def fill_gaps(signals: EpisodeSignals) -> Iterator[Correction]:
    """A001: values that are not finite, between values that are."""
    import numpy as np

    for name, values, names in (
        ("state", signals.state, signals.state_names),
        ("action", signals.action, signals.action_names),
    ):
        for number in np.flatnonzero(~np.isfinite(values).all(axis=0)):
            dimension = SignalDimension(name, names[number], int(number))
            yield _fill_column_gaps(dimension, values[:, number], signals.seconds)


def _fill_column_gaps(
    dimension: SignalDimension, column: NDArray[np.float64], seconds: NDArray[np.float64]
) -> Correction:
    import numpy as np

    is_gap = ~np.isfinite(column)
    gaps = find_runs(is_gap).tolist()
    correction = Correction(
        code=NOT_FINITE.code,
        signal=dimension.signal,
        dimension=dimension.name,
        seconds=round(float(seconds[gaps[0][0]]), 3),
    )
    left = next((reason for gap in gaps if (reason := _why_not_filled(column, *gap))), "")
    if left:
        return replace(correction, left=left)
    inside = np.interp(np.arange(len(column)), np.flatnonzero(~is_gap), column[~is_gap])
    changes = tuple(
        make_signal_change(NOT_FINITE.code, dimension, (step, step + 1), seconds, column[step], inside[step])
        for step in np.flatnonzero(is_gap).tolist()
    )
    return replace(correction, changes=changes)


def _why_not_filled(column: NDArray[np.float64], start: int, stop: int) -> str:
    """Why the gap [start, stop) is not filled, or ""."""
    import numpy as np

    if stop - start > _LONGEST_GAP:
        return f"a gap is {count_of(stop - start, 'step')} long, more than {_LONGEST_GAP}"
    if start == 0 or stop == len(column):
        return "a gap is at the start or end of the episode, with values on one side only"
    distance = stop - start + 1
    changes = np.abs(column[distance:] - column[:-distance])
    changes = changes[np.isfinite(changes)]
    if len(changes) < FEWEST_STEPS:
        return "the episode has too few values beside its gaps"
    if column[stop] == column[start - 1]:
        return ""
    step = abs(column[stop] - column[start - 1])
    if step > np.quantile(changes, _USUAL_SHARE):
        return "the values on both sides of a gap differ by more than is usual"
    if _interpolation_error(column, stop - start) > _LARGEST_ERROR:
        return "values elsewhere in the episode do not lie between their neighbours"
    return ""


def _interpolation_error(column: NDArray[np.float64], length: int) -> float:
    """How far interpolated values are from the true ones, where gaps of this length are made in the episode.

    As a share of the range, in 99 of 100 places.
    """
    import numpy as np

    column, distance = np.where(np.isfinite(column), column, np.nan), length + 1
    before, after = column[:-distance], column[distance:]
    errors = [
        np.abs(before + (after - before) * (step / distance) - column[step : len(column) - distance + step])
        for step in range(1, distance)
    ]
    largest = np.max(errors, axis=0)
    finite = column[np.isfinite(column)]
    return float(np.quantile(largest[np.isfinite(largest)], _USUAL_SHARE)) / max(float(np.ptp(finite)), 1e-12)


def repair_spikes(
    signals: EpisodeSignals, typical: TypicalEpisode, dimensions: Sequence[str]
) -> Iterator[Correction]:
    """A004: single values of the state, which become what the cubic through their four neighbours says."""
    import numpy as np

    continuous = with_continuous_rotations(signals)
    sizes = find_spikes(continuous, typical.state)
    for number in np.flatnonzero((sizes != 0).any(axis=0)).tolist():
        if signals.state_names[number] not in dimensions:
            continue
        steps = np.flatnonzero(sizes[:, number])
        correction = Correction(
            code=SPIKE.code,
            signal="state",
            dimension=signals.state_names[number],
            seconds=round(float(signals.seconds[steps[0]]), 3),
        )
        is_turned = not np.array_equal(continuous.state[:, number], signals.state[:, number])
        left = _why_not_flattened(continuous, typical, number, sizes[:, number], is_turned)
        changes = tuple(
            make_signal_change(
                SPIKE.code,
                SignalDimension("state", signals.state_names[number], number),
                (step, step + 1),
                signals.seconds,
                signals.state[step, number],
                signals.state[step, number] - sizes[step, number],
            )
            for step in steps.tolist()
        )
        yield replace(correction, left=left, changes=() if left else changes)


def _why_not_flattened(
    signals: EpisodeSignals,
    typical: TypicalEpisode,
    number: int,
    sizes: NDArray[np.float64],
    is_turned: bool,
) -> str:
    """Why the spikes of a dimension are left, or ""."""
    import numpy as np

    steps = np.flatnonzero(sizes).tolist()
    if is_turned:
        return "it is part of a quaternion that changes its sign"
    if any(later - earlier < _FEWEST_BETWEEN for earlier, later in pairwise(steps)):
        return "several spikes are close together"
    command = commanded_position(signals, typical, number)
    if command is not None:
        jumps = np.pad(np.abs(cubic_residuals(command[:, None])[:, 0]), 2)
        for step in steps:
            around = jumps[max(0, step - _COMMANDED_STEPS) : step + _COMMANDED_STEPS + 1]
            if around.max() > _COMMANDED_SHARE * abs(sizes[step]):
                return "the action commands a jump there"
    return ""


# A command further from its state than this share of a turn does not tell which turn it is in.
_FURTHEST_COMMAND = 0.35


def unwrap_turns(
    signals: EpisodeSignals, typical: TypicalEpisode, dimensions: Sequence[str]
) -> Iterator[Correction]:
    """A007: angles count on beyond a turn, from the first value of the episode; their commands do so too."""
    import numpy as np

    turn = float(2 * np.pi * typical.state.units_per_radian)
    jumps = find_turns(signals, typical.state)
    actions = dict(paired_dimensions(signals.state_names, signals.action_names))
    for number in np.flatnonzero(jumps.any(axis=0)).tolist():
        if signals.state_names[number] not in dimensions:
            continue
        column = signals.state[:, number]
        offsets = _turn_offsets(column, jumps[:, number], turn)
        steps = np.flatnonzero(jumps[:, number])
        correction = Correction(
            code=WRAP_AROUND.code,
            signal="state",
            dimension=signals.state_names[number],
            seconds=round(float(signals.seconds[steps[0]]), 3),
        )
        angle = SignalDimension("state", signals.state_names[number], number)
        changes = _span_changes(angle, column, offsets, signals.seconds)
        command = actions.get(number)
        if command is not None and typical.meaning == "absolute":
            angles = signals.action[:, command]
            turns = _command_turns(angles, column + offsets, typical, turn)
            if turns is None:
                yield replace(correction, left="its command is too far from it to tell its turn")
                continue
            commanded = SignalDimension("action", signals.action_names[command], command)
            changes += _span_changes(commanded, angles, turns, signals.seconds)
        yield replace(correction, changes=changes)


def _turn_offsets(column: NDArray[np.float64], jumps: NDArray[np.bool_], turn: float) -> NDArray[np.float64]:
    """(T,) what is added to each value, so that it continues the one before."""
    import numpy as np

    steps = np.where(jumps, -np.sign(np.diff(column)), 0.0)
    return np.concatenate([[0.0], np.cumsum(steps)]) * turn


def _command_turns(
    angles: NDArray[np.float64], unwrapped: NDArray[np.float64], typical: TypicalEpisode, turn: float
) -> NDArray[np.float64] | None:
    """(T,) whole turns by which each command follows its state; 0 where it counts on itself, None where not clear."""
    import numpy as np

    lag = round(typical.lag_steps or 0)
    following = unwrapped[np.clip(np.arange(len(angles)) + lag, 0, len(angles) - 1)]
    ahead = following - angles
    # A command may have another zero than the state: the mean of the angles between them, on the circle.
    offset = float(np.angle(np.exp(2j * np.pi * ahead / turn).mean())) / (2 * np.pi) * turn
    turns = np.round((ahead - offset) / turn)
    if float(np.abs(ahead - offset - turns * turn).max()) > _FURTHEST_COMMAND * turn:
        return None
    return np.asarray((turns - turns[0]) * turn if (turns == turns[0]).all() else turns * turn)


def _span_changes(
    dimension: SignalDimension,
    column: NDArray[np.float64],
    offsets: NDArray[np.float64],
    seconds: NDArray[np.float64],
) -> tuple[SignalChange, ...]:
    """A change for each span of steps with one offset that is not zero."""
    import numpy as np

    starts = np.flatnonzero(np.diff(offsets, prepend=offsets[0] + 1) != 0).tolist()
    spans = zip(starts, [*starts[1:], len(offsets)], strict=True)
    return tuple(
        make_signal_change(
            WRAP_AROUND.code,
            dimension,
            (start, stop),
            seconds,
            column[start],
            column[start] + offsets[start],
        )
        for start, stop in spans
        if offsets[start]
    )


def repair_signals(signals: EpisodeSignals, typical: TypicalEpisode | None) -> tuple[Correction, ...]:
    """What is corrected in an episode, and what of the same codes is left with a reason.

    Nothing is corrected in an episode that keeps values that are not finite: no export holds such an episode.

    Args:
        signals: The episode.
        typical: What it is checked against; None where nothing is known, then only gaps are filled.
    """
    done = list(fill_gaps(signals))
    if any(correction.left for correction in done):
        reason = "the episode has gaps that are left"
        return tuple(replace(part, changes=(), left=part.left or reason) for part in done)
    signals = _apply_corrections(signals, done)
    if typical is None or len(typical.state.range) != signals.state.shape[1]:
        return tuple(done)
    # Angles first: a whole turn hides the spikes of its dimension.
    for code, correct in ((WRAP_AROUND.code, unwrap_turns), (SPIKE.code, repair_spikes)):
        findings = check_signals(signals, typical).findings
        named = [finding.dimension for finding in findings if finding.code == code]
        for correction in correct(signals, typical, named) if named else ():
            kept = _verify_correction(signals, typical, correction)
            signals = _apply_corrections(signals, [kept])
            done.append(kept)
    return tuple(done)


def _apply_corrections(signals: EpisodeSignals, corrections: Sequence[Correction]) -> EpisodeSignals:
    """The episode with its changes, in the precision of the export."""
    import numpy as np

    changes = [change for correction in corrections for change in correction.changes]
    if not changes:
        return signals
    parts = {
        name: apply_signal_changes(values.astype(np.float32), [c for c in changes if c.signal == name])
        for name, values in (("state", signals.state), ("action", signals.action))
    }
    return replace(
        signals, state=parts["state"].astype(np.float64), action=parts["action"].astype(np.float64)
    )


def _verify_correction(
    signals: EpisodeSignals, typical: TypicalEpisode, correction: Correction
) -> Correction:
    """The correction; without its changes where the checks name it again, or name anything new."""
    if not correction.changes:
        return correction
    before = _finding_keys(check_signals(signals, typical).findings)
    after = _finding_keys(check_signals(_apply_corrections(signals, [correction]), typical).findings)
    corrected = (correction.code, correction.signal, correction.dimension)
    if corrected in after:
        return replace(correction, changes=(), left="the check names it again after a correction")
    new = sorted({code for code, _, _ in after - before})
    if new:
        return replace(
            correction, changes=(), left=f"a correction makes other checks report: {', '.join(new)}"
        )
    return correction


def _finding_keys(findings: Sequence[QualityFinding]) -> set[tuple[str, str, str]]:
    return {(finding.code, finding.signal, finding.dimension) for finding in findings}
