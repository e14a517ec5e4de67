"""How the episodes of a dataset compare: where they begin and rest, their offsets, and turned conventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.signals.dimension_kinds import CHECKED_KINDS, DimensionKind, name_tokens, quaternion_starts
from ares.signals.plain_arrays import EpisodeSignals, paired_dimensions
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Spreads that the largest usual deviation counts for.
_SPREADS_OF_LARGEST = 4.0
# Fewest episodes of which some may be turned, fewest on each side, and the share of them that must be on a side.
_FEWEST_COMPARED, _FEWEST_ON_SIDE, _SHARE_ON_SIDES = 4, 2, 0.9
# Both sides are as far from the centre, within this share of the distance by the number of episodes: a few agree by
# chance. They rest at mirrored places within this one.
_SIDE_SPREADS = ((12, 0.25), (8, 0.15), (0, 0.08))
_POSITION_SPREAD = 0.5
# An end of a gripper, which may hold a thing, and a mean are taken less exactly than the start of a joint.
_WIDE_SPREAD, _SHARE_OF_WIDE = 0.5, 0.75
# Least distance of a side from the centre, of the range of all values.
_LEAST_DISTANCE, _LEAST_WIDE_DISTANCE = 0.06, 0.12
# Starts that differ by so little of the distance are apart however small it is, but for this share of the range.
_SURE_SPREADS, _SURE_DISTANCE = 8.0, 0.01
# A finger that passes 0 by this share of its way has both signs by itself; turned ones reach about as far.
_FINGER_ZERO, _FINGER_REACH = 0.1, 0.6
# So many episodes of tasks that recur are on the side of their task before tasks explain the sides.
_FEWEST_RECURRING = 4
# Ends of a gripper are the same in all episodes where they spread by less of the range.
_SAME_LIMIT = 0.05
# The places of eight of ten episodes are one within this share of the usual range; else so many times what they differ
# by, and what all but one differ by, is the room that places have.
_MOST_EPISODES, _SAME_LEVEL, _MOST_ROOMS, _WIDEST_ROOMS = 0.8, 0.03, 3.0, 1.5
# Of fewer episodes only a common start says something, and a place whose room is more than this share of a motion
# says nothing.
_FEWEST_LEVELS, _MOST_ROOM = 8, 0.5
_QUATERNION_NAMES = frozenset({"qx", "qy", "qz", "qw", "quat", "quaternion"})
# An angle about a half turn has the other sign a little further on.
_HALF_TURNS = (3.141592653589793, 180.0)
_NEAR_HALF_TURN = 0.15


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
        jitter: Spread of the periods between stamps, as a share of their median.
    """

    task: str
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    mean_state: NDArray[np.float64]
    mean_action: NDArray[np.float64]
    quaternion: NDArray[np.bool_]
    jitter: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedDimension:
    """A dimension of the state that some episodes have with the other sign, or the other end of its range first.

    Attributes:
        number: Number of the dimension.
        centre: Value about which it is turned: 0 for a sign.
        at_start: Whether the start tells the sides apart, or else the mean.
        is_certain: Whether the start or the whole episode is on a side, and not the motion alone.
        is_above: Whether the smaller part of the episodes is above the centre.
        share: Share of the episodes in the smaller part.
    """

    number: int
    centre: float
    at_start: bool
    is_certain: bool
    is_above: bool
    share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TypicalPositions:
    """What the places of the episodes of a dataset have in common.

    Attributes:
        levels: (5, S) median first, last and mean, smallest and largest value; NaN for few episodes.
        rooms: (5, S) how far an episode may be from them; infinite where they say nothing.
        limits: (2, S) smallest and largest value that nearly all episodes share; NaN where they differ.
        offsets: (P,) median of mean state less mean action of the pairs, the action times its gain.
        offset_spreads: (P,) spread of the offsets between the episodes.
        gains: (P,) state per action by which the offsets are taken.
        jitter: Spread of the periods that nine of ten episodes have at least.
        turned: Dimensions that some episodes have turned.
    """

    levels: NDArray[np.float64]
    rooms: NDArray[np.float64]
    limits: NDArray[np.float64]
    offsets: NDArray[np.float64]
    offset_spreads: NDArray[np.float64]
    gains: NDArray[np.float64]
    jitter: float
    turned: tuple[TurnedDimension, ...]


def episode_positions(signals: EpisodeSignals) -> EpisodePositions:
    """The places of an episode of at least four steps, all finite."""
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
        jitter=period_jitter(signals.seconds),
    )


def period_jitter(seconds: NDArray[np.float64]) -> float:
    """Spread of the periods between stamps (T,) as a share of their median, from their median deviation."""
    import numpy as np

    periods = np.diff(seconds)
    usual = float(np.median(periods)) if len(periods) else 0.0
    return DEVIATIONS_PER_MAD * float(np.median(np.abs(periods - usual))) / usual if usual > 0 else 0.0


def pair_offsets(
    positions: EpisodePositions, pairs: Sequence[tuple[int, int]], gains: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(P,) mean state less mean action times its gain, of the paired dimensions."""
    of_state, of_action = [i for i, _ in pairs], [j for _, j in pairs]
    return positions.mean_state[of_state] - gains * positions.mean_action[of_action]


def compare_episodes(
    layout: tuple[tuple[str, ...], tuple[str, ...]],
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: tuple[DimensionKind, ...],
    gains: NDArray[np.float64],
) -> TypicalPositions:
    """What the episodes have in common.

    Args:
        layout: Names of the dimensions of state and action.
        positions: Places of at least one episode.
        bounds: (N, S) smallest and largest values of the state in each of the N episodes.
        kinds: Kind of each dimension of the state.
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
        jitter=float(np.quantile([position.jitter for position in positions], 0.1, method="lower")),
        turned=_turned_dimensions(layout[0], positions, bounds, kinds),
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
    """Two (5, S): the middle of each place of the episodes, and how far from it an episode may be."""
    import numpy as np

    shown = [(position.first, position.last, position.mean_state) for position in positions]
    table = np.concatenate([np.array(shown), np.stack(bounds, axis=1)], axis=1)
    middle = np.median(table, axis=0)
    if len(positions) <= _FEWEST_COMPARED:
        return np.full_like(middle, np.nan), np.full_like(middle, np.inf)
    distance = np.sort(np.abs(table - middle), axis=0)
    most = distance[max(0, int(_MOST_EPISODES * len(positions)) - 1)]
    # Where the places differ, one that is unlike the others stands out from all of them but one.
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
    if count <= _FEWEST_COMPARED:
        return np.full((2, low.shape[1]), np.nan)
    # Of one episode an end may be wrong: the second least and the second largest count.
    lowest = np.where(low[count // 2] - low[1] <= room, low[1], np.nan)
    highest = np.where(high[-2] - high[count // 2] <= room, high[-2], np.nan)
    return np.stack([lowest, highest])


def _turned_dimensions(
    names: tuple[str, ...],
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: tuple[DimensionKind, ...],
) -> tuple[TurnedDimension, ...]:
    """Dimensions that have two mirrored groups of episodes, which tasks do not tell apart."""
    import numpy as np

    if len(positions) < _FEWEST_COMPARED:
        return ()
    no_sign = np.asarray(np.array([position.quaternion for position in positions]).any(axis=0))
    result = []
    for number, kind in enumerate(kinds):
        is_sign = kind in CHECKED_KINDS and not no_sign[number]
        is_sign &= not _QUATERNION_NAMES.intersection(name_tokens(names[number]))
        if is_sign or kind == "gripper":
            turned = _turned_dimension(number, positions, bounds, is_gripper=kind == "gripper")
            result += [turned] if turned is not None else []
        elif kind == "hand":
            turned = _turned_finger(number, positions, bounds)
            result += [turned] if turned is not None else []
    return tuple(result)


def _turned_finger(
    number: int,
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> TurnedDimension | None:
    """A finger that closes from 0 one way in some episodes, and as far the other way in the rest."""
    import numpy as np

    low, high = bounds[0][:, number], bounds[1][:, number]
    far = np.where(np.abs(low) > np.abs(high), low, high)
    near, above = np.minimum(np.abs(low), np.abs(high)), far > 0
    crosses = (low < 0) & (high > 0) & (near > _FINGER_ZERO * np.abs(far))
    few = min(int(above.sum()), int((~above).sum()))
    if crosses.any() or few < _FEWEST_ON_SIDE or _tasks_tell_apart(positions, above):
        return None
    sides = np.sort([np.median(np.abs(far[above])), np.median(np.abs(far[~above]))])
    if sides[0] < _FINGER_REACH * sides[1] or not sides[0]:
        return None
    return TurnedDimension(
        number=number,
        centre=0.0,
        at_start=False,
        is_certain=True,
        is_above=bool(above.sum() <= (~above).sum()),
        share=float(min(above.mean(), 1 - above.mean())),
    )


def _turned_dimension(
    number: int,
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    is_gripper: bool,
) -> TurnedDimension | None:
    import numpy as np

    low, high = bounds[0][:, number], bounds[1][:, number]
    span = float(high.max() - low.min())
    centre = float(high.max() + low.min()) / 2 if is_gripper else 0.0
    table = np.array(
        [
            (position.first[number], position.last[number], position.mean_state[number])
            for position in positions
        ]
    )
    rows = np.column_stack([table, low, high]) - centre
    whole = np.where((low > centre) | (high < centre), rows[:, 2], 0.0)
    bases = ((rows[:, 0], 0, True), (whole, 2, True), (rows[:, 2], 2, False))
    for sides, deciding, is_certain in bases[: 1 if is_gripper else 3]:
        wide = _WIDE_SPREAD if is_gripper or not is_certain else 0.0
        above = _sides_of_episodes(sides, span, wide)
        if above is None or not _are_mirrored(rows, above, deciding):
            continue
        if _tasks_tell_apart(positions, above) or _is_half_turn(rows, span):
            continue
        return TurnedDimension(
            number=number,
            centre=centre,
            at_start=deciding == 0,
            is_certain=is_certain,
            is_above=bool(above.sum() <= (~above).sum()),
            share=float(min(above.mean(), 1 - above.mean())),
        )
    return None


def _sides_of_episodes(sides: NDArray[np.float64], span: float, wide: float) -> NDArray[np.bool_] | None:
    """(N,) which episodes are above the centre; None where they are not at one distance on two sides of it.

    Args:
        sides: (N,) signed distance of each episode from the centre.
        span: Range of all values.
        wide: Share of the distance by which most episodes may differ; 0 for what their number allows, for nearly all.
    """
    import numpy as np

    above, distance = sides > 0, np.abs(sides)
    usual = float(np.median(distance))
    spread = DEVIATIONS_PER_MAD * float(np.median(np.abs(distance - usual)))
    sure = max(_SURE_SPREADS * spread, _SURE_DISTANCE * span)
    least = _LEAST_WIDE_DISTANCE * span if wide else min(_LEAST_DISTANCE * span, sure)
    width = next(width for fewest, width in _SIDE_SPREADS if len(sides) >= fewest)
    near = np.abs(distance - usual) <= (wide or width) * usual
    on_side = near & (distance >= least)
    few = min(int((above & on_side).sum()), int((~above & on_side).sum()))
    enough = on_side.mean() >= (_SHARE_OF_WIDE if wide else _SHARE_ON_SIDES)
    return above if span and enough and few >= max(_FEWEST_ON_SIDE, 0.1 * len(sides)) else None


def _are_mirrored(rows: NDArray[np.float64], above: NDArray[np.bool_], deciding: int) -> bool:
    """Whether the episodes below the centre are where those above it are, once they are turned.

    Args:
        rows: (N, 5) first, last and mean value, smallest and largest, from the centre.
        above: (N,) which are above the centre.
        deciding: The column by which they are.
    """
    import numpy as np

    turned = np.column_stack([-rows[:, :3], -rows[:, [4]], -rows[:, [3]]])
    upper, lower = np.median(rows[above], axis=0), np.median(turned[~above], axis=0)
    inside = np.maximum(np.abs(rows[above] - upper).max(axis=0), np.abs(turned[~above] - lower).max(axis=0))
    room = np.maximum(2 * inside, _POSITION_SPREAD * float(np.median(np.abs(rows[:, 2]))))
    plain = abs(upper[deciding] + lower[deciding])
    return bool(
        (np.abs(upper - lower) <= room).all() and abs(upper[deciding] - lower[deciding]) < 0.5 * plain
    )


def _tasks_tell_apart(positions: Sequence[EpisodePositions], above: NDArray[np.bool_]) -> bool:
    """Whether each task that recurs has all of its episodes on one side, and these are too many for chance."""
    sides: dict[str, list[bool]] = {}
    for position, value in zip(positions, above.tolist(), strict=True):
        sides.setdefault(position.task, []).append(value)
    recurring = sum(len(values) - 1 for values in sides.values())
    is_pure = all(len(set(values)) == 1 for values in sides.values())
    return len(sides) > 1 and is_pure and recurring >= _FEWEST_RECURRING


def _is_half_turn(rows: NDArray[np.float64], span: float) -> bool:
    """Whether the values are an angle that lies at a half turn, on either side of it."""
    import numpy as np

    usual = float(np.median(np.abs(rows[:, 2])))
    return any(abs(usual - turn) < _NEAR_HALF_TURN * turn and span > 1.8 * usual for turn in _HALF_TURNS)


def find_turned(positions: EpisodePositions, turned: TurnedDimension) -> bool:
    """Whether an episode is of the smaller part of the episodes."""
    values = positions.first if turned.at_start else positions.mean_state
    return bool((values[turned.number] > turned.centre) == turned.is_above)
