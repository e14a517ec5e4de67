"""Checks whether an episode has the conventions of its dataset: units, zero points, signs and open ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.checks.codes import (
    OFFSET,
    SIGN_FLIP,
    TURNED,
    TURNED_MOTION,
    UNIT_CLASH,
)
from ares.checks.finding import QualityFinding, finding_confidence, findings_of, make_finding
from ares.signals import (
    CHECKED_KINDS,
    EpisodePositions,
    EpisodeSignals,
    TypicalEpisode,
    TypicalSignal,
    are_smooth_kinds,
    episode_positions,
    is_turned,
    pair_offsets,
    paired_dimensions,
    turned_commands,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# An offset of state against command is unlike the others by so many spreads and this share of the usual range.
_OFFSET_SPREADS, _OFFSET_SHARE = 8.0, 0.15
# With fewer episodes than these it is judged by the offsets of the other dimensions of the episode.
_FEWEST_OFFSETS, _SINGLE_SHARE, _SINGLE_FACTOR = 4, 0.22, 6.0
_FOLLOWS = 0.6
# Of a dimension that hardly moves, this share of the range of the other joints counts instead.
_LEAST_RANGE, _LEAST_RANGE_SINGLE = 0.1, 0.5
# A gripper is beyond the ends of all other episodes by this share of its range.
_BEYOND_SHARE, _LEAST_BEYOND = 0.12, 0.01
# Its other end is short of theirs by this share of it.
_OTHER_END = 0.5
# A place is unlike that of the other episodes from this share of the usual range on, in this share of the dimensions.
_START_SHARE, _FEW_DIMENSIONS = 0.2, 0.34
# The other places agree within their room and this share.
_AGREEMENT_SHARE = 0.15
# The mean says nothing by itself: it depends on how long the robot stays where.
_MEAN_ROW = 2
# Of a joint that hardly moves, this share of the range of the other joints counts.
_RESTING_RANGE = 0.25
# Degrees among radians are 57 times as large; tasks differ by less than this.
_UNIT_FACTOR = 20.0
_LARGEST_UNIT_FACTOR = 170.0
# Ticks of a servo among radians: up to 2^16 in a turn.
_LARGEST_TICK_FACTOR = 20_000.0
# The joints of an episode in another unit have one factor, within this one, in most of them.
_SAME_FACTOR, _MOST_JOINTS = 3.0, 0.6


def check_conventions(signals: EpisodeSignals, typical: TypicalEpisode) -> Iterator[QualityFinding]:
    """A013 of grippers, A019 of a whole episode, A022 and A023."""
    if not signals.state.shape[1]:
        return
    positions = episode_positions(signals)
    yield from _check_grippers(signals, positions, typical)
    turned = tuple(_check_turned(signals, positions, typical))
    yield from turned
    names = {finding.dimension for finding in turned}
    by_command = tuple(_check_offsets(signals, positions, typical))
    by_start = (*_check_whole_level(signals, positions, typical), *_check_limits(signals, typical))
    known = names | {finding.dimension for finding in by_command}
    yield from (finding for finding in by_command if finding.dimension not in names)
    yield from (finding for finding in by_start if finding.dimension not in known)


def check_joint_unit(
    signals: EpisodeSignals, typical: TypicalSignal, num_episodes: int = 0
) -> Iterator[QualityFinding]:
    """A015: by how much the values of the arm joints are larger or smaller than usual, median over the joints.

    Args:
        signals: The episode.
        typical: What is typical of the state.
        num_episodes: Episodes that it was learnt from; of two the other one is what is usual.
    """
    import numpy as np

    arms = are_smooth_kinds(typical.kinds)
    ranges = np.ptp(signals.state, axis=0)
    usual = np.maximum(2 * typical.range - ranges, 0.0) if num_episodes == 2 else typical.range
    moving = arms & (usual > 0.1 * min(typical.scale, usual[arms].max(initial=0.0))) & (ranges > 0)
    if not typical.scale or not moving.any():
        return
    factors = ranges[moving] / usual[moving]
    factor = float(np.median(factors))
    largest = np.maximum(np.abs(typical.low), np.abs(typical.high))[moving]
    # A unit changes where a joint is, and not only how far it moves: a small motion does not.
    is_scaled = np.abs(signals.state[:, moving]).max(axis=0) <= _SAME_FACTOR * factor * largest
    is_common = (np.abs(np.log(factors / factor)) < np.log(_SAME_FACTOR)) & is_scaled
    if is_common.mean() < _MOST_JOINTS:
        return
    if (
        _UNIT_FACTOR <= factor <= _LARGEST_TICK_FACTOR
        or 1 / _LARGEST_UNIT_FACTOR <= factor <= 1 / _UNIT_FACTOR
    ):
        confidence = finding_confidence(max(factor, 1 / factor), _UNIT_FACTOR)
        yield make_finding(UNIT_CLASH, "state", size=factor, confidence=confidence)


def _check_grippers(
    signals: EpisodeSignals, positions: EpisodePositions, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """A013 of grippers that stay where the other episodes of their task have the opposite command."""
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if not pairs or positions.task not in typical.grippers:
        return
    of_state, of_action = map(list, zip(*pairs, strict=True))
    ends = (typical.action.low[of_action], typical.state.low[of_state])
    far_ends = (typical.action.high[of_action], typical.state.high[of_state])
    bounds = np.array([ends, far_ends]).transpose(2, 0, 1)
    sizes = turned_commands(positions.grippers, typical.grippers[positions.task], bounds)
    names = tuple(signals.action_names[number] for number in of_action)
    sizes_off = np.where(sizes > 0, sizes, np.nan)
    yield from findings_of(
        SIGN_FLIP, "action", names, sizes_off, 0.5 * np.ones(len(pairs)), np.zeros(len(pairs))
    )


def _check_turned(
    signals: EpisodeSignals, positions: EpisodePositions, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    for turned in typical.turned_dimensions:
        if is_turned(positions, turned):
            check = TURNED if turned.is_certain else TURNED_MOTION
            name, size = signals.state_names[turned.number], 1 - turned.share
            confidence = finding_confidence(size, 0.5)
            yield make_finding(check, "state", name, size=size, confidence=confidence)


def _check_offsets(
    signals: EpisodeSignals, positions: EpisodePositions, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """The mean distance of the state from its command, against that of the other episodes."""
    import numpy as np

    pairs = paired_dimensions(signals.state_names, signals.action_names)
    if not pairs or typical.meaning != "absolute":
        return
    numbers = [number for number, _ in pairs]
    usual = typical.positions
    floor = _LEAST_RANGE if typical.num_episodes >= _FEWEST_OFFSETS else _LEAST_RANGE_SINGLE
    ranges = np.maximum(typical.state.range[numbers], floor * typical.state.scale)
    offsets = pair_offsets(positions, pairs, usual.gains)
    if typical.num_episodes >= _FEWEST_OFFSETS:
        sizes = np.abs(offsets - usual.offsets)
        bars = np.maximum(_OFFSET_SPREADS * usual.offset_spreads, _OFFSET_SHARE * ranges)
    else:
        sizes = np.abs(offsets)
        bars = np.maximum(_SINGLE_SHARE, _SINGLE_FACTOR * np.median(sizes / ranges)) * ranges
    arms = are_smooth_kinds([typical.state.kinds[number] for number in numbers])
    says = (typical.correlations > _FOLLOWS) & (arms | (typical.num_episodes >= _FEWEST_OFFSETS))
    sizes = np.where(says, sizes, np.nan)
    names = tuple(signals.state_names[number] for number in numbers)
    yield from findings_of(OFFSET, "state", names, sizes, bars, np.zeros(len(pairs)))


def _check_whole_level(
    signals: EpisodeSignals, positions: EpisodePositions, typical: TypicalEpisode
) -> Iterator[QualityFinding]:
    """An episode that lies away from all others in few dimensions: a robot that starts elsewhere moves most of them."""
    import numpy as np

    usual, columns = typical.positions, np.arange(len(signals.state_names))
    shown = (positions.first, positions.last, positions.mean_state)
    distance = np.array([*shown, signals.state.min(axis=0), signals.state.max(axis=0)]) - usual.levels
    # The place at which the others agree best says by how much; the other places must not say otherwise.
    best = np.where(np.arange(len(usual.rooms))[:, None] == _MEAN_ROW, np.inf, usual.rooms).argmin(axis=0)
    shift = distance[best, columns]
    room = usual.rooms + _AGREEMENT_SHARE * typical.state.range
    agrees = (np.abs(distance - shift) <= room).all(axis=0)
    # A joint that rests in most episodes is off by what a joint moves that does not.
    smooth = np.array([kind in (*CHECKED_KINDS, "hand") for kind in typical.state.kinds], dtype=bool)
    least_range = np.where(smooth, _RESTING_RANGE * typical.state.scale, 0.0)
    least = _START_SHARE * np.maximum(typical.state.range, least_range)
    least = np.maximum(least, 12 * typical.state.noise)
    bars = np.maximum(least, usual.rooms[best, columns])
    known = np.isfinite(usual.rooms[best, columns]) & (typical.state.range > 0)
    known &= np.array(
        [kind != "gripper" for kind in typical.state.kinds], dtype=bool
    )  # it may begin at any end
    is_off = known & agrees & (np.abs(shift) >= bars)
    if is_off.sum() > max(1, _FEW_DIMENSIONS * known.sum()) or known.sum() < 3:
        return
    is_off &= ~_is_followed(signals, positions, typical)
    sizes_off = np.where(is_off, np.abs(shift), np.nan)
    yield from findings_of(OFFSET, "state", signals.state_names, sizes_off, bars, np.zeros(len(shift)))


def _check_limits(signals: EpisodeSignals, typical: TypicalEpisode) -> Iterator[QualityFinding]:
    """A gripper that passes an end at which it stops in the other episodes."""
    import numpy as np

    fingers = np.array([kind == "gripper" for kind in typical.state.kinds], dtype=bool)
    low, high = typical.positions.limits
    below, above = low - signals.state.min(axis=0), signals.state.max(axis=0) - high
    sizes = np.fmax(below, above)
    # Fingers that miss their thing close further than with it, and open as far as ever: an offset moves both ends.
    sizes = np.where(np.fmin(below, above) <= -_OTHER_END * sizes, sizes, np.nan)
    bars = np.maximum(_BEYOND_SHARE * typical.state.range, _LEAST_BEYOND * typical.state.scale)
    sizes_off = np.where(fingers, sizes, np.nan)
    yield from findings_of(OFFSET, "state", signals.state_names, sizes_off, bars, np.zeros(len(sizes)))


def _is_followed(
    signals: EpisodeSignals, positions: EpisodePositions, typical: TypicalEpisode
) -> NDArray[np.bool_]:
    """(S,) whether a dimension has a command by position, which says where it is to be."""
    import numpy as np

    followed = np.zeros(len(signals.state_names), dtype=bool)
    if typical.meaning == "absolute":
        for pair, (number, _) in enumerate(paired_dimensions(signals.state_names, signals.action_names)):
            followed[number] = typical.correlations[pair] > _FOLLOWS
    return followed
