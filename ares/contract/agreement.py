"""Whether two sources of one robot agree so far that a turned, moved, rescaled or exchanged dimension would show.

The clash check tells what differs. This asks for more: that nothing differs, and that a difference could not have been
missed. The way that an episode takes is read at equal shares of its length, whatever time it takes. The mean way of one
source is held against that of the other, by how much the ways of episodes differ anyway: as it is, and as it would be
if a dimension were turned, moved, rescaled or exchanged. The sources agree where the first fits, and each of the others
fits far worse. Episodes of one dataset pass both; where two sources pass one of them or none, a person is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import copysign, exp, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from ares.contract.contracts import GroupKind, SignalName
from ares.signals import EpisodeSignals, classify_by_name, with_continuous_rotations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    # For each task the numbers of its episodes in both sources.
    Tasks = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]

# Episodes of a source beyond so many add nothing.
AGREEMENT_EPISODES = 32
# Points of a way; the share of its length that time is, so that rests count a little.
_POINTS, _TIME_SHARE = 9, 0.1
_SMOOTHED = (1 / 9, 2 / 9, 3 / 9, 2 / 9, 1 / 9)
# Less than this share of the range of most of its kind is no motion of a dimension.
_LEAST_RANGE = 0.3
# What is noise alone, by steps as large as this share of the deviation, rests: its range is no measure of it.
_ROUGH, _REST = 0.7, 20.0
# Means that differ by this share of the range are the same; episodes differ by it where there is but one.
_SAME_VALUE, _USUAL_SPREAD = 0.01, 0.1
_MOST_CORRELATION = 0.95
# State and action have one value from this correlation on, as Fisher's z.
_TIED = 1.0
# How many episodes the spread of all dimensions together counts for, against that of one dimension.
_PRIOR_EPISODES = 4.0
# Means of one dataset differ by less, in units of what is expected, by more where few episodes tell what that is; the
# same for what an offset explains of it, and for correlations and ranges, which other things change as well.
_MOST_APART, _MORE_APART = 9.0, 30.0
_MOST_SHIFTED, _MOST_UNLIKE, _MOST_RESCALED = 35.0, 100.0, 200.0
# How much worse a change fits where the sources are shown to agree: twice the logarithm of the odds.
_LEAST_WORSE = 2.0
# A change that moves values by less than this share of the range does no harm.
_HARMLESS = 0.05
# What is moved by this share of its range, or multiplied by this factor or its inverse, has to fit worse.
_MOVED, _RESCALED = 1.0, 2.0
# Sources of one pace differ by less than this factor, and this many standard errors.
_LEAST_SPEEDUP, _SURE_SPEEDUP = 1.35, 3.5
# Tasks are distinguished by the ways where episodes of one task differ so much less, and there are enough of them.
_SEPARATED_SHARE, _LEAST_FREEDOM = 0.5, 4
_ENDS: frozenset[GroupKind] = frozenset({"gripper", "hand"})
# Kinds that a joint may have by its name: one that is called base counts as one of a base.
_JOINTS: frozenset[GroupKind] = frozenset({"arm", "base", "unknown"})
_NAMED = 6
# Two tasks, each in one source alone, are no chance below this probability.
_BY_CHANCE = 0.01


class _Column(NamedTuple):
    """A dimension that both sources have: its signal, kind and name."""

    signal: SignalName
    kind: GroupKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a comparison of two sources showed.

    Attributes:
        doubts: What differs, and what would not have shown; a line each, to be confirmed.
        groups: Signal groups, such as "state.arm", all of whose dimensions agree.
    """

    doubts: tuple[str, ...]
    groups: frozenset[str]


def compare_sources(
    first: Sequence[EpisodeSignals], second: Sequence[EpisodeSignals], labels: tuple[str, str]
) -> Agreement:
    """Compare what two sources have in common, by the names of the dimensions.

    Args:
        first: Episodes of one source, at least one, with finite values.
        second: Episodes of the other, likewise.
        labels: What the sources are called.
    """
    import numpy as np

    columns = _common_columns(first[0], second[0])
    if not columns:
        return Agreement(doubts=(), groups=frozenset())
    tables = [
        [_column_values(with_continuous_rotations(episode), columns) for episode in episodes]
        for episodes in (first, second)
    ]
    # One size for both: the length of a way depends on it. A unit that differs shows all the more.
    size = np.maximum(*(_usual_ranges(part, columns) for part in tables))
    ways = (_read_ways(first, tables[0], size), _read_ways(second, tables[1], size))
    comparison = _compare_ways(*ways, columns, size)
    differing, hidden = comparison.differing(), comparison.hidden()
    doubts = [
        f"{signal} of {labels[1]}: {names} do not move as in {labels[0]}, which is another task or "
        "another meaning: they mean the same"
        for signal, names in _names_by_signal(columns, differing)
    ]
    doubts += [
        f"{signal} of {labels[1]}: that {names} are turned, moved, rescaled or exchanged against {labels[0]} would not "
        "show: they mean the same"
        for signal, names in _names_by_signal(columns, hidden - differing)
    ]
    speed_factor = _find_speed_factor(*ways)
    if speed_factor != 1:
        doubts.append(
            f"{labels[1]} moves {speed_factor:.3g} times as fast as {labels[0]}: both rates are true"
        )
    doubtful = {f"{columns[number].signal}.{columns[number].kind}" for number in differing | hidden}
    groups = {f"{column.signal}.{column.kind}" for column in columns} - doubtful
    return Agreement(doubts=tuple(doubts), groups=frozenset(groups))


def compare_tasks(
    first: Mapping[str, int], second: Mapping[str, int], labels: tuple[str, str]
) -> tuple[str, ...]:
    """A line on tasks that look like other wordings, since each is in one source alone; none where chance may be why.

    Args:
        first: Episodes of one source by task.
        second: Of the other.
        labels: What the sources are called.
    """
    counts = Counter(first) + Counter(second)
    if (
        not (first and second) or 2 * len(counts) > counts.total()
    ):  # nearly every episode has a different text
        return ()
    share = sum(first.values()) / counts.total()
    chances = {task: share**count + (1 - share) ** count for task, count in counts.items()}
    known = min((task for task in first if task not in second), key=chances.__getitem__, default=None)
    other = min((task for task in second if task not in first), key=chances.__getitem__, default=None)
    if known is None or other is None:
        return ()
    if first.keys() & second.keys() and chances[known] * chances[other] > _BY_CHANCE:
        return ()
    return (f"tasks of {labels[1]} are not in {labels[0]}, such as {other!r}: none of them is another wording of one "
            f"there, such as {known!r}; else list both under `tasks`",)  # fmt: skip


def _names_by_signal(columns: Sequence[_Column], numbers: Collection[int]) -> Iterator[tuple[str, str]]:
    """For each signal that has any of some columns, their names as a text."""
    for signal in dict.fromkeys(column.signal for column in columns):
        names = [columns[number].name for number in sorted(numbers) if columns[number].signal == signal]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield signal, ", ".join(names[:_NAMED]) + more


def _common_columns(first: EpisodeSignals, second: EpisodeSignals) -> list[_Column]:
    """The dimensions that both have, in the order of the first."""
    columns: list[_Column] = []
    pairs: tuple[tuple[SignalName, tuple[str, ...], tuple[str, ...]], ...] = (
        ("state", first.state_names, second.state_names),
        ("action", first.action_names, second.action_names),
    )
    for signal, names, others in pairs:
        kinds = classify_by_name(names)
        columns += [
            _Column(signal, kind, name) for kind, name in zip(kinds, names, strict=True) if name in others
        ]
    return columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ways:
    """The ways that the N episodes of a source take, in D dimensions.

    Attributes:
        values: (N, K, D) values at K equal shares of the way.
        relations: (N, D, D) correlations of the dimensions, as Fisher's z.
        ranges: (N, D) logarithm of the range.
        speeds: (N,) logarithm of the speed in ranges per second.
        durations: (N,) logarithm of the seconds.
        tasks: The task of each episode.
    """

    values: Array
    relations: Array
    ranges: Array
    speeds: Array
    durations: Array
    tasks: tuple[str, ...]


def _read_ways(episodes: Sequence[EpisodeSignals], tables: Sequence[Array], size: Array) -> _Ways:
    """The ways of episodes with values (T, D) in dimensions of these ranges (D,)."""
    import numpy as np

    speeds = [
        np.median(np.quantile(np.abs(np.diff(table, axis=0)), 0.95, axis=0) / size) * episode.rate_hz
        for table, episode in zip(tables, episodes, strict=True)
    ]
    return _Ways(
        values=np.array([_read_way(table, size) for table in tables]),
        relations=np.array([_correlate_dimensions(table) for table in tables]),
        ranges=np.log(np.maximum(_measure_ranges(tables), _SAME_VALUE * size)),
        speeds=np.log(np.maximum(speeds, 1e-9)),
        durations=np.log([len(episode.seconds) / episode.rate_hz for episode in episodes]),
        tasks=tuple(episode.task for episode in episodes),
    )


def _column_values(episode: EpisodeSignals, columns: Sequence[_Column]) -> Array:
    """(T, D) values of the columns, T at least 2."""
    import numpy as np

    values = [
        episode.state[:, episode.state_names.index(column.name)]
        if column.signal == "state"
        else episode.action[:, episode.action_names.index(column.name)]
        for column in columns
    ]
    table = np.stack(values, axis=1).astype(np.float64)
    return table if len(table) > 1 else np.repeat(table, 2, axis=0)


def _measure_ranges(tables: Sequence[Array]) -> Array:
    """(N, D) range of each dimension in each episode, without its outermost values."""
    import numpy as np

    return np.array([np.ptp(np.quantile(table, (0.02, 0.98), axis=0), axis=0) for table in tables])


def _usual_ranges(tables: Sequence[Array], columns: Sequence[_Column]) -> Array:
    """(D,) range of each dimension; of one that hardly moves, a share of what is usual in its group."""
    import numpy as np

    spans = np.median(_measure_ranges(tables), axis=0)
    steps = np.median([np.sqrt((np.diff(table, axis=0) ** 2).mean(axis=0)) for table in tables], axis=0)
    spans = (
        np.where(steps > _ROUGH * np.median([table.std(axis=0) for table in tables], axis=0), _REST, 1)
        * spans
    )
    groups = np.array([f"{column.signal}.{column.kind}" for column in columns])
    usual = spans.copy()
    for group in set(groups.tolist()):
        members = groups == group
        usual[members] = np.maximum(spans[members], _LEAST_RANGE * np.median(spans[members]))
    return np.where(usual > 0, usual, 1.0)


def _read_way(table: Array, size: Array) -> Array:
    """(K, D) values at equal shares of the length of the way, in ranges of the dimensions; time counts a little."""
    import numpy as np

    count, half = len(table), len(_SMOOTHED) // 2
    padded = np.pad(table, ((half, half), (0, 0)), mode="edge")
    smooth = sum(weight * padded[start : start + count] for start, weight in enumerate(_SMOOTHED))
    steps = np.sqrt(((np.diff(smooth, axis=0) / size) ** 2).mean(axis=1))
    length, time = np.concatenate([[0.0], np.cumsum(steps)]), np.linspace(0, 1, count)
    shares = (1 - _TIME_SHARE) * length / length[-1] + _TIME_SHARE * time if length[-1] > 0 else time
    points = np.linspace(0, 1, _POINTS)
    return np.stack([np.interp(points, shares, column) for column in np.asarray(smooth).T], axis=1)


def _correlate_dimensions(table: Array) -> Array:
    """(D, D) correlations as Fisher's z; 0 for what does not move."""
    import numpy as np

    centred = table - table.mean(axis=0)
    deviation = centred.std(axis=0)
    scaled = centred / np.where(deviation > 0, deviation, 1.0)
    correlations = np.clip(scaled.T @ scaled / len(table), -_MOST_CORRELATION, _MOST_CORRELATION)
    return np.asarray(np.arctanh(correlations))


@dataclass(frozen=True, slots=True, eq=False)
class _Means:
    """Means of a quantity of two sources in S tasks, and the variance of their difference: (S, ..., D) each."""

    first: Array
    second: Array
    variance: Array

    @property
    def apart(self) -> Array:
        """(..., D) squared difference in units of what is expected, mean over the tasks."""
        import numpy as np

        return np.asarray(((self.first - self.second) ** 2 / self.variance).mean(axis=0))

    @property
    def shifted(self) -> Array:
        """(D,) what one offset for all of (S, K, D) would explain of the squared difference, mean over the tasks."""
        import numpy as np

        shift = ((self.first - self.second) / self.variance).sum(axis=1)
        return np.asarray((shift**2 / (1 / self.variance).sum(axis=1)).mean(axis=0))

    def worse(self, changed: Array, numbers: Sequence[int]) -> float:
        """By how much the second source fits worse as `changed` (S, ..., len(numbers)) in some dimensions, summed."""
        dimensions = list(numbers)
        first, second, variance = (
            self.first[..., dimensions],
            self.second[..., dimensions],
            self.variance[..., dimensions],
        )
        return float((((first - changed) ** 2 - (first - second) ** 2) / variance).sum())


def _pool_means(first: Array, second: Array, size: Array, tasks: Tasks) -> _Means:
    """Means of (N, ..., D) and (M, ..., D) by task; the variance of one dimension borrows from that of all.

    Args:
        first: Of one source.
        second: Of the other.
        size: (D,) range of each dimension.
        tasks: For each task the numbers of its episodes in both sources.
    """
    import numpy as np

    means = [np.array([part[episodes].mean(axis=0) for episodes in numbers]) for part, numbers in
             zip((first, second), zip(*tasks, strict=True), strict=True)]  # fmt: skip
    squares, freedom = _squares_within(first, second, tasks)
    scaled = squares / size**2
    usual = (
        scaled.mean(axis=-1, keepdims=True) / freedom if freedom else np.full_like(scaled, _USUAL_SPREAD**2)
    )
    variance = (_PRIOR_EPISODES * usual + scaled) / (_PRIOR_EPISODES + freedom)
    counts = np.array([1 / len(pair[0]) + 1 / len(pair[1]) for pair in tasks])
    counts = counts.reshape(-1, *(1,) * (first.ndim - 1))
    return _Means(means[0], means[1], (variance * counts + _SAME_VALUE**2) * size**2)


def _squares_within(first: Array, second: Array, tasks: Tasks) -> tuple[Array, int]:
    """(..., D) sum of the squared differences from the mean of task and source, and its degrees of freedom."""
    import numpy as np

    parts = [part[episodes] for pair in tasks for part, episodes in zip((first, second), pair, strict=True)]
    squares = [((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in parts]
    return np.sum(squares, axis=0), sum(len(part) - 1 for part in parts)


def _tasks_of(first: _Ways, second: _Ways, size: Array) -> Tasks:
    """Numbers of the episodes of each task that both sources have, where the ways differ by task; else of all."""
    import numpy as np

    whole = [(np.arange(len(first.tasks)), np.arange(len(second.tasks)))]
    names = [np.array(ways.tasks) for ways in (first, second)]
    common = sorted(set(first.tasks) & set(second.tasks))
    tasks = [(np.flatnonzero(names[0] == task), np.flatnonzero(names[1] == task)) for task in common]
    if sum(len(part) for pair in tasks for part in pair) == 0:
        return whole
    (of_all, all_freedom), (of_tasks, freedom) = (
        _squares_within(first.values / size, second.values / size, parts) for parts in (whole, tasks)
    )
    is_separated = (
        freedom >= _LEAST_FREEDOM
        and of_tasks.mean() / freedom < _SEPARATED_SHARE * of_all.mean() / all_freedom
    )
    return tasks if is_separated else whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _WayComparison:
    """Two sources of D common dimensions, held against each other.

    Attributes:
        columns: The dimensions.
        size: (D,) range of each.
        values: (S, K, D) their ways.
        relations: (S, D, D) their correlations.
        ranges: (S, D) logarithms of their ranges.
        independent: How many points of a way are independent.
        freedom: Degrees of freedom of the variance.
    """

    columns: Sequence[_Column]
    size: Array
    values: _Means
    relations: _Means
    ranges: _Means
    independent: float
    freedom: int

    def differing(self) -> set[int]:
        """Numbers of the dimensions that differ by more than episodes of one dataset do."""
        import numpy as np

        most = _MOST_APART + _MORE_APART / max(self.freedom, 1)
        is_apart = (self.values.apart.mean(axis=0) > most) | (
            self.values.shifted * self._independent > _MOST_SHIFTED
        )
        is_apart |= self.relations.apart.mean(axis=0) > _MOST_UNLIKE
        return set(np.flatnonzero(is_apart | (self.ranges.apart > _MOST_RESCALED)).tolist())

    def hidden(self) -> set[int]:
        """Numbers of the dimensions of which a change would not have shown, since it fits about as well as none."""
        joints = [unit for unit in self._units() if self._kind(unit) not in _ENDS | {"other"}]
        numbers: set[int] = set()
        for unit in joints:
            changes = (self._turned(unit), self._moved(unit, _MOVED), self._moved(unit, -_MOVED))
            if min(changes) < _LEAST_WORSE:
                numbers.update(unit)
        for unit, other in combinations(joints, 2):
            if self._may_be_exchanged(unit, other) and self._exchanged(unit, other) < _LEAST_WORSE:
                numbers.update(unit, other)
        for kind in dict.fromkeys(column.kind for column in self.columns):
            same_kind = [number for number, column in enumerate(self.columns) if column.kind == kind]
            least = min(self._rescaled(same_kind, _RESCALED), self._rescaled(same_kind, 1 / _RESCALED))
            if kind in _ENDS:
                least = min(least, self._inverted(same_kind))
            if kind != "other" and least < _LEAST_WORSE:
                numbers.update(same_kind)
        return numbers

    @property
    def _independent(self) -> float:
        """How many of the points of a way are independent, as a share of all."""
        return self.independent / _POINTS

    def _units(self) -> list[tuple[int, ...]]:
        """Dimensions that change together: state and action of one name, and each alone where they have one value."""
        units: dict[str, tuple[int, ...]] = {}
        for number, column in enumerate(self.columns):
            units[column.name] = (*units.get(column.name, ()), number)
        tied = [unit for unit in units.values() if len(unit) > 1 and self._is_tied(*unit[:2])]
        return [*units.values(), *((number,) for unit in tied for number in unit)]

    def _is_tied(self, number: int, other: int) -> bool:
        return float(abs(self.relations.first[:, number, other]).mean()) > _TIED

    def _kind(self, unit: tuple[int, ...]) -> GroupKind:
        return self.columns[unit[0]].kind

    def _may_be_exchanged(self, unit: tuple[int, ...], other: tuple[int, ...]) -> bool:
        kinds = {self._kind(unit), self._kind(other)}
        signals = [[self.columns[number].signal for number in part] for part in (unit, other)]
        return signals[0] == signals[1] and (len(kinds) == 1 or kinds <= _JOINTS)

    def _turned(self, unit: tuple[int, ...]) -> float:
        columns = list(unit)
        worse = self._worse_values(columns, -self.values.second[..., columns])
        return worse + self._worse_relations(columns, -self.relations.second[:, columns], columns)

    def _moved(self, unit: tuple[int, ...], share: float) -> float:
        columns = list(unit)
        return self._worse_values(columns, self.values.second[..., columns] + share * self.size[columns])

    def _exchanged(self, unit: tuple[int, ...], other: tuple[int, ...]) -> float:
        columns, sources = [*unit, *other], [*other, *unit]
        worse = self._worse_values(columns, self.values.second[..., sources])
        return worse + self._worse_relations(columns, self.relations.second[:, sources], columns)

    def _rescaled(self, columns: list[int], factor: float) -> float:
        worse = self._worse_values(columns, factor * self.values.second[..., columns])
        return worse + self.ranges.worse(self.ranges.second[..., columns] + log(factor), columns)

    def _inverted(self, columns: list[int]) -> float:
        reached = [part[..., columns] for part in (self.values.first, self.values.second)]
        ends = max(float(part.max()) for part in reached) + min(float(part.min()) for part in reached)
        return self._worse_values(columns, ends - self.values.second[..., columns])

    def _worse_values(self, columns: list[int], changed: Array) -> float:
        """By how much changed ways fit worse; infinite where they are hardly changed, which does no harm."""
        import numpy as np

        moved = (changed - self.values.second[..., columns]) / self.size[columns]
        if float(np.sqrt((moved**2).mean(axis=(0, 1))).max()) < _HARMLESS:
            return float("inf")
        return self.values.worse(changed, columns) * self._independent

    def _worse_relations(self, columns: list[int], changed: Array, without: list[int]) -> float:
        """The same for the correlations (S, len(columns), D) of some dimensions with the others, mean over these."""
        import numpy as np

        others = np.setdiff1d(np.arange(len(self.columns)), without)
        first, second, variance = (
            part[:, columns][..., others]
            for part in (self.relations.first, self.relations.second, self.relations.variance)
        )
        worse = ((first - changed[..., others]) ** 2 - (first - second) ** 2) / variance
        return float(worse.sum()) / len(self.columns)


def _compare_ways(first: _Ways, second: _Ways, columns: Sequence[_Column], size: Array) -> _WayComparison:
    import numpy as np

    tasks, unit_sizes = _tasks_of(first, second, size), np.ones(len(columns))
    values = _pool_means(first.values, second.values, size, tasks)
    ends = [number for number, column in enumerate(columns) if column.kind in _ENDS]
    # What has two values may have one of them in all of a few episodes: its spread is that of the whole way.
    variance = values.variance.copy()
    variance[..., ends] = np.maximum(variance, variance.mean(axis=1, keepdims=True))[..., ends]
    return _WayComparison(
        columns=columns,
        size=size,
        values=replace(values, variance=variance),
        relations=_pool_means(first.relations, second.relations, unit_sizes, tasks),
        ranges=_pool_means(first.ranges, second.ranges, unit_sizes, tasks),
        independent=_independent_points(first, second, size),
        freedom=_squares_within(first.values, second.values, tasks)[1],
    )


def _independent_points(first: _Ways, second: _Ways, size: Array) -> float:
    """How many points of a way are independent, by how they differ among the episodes: from 1 to K."""
    import numpy as np

    parts = [ways.values - ways.values.mean(axis=0) for ways in (first, second)]
    rows = np.moveaxis(np.concatenate(parts) / size, 1, 2).reshape(-1, _POINTS)
    products = rows.T @ rows + np.eye(_POINTS) * 1e-12
    deviation = np.sqrt(np.diag(products))
    eigenvalues = np.linalg.eigvalsh(products / np.outer(deviation, deviation))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def _find_speed_factor(first: _Ways, second: _Ways) -> float:
    """How many times as fast the second source is, by durations; 1 where they differ as episodes of one dataset do.

    Episodes of another length that move as fast are none of another pace.
    """
    durations, other = first.durations, second.durations
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in (durations, other))
    variance = (_PRIOR_EPISODES * _USUAL_SPREAD**2 + squares) / (
        _PRIOR_EPISODES + len(durations) + len(other) - 2
    )
    shorter = float(durations.mean() - other.mean())
    faster = float(second.speeds.mean() - first.speeds.mean())
    is_sure = abs(shorter) > _SURE_SPEEDUP * sqrt(variance * (1 / len(durations) + 1 / len(other)))
    if is_sure and abs(shorter) > log(_LEAST_SPEEDUP) and copysign(faster, shorter) == faster:
        return exp(shorter) if abs(faster) > log(_LEAST_SPEEDUP) / 2 else 1.0
    return 1.0
