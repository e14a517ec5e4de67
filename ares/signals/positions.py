"""Where an episode begins, ends and rests, and what the positions of the episodes of a dataset have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.signals.gripper_levels import gripper_levels
from ares.signals.plain_arrays import EpisodeSignals, paired_dimensions
from ares.signals.quaternions import quaternion_starts
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Spreads that the largest usual deviation counts for.
_SPREADS_OF_LARGEST = 4.0
# Of so few episodes nothing is common.
_FEW_EPISODES = 4
# Ends of a gripper are the same in all episodes where they spread by less of the range.
_SAME_LIMIT = 0.05
# The positions of eight of ten episodes are one within this share of the usual range; else so many times what they
# differ by, and what all but one differ by, is the room that positions have.
_MOST_EPISODES, _SAME_LEVEL, _MOST_ROOMS, _WIDEST_ROOMS = 0.8, 0.03, 3.0, 1.5
# Of fewer episodes only a common start says something, and a place whose room is more than this share of a motion
# says nothing.
_FEWEST_LEVELS, _MOST_ROOM = 8, 0.5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EpisodePositions:
    """Where an episode is, for comparison with the others.

    Attributes:
        task: Its instruction, or "".
        first: (S,) median of the first three values of the state.
        last: (S,) median of its last three.
        mean_state: (S,) means of the state.
        mean_action: (A,) means of the action.
        quaternion: (S,) whether a dimension is of a quaternion, whose sign says nothing.
        grippers: (P, 2, 2) commands of grippers that hold, with the openings; see `gripper_levels`.
    """

    task: str
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    mean_state: NDArray[np.float64]
    mean_action: NDArray[np.float64]
    quaternion: NDArray[np.bool_]
    grippers: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalPositions:
    """What the positions of the episodes of a dataset have in common.

    Attributes:
        levels: (5, S) median first, last and mean, smallest and largest value; NaN for few episodes.
        rooms: (5, S) how far an episode may be from them; infinite where they say nothing.
        limits: (2, S) smallest and largest value that nearly all episodes share; NaN where they differ.
        offsets: (P,) median of mean state less mean action of the pairs, the action times its gain.
        offset_spreads: (P,) spread of the offsets between the episodes.
        gains: (P,) state per action by which the offsets are taken.
    """

    levels: NDArray[np.float64]
    rooms: NDArray[np.float64]
    limits: NDArray[np.float64]
    offsets: NDArray[np.float64]
    offset_spreads: NDArray[np.float64]
    gains: NDArray[np.float64]


def episode_positions(signals: EpisodeSignals) -> EpisodePositions:
    """The positions of an episode of at least four steps, all finite."""
    import numpy as np

    quaternion = np.zeros(signals.state.shape[1], dtype=bool)
    for start in quaternion_starts(signals.state):
        quaternion[start : start + 4] = True
    return EpisodePositions(
        task=signals.task.strip().lower(),
        first=np.median(signals.state[:3], axis=0),
        last=np.median(signals.state[-3:], axis=0),
        mean_state=signals.state.mean(axis=0),
        mean_action=signals.action.mean(axis=0),
        quaternion=quaternion,
        grippers=gripper_levels(signals),
    )


def pair_offsets(
    positions: EpisodePositions, pairs: Sequence[tuple[int, int]], gains: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(P,) mean state less mean action times its gain, of the paired dimensions."""
    of_state, of_action = [i for i, _ in pairs], [j for _, j in pairs]
    return positions.mean_state[of_state] - gains * positions.mean_action[of_action]


def position_table(
    positions: Sequence[EpisodePositions], bounds: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """(N, 5, S) first, last and mean value of the state of each episode, its smallest and its largest."""
    import numpy as np

    shown = [(position.first, position.last, position.mean_state) for position in positions]
    return np.concatenate([np.array(shown), np.stack(bounds, axis=1)], axis=1)


def typical_positions(
    layout: tuple[tuple[str, ...], tuple[str, ...]],
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    gains: NDArray[np.float64],
) -> TypicalPositions:
    """What the positions of the episodes have in common.

    Args:
        layout: Names of the dimensions of state and action.
        positions: Positions of at least one episode.
        bounds: (N, S) smallest and largest values of the state in each of the N episodes.
        gains: (P,) usual gains of the pairs, NaN where unknown.
    """
    import numpy as np

    pairs = paired_dimensions(*layout)
    unity = np.ones(len(pairs))
    known = np.where(np.isfinite(gains) & (gains != 0), gains, unity)
    middle, spread = _offset_statistics(positions, pairs, unity)
    other_middle, other_spread = _offset_statistics(positions, pairs, known)
    by_gain = other_spread < spread
    levels, rooms = _common_levels(positions, bounds)
    return TypicalPositions(
        levels=levels,
        rooms=rooms,
        limits=_common_limits(bounds),
        offsets=np.where(by_gain, other_middle, middle),
        offset_spreads=np.where(by_gain, other_spread, spread),
        gains=np.where(by_gain, known, unity),
    )


def _offset_statistics(
    positions: Sequence[EpisodePositions], pairs: Sequence[tuple[int, int]], gains: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    offsets = np.array([pair_offsets(position, pairs, gains) for position in positions])
    middle = np.median(offsets, axis=0)
    distance = np.abs(offsets - middle)
    # The median deviation of a few episodes is small by chance: the second largest counts too.
    largest = np.quantile(distance, 0.9, axis=0, method="lower") / _SPREADS_OF_LARGEST
    return middle, np.maximum(DEVIATIONS_PER_MAD * np.median(distance, axis=0), largest)


def _common_levels(
    positions: Sequence[EpisodePositions], bounds: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two (5, S): the middle of each position of the episodes, and how far from it an episode may be."""
    import numpy as np

    table = position_table(positions, bounds)
    middle = np.median(table, axis=0)
    if len(positions) <= _FEW_EPISODES:
        return np.full_like(middle, np.nan), np.full_like(middle, np.inf)
    distance = np.sort(np.abs(table - middle), axis=0)
    most = distance[max(0, int(_MOST_EPISODES * len(positions)) - 1)]
    # Where the positions differ, one that is unlike the others stands out from all of them but one.
    ranges = np.median(bounds[1] - bounds[0], axis=0)
    rooms = np.maximum(_MOST_ROOMS * most, _WIDEST_ROOMS * distance[-2])
    rooms = np.where(
        most <= _SAME_LEVEL * ranges, most, np.where(rooms <= _MOST_ROOM * ranges, rooms, np.inf)
    )
    if len(positions) < _FEWEST_LEVELS:  # only a common start says something
        rooms = np.where(most <= _SAME_LEVEL * ranges, rooms, np.inf)
        rooms[1:] = np.inf
    return middle, rooms


def _common_limits(bounds: tuple[NDArray[np.float64], NDArray[np.float64]]) -> NDArray[np.float64]:
    """(2, S) the ends that most episodes reach, and hardly any passes; NaN where there are none."""
    import numpy as np

    low, high = np.sort(bounds[0], axis=0), np.sort(bounds[1], axis=0)
    count, room = len(low), _SAME_LIMIT * np.median(high - low, axis=0)
    if count <= _FEW_EPISODES:
        return np.full((2, low.shape[1]), np.nan)
    # Of one episode an end may be wrong: the second least and the second largest count.
    lowest = np.where(low[count // 2] - low[1] <= room, low[1], np.nan)
    highest = np.where(high[-2] - high[count // 2] <= room, high[-2], np.nan)
    return np.stack([lowest, highest])
