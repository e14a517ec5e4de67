"""Dimensions whose sign or zero is turned in a part of the episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.signals.dimension_kinds import CHECKED_KINDS, DimensionKind, name_tokens
from ares.signals.positions import EpisodePositions, position_table
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Fewest episodes of which some may be turned, fewest on each side, and the share of them that must be on a side.
_FEWEST_COMPARED, FEWEST_ON_SIDE, _SHARE_ON_SIDES = 4, 2, 0.9
# Both sides are as far from the centre, within this share of the distance by the number of episodes: a few agree by
# chance. They rest at mirrored positions within this one.
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
_QUATERNION_NAMES = frozenset({"qx", "qy", "qz", "qw", "quat", "quaternion"})
# An angle about a half turn has the other sign a little further on.
_HALF_TURNS = (3.141592653589793, 180.0)
_NEAR_HALF_TURN = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedDimension:
    """A dimension of the state that some episodes have with the other sign, or the other end of its range first.

    Attributes:
        number: Number of the dimension.
        centre: Value about which it is turned: 0 for a sign.
        at_start: Whether the start distinguishes the sides, or else the mean.
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


# Columns of `position_table`.
_FIRST, _MEAN, _LOW, _HIGH = 0, 2, 3, 4


def find_turned_dimensions(
    names: tuple[str, ...],
    positions: Sequence[EpisodePositions],
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    kinds: tuple[DimensionKind, ...],
) -> tuple[TurnedDimension, ...]:
    """Dimensions that have two mirrored groups of episodes, which tasks do not explain.

    Args:
        names: Names of the dimensions of the state.
        positions: Positions of at least one episode.
        bounds: (N, S) smallest and largest values of the state in each of the N episodes.
        kinds: Kind of each dimension of the state.
    """
    import numpy as np

    if len(positions) < _FEWEST_COMPARED:
        return ()
    tasks = [position.task for position in positions]
    quaternion = np.asarray(np.array([position.quaternion for position in positions]).any(axis=0))
    table = position_table(positions, bounds)
    turned = []
    for number, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        rows = table[:, :, number]
        if kind == "gripper":
            turned.append(_turned_gripper(number, rows, tasks))
        elif kind == "hand":
            turned.append(_turned_finger(number, rows, tasks))
        elif kind in CHECKED_KINDS and not quaternion[number] and not _is_quaternion_name(name):
            turned.append(_turned_sign(number, rows, tasks))
    return tuple(dimension for dimension in turned if dimension is not None)


def _is_quaternion_name(name: str) -> bool:
    return not _QUATERNION_NAMES.isdisjoint(name_tokens(name))


def _turned_gripper(number: int, rows: NDArray[np.float64], tasks: Sequence[str]) -> TurnedDimension | None:
    """A gripper that begins at one end of its range in some episodes, and at the other end in the rest."""
    centre = float(rows[:, _HIGH].max() + rows[:, _LOW].min()) / 2
    above = _mirrored_sides(rows - centre, rows[:, _FIRST] - centre, _FIRST, _WIDE_SPREAD, tasks)
    return None if above is None else _make_turned(number, above, centre, at_start=True)


def _turned_sign(number: int, rows: NDArray[np.float64], tasks: Sequence[str]) -> TurnedDimension | None:
    """A dimension that has the other sign in some episodes: at the start, else throughout, else on average."""
    import numpy as np

    throughout = np.where((rows[:, _LOW] > 0) | (rows[:, _HIGH] < 0), rows[:, _MEAN], 0.0)
    for sides, deciding, wide in (
        (rows[:, _FIRST], _FIRST, 0.0),
        (throughout, _MEAN, 0.0),
        (rows[:, _MEAN], _MEAN, _WIDE_SPREAD),
    ):
        above = _mirrored_sides(rows, sides, deciding, wide, tasks)
        if above is not None:
            return _make_turned(number, above, at_start=deciding == _FIRST, is_certain=not wide)
    return None


def _turned_finger(number: int, rows: NDArray[np.float64], tasks: Sequence[str]) -> TurnedDimension | None:
    """A finger that closes from 0 one way in some episodes, and as far the other way in the rest."""
    import numpy as np

    low, high = rows[:, _LOW], rows[:, _HIGH]
    far = np.where(np.abs(low) > np.abs(high), low, high)
    near, above = np.minimum(np.abs(low), np.abs(high)), far > 0
    crosses = (low < 0) & (high > 0) & (near > _FINGER_ZERO * np.abs(far))
    few = min(int(above.sum()), int((~above).sum()))
    if crosses.any() or few < FEWEST_ON_SIDE or _tasks_explain_sides(tasks, above):
        return None
    sides = np.sort([np.median(np.abs(far[above])), np.median(np.abs(far[~above]))])
    if sides[0] < _FINGER_REACH * sides[1] or not sides[0]:
        return None
    return _make_turned(number, above)


def _make_turned(
    number: int,
    above: NDArray[np.bool_],
    centre: float = 0.0,
    *,
    at_start: bool = False,
    is_certain: bool = True,
) -> TurnedDimension:
    return TurnedDimension(
        number=number,
        centre=centre,
        at_start=at_start,
        is_certain=is_certain,
        is_above=bool(above.sum() <= (~above).sum()),
        share=float(min(above.mean(), 1 - above.mean())),
    )


def _mirrored_sides(
    rows: NDArray[np.float64], sides: NDArray[np.float64], deciding: int, wide: float, tasks: Sequence[str]
) -> NDArray[np.bool_] | None:
    """(N,) which episodes are above the centre; None where those below are not turned.

    Args:
        rows: (N, 5) positions of the episodes from the centre; see `position_table`.
        sides: (N,) signed distance of each episode from the centre.
        deciding: The column of which these distances are.
        wide: As of `_sides_of_episodes`.
        tasks: The task of each episode.
    """
    span = float(rows[:, _HIGH].max() - rows[:, _LOW].min())
    above = _sides_of_episodes(sides, span, wide)
    if above is None or not _are_mirrored(rows, above, deciding):
        return None
    return None if _tasks_explain_sides(tasks, above) or _is_half_turn(rows, span) else above


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
    return above if span and enough and few >= max(FEWEST_ON_SIDE, 0.1 * len(sides)) else None


def _are_mirrored(rows: NDArray[np.float64], above: NDArray[np.bool_], deciding: int) -> bool:
    """Whether the episodes below the centre are where those above it are, once they are turned.

    Args:
        rows: (N, 5) positions of the episodes from the centre; see `position_table`.
        above: (N,) which are above the centre.
        deciding: The column by which they are.
    """
    import numpy as np

    turned = np.column_stack([-rows[:, :_LOW], -rows[:, [_HIGH]], -rows[:, [_LOW]]])
    upper, lower = np.median(rows[above], axis=0), np.median(turned[~above], axis=0)
    inside = np.maximum(np.abs(rows[above] - upper).max(axis=0), np.abs(turned[~above] - lower).max(axis=0))
    room = np.maximum(2 * inside, _POSITION_SPREAD * float(np.median(np.abs(rows[:, _MEAN]))))
    plain = abs(upper[deciding] + lower[deciding])
    return bool(
        (np.abs(upper - lower) <= room).all() and abs(upper[deciding] - lower[deciding]) < 0.5 * plain
    )


def _tasks_explain_sides(tasks: Sequence[str], above: NDArray[np.bool_]) -> bool:
    """Whether each task that recurs has all of its episodes on one side, and these are too many for chance."""
    sides: dict[str, list[bool]] = {}
    for task, value in zip(tasks, above.tolist(), strict=True):
        sides.setdefault(task, []).append(value)
    recurring = sum(len(values) - 1 for values in sides.values())
    is_pure = all(len(set(values)) == 1 for values in sides.values())
    return len(sides) > 1 and is_pure and recurring >= _FEWEST_RECURRING


def _is_half_turn(rows: NDArray[np.float64], span: float) -> bool:
    """Whether the values are an angle that lies at a half turn, on either side of it."""
    import numpy as np

    usual = float(np.median(np.abs(rows[:, _MEAN])))
    return any(abs(usual - turn) < _NEAR_HALF_TURN * turn and span > 1.8 * usual for turn in _HALF_TURNS)


def is_turned(positions: EpisodePositions, turned: TurnedDimension) -> bool:
    """Whether an episode is in the smaller part, whose episodes have the dimension turned."""
    values = positions.first if turned.at_start else positions.mean_state
    return bool((values[turned.number] > turned.centre) == turned.is_above)
