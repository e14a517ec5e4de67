"""Corrections of single values: gaps of one or two steps between values that agree, and single spikes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ares.quality.catalogue import NOT_FINITE, SPIKE
from ares.quality.jump_checks import find_spikes
from ares.quality.repair.change import Correction, make_change
from ares.quality.signals import EpisodeSignals, with_continuous_rotations
from ares.quality.statistics import FEWEST_STEPS, TypicalEpisode, unexplained
from ares.quality.value_checks import command_of

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
            yield _filled(name, values[:, number], names, int(number), signals.seconds)


def _filled(
    name: str,
    column: NDArray[np.float64],
    names: tuple[str, ...],
    number: int,
    seconds: NDArray[np.float64],
) -> Correction:
    import numpy as np

    is_gap = ~np.isfinite(column)
    edges = np.diff(np.concatenate([[0], is_gap.astype(np.int8), [0]]))
    gaps = list(zip(np.flatnonzero(edges == 1).tolist(), np.flatnonzero(edges == -1).tolist(), strict=True))
    correction = Correction(
        code=NOT_FINITE.code,
        signal=name,
        dimension=names[number],
        seconds=round(float(seconds[gaps[0][0]]), 3),
    )
    left = next((reason for gap in gaps if (reason := _why_not_filled(column, *gap))), "")
    if left:
        return replace(correction, left=left)
    inside = np.interp(np.arange(len(column)), np.flatnonzero(~is_gap), column[~is_gap])
    changes = tuple(
        make_change(
            NOT_FINITE.code, name, names, number, (step, step + 1), seconds, column[step], inside[step]
        )
        for step in np.flatnonzero(is_gap).tolist()
    )
    return replace(correction, changes=changes)


def _why_not_filled(column: NDArray[np.float64], start: int, stop: int) -> str:
    """Why the gap [start, stop) is not filled, or ""."""
    import numpy as np

    if stop - start > _LONGEST_GAP:
        return f"a gap is {stop - start} steps long, more than {_LONGEST_GAP}"
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


def flatten_spikes(
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
            make_change(
                SPIKE.code,
                "state",
                signals.state_names,
                number,
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
    command = command_of(signals, typical, number)
    if command is not None:
        jumps = np.pad(np.abs(unexplained(command[:, None])[:, 0]), 2)
        for step in steps:
            around = jumps[max(0, step - _COMMANDED_STEPS) : step + _COMMANDED_STEPS + 1]
            if around.max() > _COMMANDED_SHARE * abs(sizes[step]):
                return "the action commands a jump there"
    return ""
