"""Lays two datasets of one robot over each other: whether a factor, a sign, an offset, an end or an order differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, pi
from typing import TYPE_CHECKING, Literal

from ares.contract import profiles
from ares.contract.contracts import GroupKind
from ares.contract.profiles import SignalProfile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DifferenceKind = Literal["scale", "sign", "offset", "open end", "exchanged"]

# A difference is told from these odds on, in nats; measured on generated robots, see docs/contract.md.
_LEAST_ODDS = 3.0
_MOST_DIFFERENCES = 4
# Factors between known units: degrees, metres, percents, ticks of 4096 a turn.
_KNOWN_FACTORS = (180 / pi, 1000.0, 100.0, 50.0, 4096 / (2 * pi))
# A smaller factor may be a smaller motion.
_LEAST_FACTOR = 2.0
# A smaller one of some dimensions, or of one alone, may be another task.
_LEAST_PART, _LEAST_SINGLE = 5.0, 20.0
# Ranges or starts of some dimensions differ by this share of a factor, as a logarithm, where it is of their unit.
_OF_MOTION = 0.5
# Quantiles of the same episodes differ by at most this share of the range, but for dimensions that are changed.
_EQUAL, _NEARLY_ALL = 0.02, 0.9
# What a factor that no two units have costs in nats.
_ANY_FACTOR = 2.0
# A dimension that moves less than this share of its neighbours rests: its size says nothing.
_RESTING_SHARE = 0.05
# Where a joint rests may differ by this share of the range that most joints of its group have.
_LEAST_SIZE, _MOST_JOINTS = 0.5, 0.75
# Starts within this share of the range are one pose, where most dimensions have them.
_ALIGNED, _MOST = 0.1, 0.7
_ENDS: frozenset[GroupKind] = frozenset({"gripper", "hand"})
# What each kind of difference costs in nats, before the number of ways in which it may be.
_COSTS: Mapping[DifferenceKind, float] = {
    "scale": 4.0,
    "sign": 3.5,
    "offset": 6.0,
    "open end": 3.5,
    "exchanged": 6.0,
}


@dataclass(frozen=True, slots=True)
class _Situation:
    """How much honest recordings of one robot differ, in shares of the range or as logarithms of a ratio.

    Attributes:
        start: Of where episodes start.
        values: Of the quantiles of the values.
        span: Of the range of one dimension, beside what all have in common.
        speed: Of the speed of one dimension, likewise.
        common: Of the range of all dimensions together: a whole task may be small.
        cost: How improbable the situation is, in nats.
    """

    start: float
    values: float
    span: float
    speed: float
    common: float
    cost: float


_SITUATIONS = (
    _Situation(0.02, 0.02, 0.03, 0.05, 0.01, 1.6),  # the same episodes
    _Situation(0.04, 0.12, 0.15, 0.30, 0.10, 1.2),  # other episodes of one task
    _Situation(0.035, 0.60, 0.50, 0.60, 0.70, 1.2),  # another task from the same pose
    _Situation(0.45, 0.70, 0.50, 0.60, 0.70, 1.6),  # another task from another pose
)
# Those in which both do one task from one pose.
_SAME_TASK = (0, 1)
_OTHER_TASK = _SITUATIONS[2]
_FROM_ANOTHER_POSE = 3
_ANYTHING = _Situation(1.0, 1.0, 1.5, 1.5, 0.0, 0.0)
# Shares of the dimensions that do another thing, or anything, in the same dataset.
_OTHER_SHARE, _ANY_SHARE = 0.1, 0.03
# Standard deviation of a logarithm, and the share of the dimensions that it does not hold for.
_SAME_RESOLUTION, _SAME_NOISE = (0.05, 0.3), (0.7, 0.2)
_ANY_RATIO = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What makes the second of two datasets like the first.

    Attributes:
        kind: Kind of difference.
        numbers: Dimensions that differ.
        factor: What the second is to be multiplied by.
        offsets: What is then to be added, one for each of the dimensions.
        sources: For "exchanged", the dimensions whose values belong in `numbers`.
        odds: By how much it is more probable than no difference, in nats.
    """

    kind: DifferenceKind
    numbers: tuple[int, ...]
    factor: float = 1.0
    offsets: tuple[float, ...] = ()
    sources: tuple[int, ...] = ()
    odds: float = 0.0


@dataclass(frozen=True, slots=True)
class Overlay:
    """Two datasets, laid over each other.

    Attributes:
        differences: What differs; () where nothing does, or nothing can be told.
        aligned: Kinds of dimensions whose episodes start in one pose and move alike, so that their scales are known
            to agree.
        is_same_task: Whether both do one task from one pose, so that a turned joint would have shown.
    """

    differences: tuple[Difference, ...]
    aligned: frozenset[GroupKind]
    is_same_task: bool = False


def lay_over(first: SignalProfile, second: SignalProfile, kinds: Sequence[GroupKind]) -> Overlay:
    """Compare two datasets whose D dimensions have the same names in the same order.

    Args:
        first: One dataset.
        second: The other.
        kinds: What each dimension is.
    """
    overlay = _ProfileComparison(first.array(), tuple(kinds))
    rows, differences = second.array(), list[Difference]()
    if not (profiles.spans(overlay.rows).any() and profiles.spans(rows).any()):
        return Overlay((), frozenset(), is_same_task=True)  # what never moves is like everything
    while len(differences) < _MOST_DIFFERENCES:
        best = max(overlay.differences(rows), key=lambda difference: difference.odds, default=None)
        if best is None or best.odds < _LEAST_ODDS:
            break
        differences.append(best)
        rows = apply_difference(rows, best)
    if differences:
        return Overlay(tuple(differences), frozenset())
    situation = int(overlay.fit(rows).total.argmax())
    return Overlay((), overlay.aligned_kinds(rows), is_same_task=situation in _SAME_TASK)


def apply_difference(rows: Array, difference: Difference) -> Array:
    """Rows (10, D) of the second dataset as they would be without the difference."""
    import numpy as np

    numbers = list(difference.numbers)
    if difference.kind == "exchanged":
        order = np.arange(rows.shape[1])
        order[numbers] = difference.sources
        return rows[:, order]
    factors, offsets = np.ones(rows.shape[1]), np.zeros(rows.shape[1])
    factors[numbers] = difference.factor
    offsets[numbers] = difference.offsets or 0.0
    return profiles.affine(rows, factors, offsets)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How well rows fit: log-likelihoods of each of the S situations.

    Attributes:
        scores: (S, D) of each dimension.
        total: (S,) of all, with the cost of the situation.
    """

    scores: Array
    total: Array

    @property
    def best(self) -> float:
        """Log-likelihood over the situations."""
        import numpy as np

        return float(np.logaddexp.reduce(self.total))


@dataclass(slots=True)
class _ProfileComparison:
    """Compares rows of other datasets with those of one.

    Attributes:
        rows: (10, D) of the one.
        kinds: Kind of each dimension.
        groups: (D,) number of the group of each dimension.
        usual: (D,) usual range in its group.
    """

    rows: Array
    kinds: tuple[GroupKind, ...]
    groups: Array = field(init=False)
    usual: Array = field(init=False)

    def __post_init__(self) -> None:
        import numpy as np

        names = sorted(set(self.kinds))
        self.groups = np.array([names.index(kind) for kind in self.kinds])
        self.usual = _usual_spans(self.rows, self.groups)

    def fit(self, rows: Array) -> _Fit:
        """How well other rows fit as they are."""
        import numpy as np

        parts = _compare_rows(self, rows)
        fits = [_situation_fit(parts, situation, self.groups) for situation in _SITUATIONS]
        return _Fit(np.array([scores for scores, _ in fits]), np.array([total for _, total in fits]))

    def aligned_kinds(self, rows: Array) -> frozenset[GroupKind]:
        """Kinds that start in one pose and whose ranges are no factor apart, in most of the dimensions that move."""
        import numpy as np

        parts = _compare_rows(self, rows)
        starts = np.abs(parts.start) < _ALIGNED + parts.spread
        alike = starts & (np.abs(parts.span) < log(_LEAST_FACTOR))
        aligned = set[GroupKind]()
        for kind in set(self.kinds):
            moves = parts.moves & (np.array(self.kinds) == kind)
            if moves.any() and alike[moves].mean() > _MOST:
                aligned.add(kind)
        return frozenset(aligned)

    def differences(self, rows: Array) -> Iterator[Difference]:
        """Every difference that may be, with its odds."""
        fit = self.fit(rows)
        for candidate, cost in (
            *self._single_dimensions(rows, fit),
            *self._open_ends(rows),
            *self._exchanges(rows, fit),
            *self._scales(rows, fit),
        ):
            changed = apply_difference(rows, candidate)
            if not (self._is_far(candidate, rows) or self._are_same_episodes(changed)):
                continue
            odds = self.fit(changed).best - fit.best - cost - _COSTS[candidate.kind]
            yield Difference(
                kind=candidate.kind,
                numbers=candidate.numbers,
                factor=candidate.factor,
                offsets=candidate.offsets,
                sources=candidate.sources,
                odds=odds,
            )

    def _are_same_episodes(self, rows: Array) -> bool:
        """Whether nearly all dimensions that move have the same values, as no two recordings have."""
        import numpy as np

        parts = _compare_rows(self, rows)
        gaps = np.abs(np.vstack([parts.start[None], parts.values, parts.span[None]])).max(axis=0)
        return bool(parts.moves.any() and (gaps[parts.moves] < _EQUAL).mean() >= _NEARLY_ALL)

    def _is_far(self, difference: Difference, rows: Array) -> bool:
        """Whether an offset leads out of the range, and a factor of some dimensions is no other task."""
        if difference.kind == "offset":
            return abs(difference.offsets[0]) > float(_value_sizes(self, rows)[difference.numbers[0]])
        kind = self.kinds[difference.numbers[0]]
        is_part = len(difference.numbers) < self.kinds.count(kind)
        least = _LEAST_PART if len(difference.numbers) > 1 else _LEAST_SINGLE
        if difference.kind != "scale" or not is_part:
            return True
        return abs(log(difference.factor)) > log(least) and self._is_of_motion(difference, rows)

    def _is_of_motion(self, difference: Difference, rows: Array) -> bool:
        """Whether the ranges or the starts differ by most of a factor: noise depends on how long a robot rests."""
        import numpy as np

        numbers = list(difference.numbers)
        spans = _log_ratio(profiles.spans(self.rows), profiles.spans(rows))[numbers]
        starts = _log_ratio(*(np.abs(profiles.positions(part)[0]) for part in (self.rows, rows)))[numbers]
        larger = np.maximum(spans * np.sign(log(difference.factor)), starts * np.sign(log(difference.factor)))
        return bool(np.median(larger) >= _OF_MOTION * abs(log(difference.factor)))

    def _single_dimensions(self, rows: Array, fit: _Fit) -> Iterator[tuple[Difference, float]]:
        """Signs and offsets of single dimensions; tried where the dimension alone fits better."""
        import numpy as np

        unchanged, none, ways = np.ones(rows.shape[1]), np.zeros(rows.shape[1]), log(rows.shape[1])
        turned = self.fit(profiles.affine(rows, -unchanged, none))
        gaps = profiles.positions(self.rows) - profiles.positions(rows)
        for number in _better_dimensions(turned, fit):
            if self.kinds[number] not in _ENDS:
                yield Difference(kind="sign", numbers=(number,), factor=-1.0), ways
        for offsets in (gaps[0], np.median(gaps, axis=0)):
            for number in _better_dimensions(self.fit(profiles.affine(rows, unchanged, offsets)), fit):
                moved = (float(offsets[number]),)
                yield Difference(kind="offset", numbers=(number,), offsets=moved), ways

    def _open_ends(self, rows: Array) -> Iterator[tuple[Difference, float]]:
        """All grippers or all fingers of a hand turned round, about the middle of what the group reaches in both."""
        positions, other = profiles.positions(self.rows), profiles.positions(rows)
        for kind in _ENDS & set(self.kinds):
            numbers = tuple(number for number, name in enumerate(self.kinds) if name == kind)
            reached = [part[1:, list(numbers)] for part in (positions, other)]
            ends = max(float(part.max()) for part in reached) + min(float(part.min()) for part in reached)
            yield (
                Difference(kind="open end", numbers=numbers, factor=-1.0, offsets=(ends,) * len(numbers)),
                0.0,
            )

    def _exchanges(self, rows: Array, fit: _Fit) -> Iterator[tuple[Difference, float]]:
        """Two dimensions that fit better in each other's place, and the best order of all.

        They may be of two groups, but for grippers: a joint that is called base counts as one of a base.
        """
        import numpy as np

        size = rows.shape[1]
        numbers = np.arange(size)
        table = np.empty((len(_SITUATIONS), size, size))
        for shift in range(size):
            order = np.roll(numbers, shift)
            table[:, numbers, order] = self.fit(rows[:, order]).scores
        unchanged = np.diagonal(table, axis1=1, axis2=2)
        gains = table + table.transpose(0, 2, 1) - unchanged[:, :, None] - unchanged[:, None, :]
        same_group = self.groups[:, None] == self.groups[None, :]
        is_joint = np.array([kind not in _ENDS for kind in self.kinds])
        may_be = same_group | (is_joint[:, None] & is_joint[None, :])
        for row, column in np.argwhere(np.triu((gains.max(axis=0) > _LEAST_ODDS) & may_be, 1)).tolist():
            yield Difference(kind="exchanged", numbers=(row, column), sources=(column, row)), 2 * log(size)
        for situation in table[:_FROM_ANOTHER_POSE]:
            order = _best_assignment(situation)
            moved = np.flatnonzero(order != numbers)
            if len(moved) > 2:
                sources = tuple(order[moved].tolist())
                cost = 1.2 * log(size) * len(moved)
                yield Difference(kind="exchanged", numbers=tuple(moved.tolist()), sources=sources), cost

    def _scales(self, rows: Array, fit: _Fit) -> Iterator[tuple[Difference, float]]:
        """Factors of a whole group, and of those of its dimensions that fit better with it."""
        import numpy as np

        none, known = np.zeros(rows.shape[1]), _known_factors()
        for group in np.unique(self.groups):
            is_member = self.groups == group
            for factor in _candidate_factors(self.rows[:, is_member], rows[:, is_member]):
                scaled = self.fit(profiles.affine(rows, np.where(is_member, factor, 1.0), none))
                parts = {tuple(np.flatnonzero(is_member).tolist())}
                parts |= {
                    tuple(np.flatnonzero(is_member & row).tolist()) for row in scaled.scores > fit.scores
                }
                for numbers in parts - {()}:
                    left = int(is_member.sum()) - len(numbers)
                    cost = 0.7 * min(len(numbers), left) + (1.5 if left else 0.0)
                    cost += 0.0 if factor in known else _ANY_FACTOR
                    yield Difference(kind="scale", numbers=numbers, factor=factor), cost


def _best_assignment(scores: Array) -> NDArray[np.int64]:
    """(D,) column of each row of scores (D, D), each once, with the largest sum: the Hungarian method."""
    import numpy as np

    size = len(scores)
    costs = np.zeros((size + 1, size + 1))
    costs[1:, 1:] = scores.max() - scores
    row_price, column_price = np.zeros(size + 1), np.zeros(size + 1)
    row_of, came_from = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
    for row in range(1, size + 1):
        row_of[0], column = row, 0
        least, is_used = np.full(size + 1, np.inf), np.zeros(size + 1, bool)
        while row_of[column]:
            is_used[column] = True
            slack = costs[row_of[column]] - row_price[row_of[column]] - column_price
            is_less = ~is_used & (slack < least)
            least[is_less], came_from[is_less] = slack[is_less], column
            following = int(np.where(is_used, np.inf, least)[1:].argmin()) + 1
            step = least[following]
            row_price[row_of[is_used]] += step
            column_price[is_used] -= step
            least[~is_used] -= step
            column = following
        while column:
            row_of[column] = row_of[came_from[column]]
            column = int(came_from[column])
    return np.asarray(np.argsort(row_of[1:]))


def _better_dimensions(other: _Fit, fit: _Fit) -> list[int]:
    import numpy as np

    return np.flatnonzero((other.scores - fit.scores).max(axis=0) > _LEAST_ODDS).tolist()


def _usual_spans(rows: Array, groups: Array) -> Array:
    """(D,): the range that most dimensions of the group of each stay within."""
    import numpy as np

    span, usual = profiles.spans(rows), np.zeros(rows.shape[1])
    for group in np.unique(groups):
        usual[groups == group] = np.quantile(span[groups == group], _MOST_JOINTS)
    return usual


def _known_factors() -> list[float]:
    return [factor for size in _KNOWN_FACTORS for factor in (size, 1 / size)]


def _candidate_factors(group: Array, other: Array) -> list[float]:
    """Factors that may make one group (10, G) like another: known ones, and ratios of ranges and starts."""
    import numpy as np

    span, other_span = profiles.spans(group), profiles.spans(other)
    moves = (span > 0) & (other_span > 0)
    starts = (profiles.positions(group)[0] != 0) & (profiles.positions(other)[0] != 0)
    ratios = span[moves] / other_span[moves]
    of_starts = np.abs(profiles.positions(group)[0][starts] / profiles.positions(other)[0][starts])
    common = [float(np.exp(np.median(np.log(part)))) for part in (ratios, of_starts) if len(part)]
    factors = [*_known_factors(), *common, *ratios.tolist(), *of_starts.tolist()]
    return [factor for factor in dict.fromkeys(factors) if abs(log(factor)) >= log(_LEAST_FACTOR)]


@dataclass(frozen=True, slots=True)
class _Parts:
    """How rows of two datasets differ, dimension by dimension.

    Attributes:
        start: (D,) difference of the starts in shares of the range.
        spread: (D,) how much starts differ anyway, likewise.
        values: (5, D) differences of the quantiles, likewise.
        moves: (D,) whether both move.
        span: (D,) logarithm of the ratio of the ranges.
        speed: (D,) logarithm of the ratio of the speeds.
        fixed: (D,) log-likelihood of resolution and noise, which no task changes.
    """

    start: Array
    spread: Array
    values: Array
    moves: NDArray[np.bool_]
    span: Array
    speed: Array
    fixed: Array


def _compare_rows(comparison: _ProfileComparison, rows: Array) -> _Parts:
    import numpy as np

    first, usual, other_usual = comparison.rows, comparison.usual, _usual_spans(rows, comparison.groups)
    span, other_span = profiles.spans(first), profiles.spans(rows)
    size = _value_sizes(comparison, rows)
    gaps = (profiles.positions(first) - profiles.positions(rows)) / size
    rests = (span <= _RESTING_SHARE * usual) | (other_span <= _RESTING_SHARE * other_usual)
    fixed = _ratio_score(profiles.resolutions(first), profiles.resolutions(rows), *_SAME_RESOLUTION)
    fixed = fixed + _ratio_score(profiles.noises(first), profiles.noises(rows), *_SAME_NOISE)
    return _Parts(
        start=gaps[0],
        spread=np.minimum(2 * (profiles.start_spreads(first) + profiles.start_spreads(rows)) / size, 0.5),
        values=gaps[1:],
        moves=~rests & (span > 0) & (other_span > 0),
        span=_log_ratio(span, other_span),
        speed=_log_ratio(profiles.speeds(first), profiles.speeds(rows)),
        fixed=fixed,
    )


def _value_sizes(comparison: _ProfileComparison, rows: Array) -> Array:
    """(D,): the range in which the values of both datasets lie anyway."""
    import numpy as np

    spans = np.maximum(profiles.spans(comparison.rows), profiles.spans(rows))
    usual = np.maximum(comparison.usual, _usual_spans(rows, comparison.groups))
    size = np.maximum(spans, _LEAST_SIZE * usual)
    return np.where(size > 0, size, 1.0)


def _log_ratio(first: Array, second: Array) -> Array:
    """Logarithm of the ratio; 0 where one of the two is 0."""
    import numpy as np

    both = (first > 0) & (second > 0)
    return np.asarray(np.log(np.where(both, first, 1.0)) - np.log(np.where(both, second, 1.0)))


def _ratio_score(first: Array, second: Array, width: float, share: float) -> Array:
    """(D,): log-likelihood that two numbers are one, but for a share of the dimensions; 0 where one is unknown."""
    import numpy as np

    ratio = _log_ratio(first, second)
    score = np.logaddexp(
        log(1 - share) + _normal_score(ratio, width), log(share) + _normal_score(ratio, _ANY_RATIO)
    )
    return np.where((first > 0) & (second > 0), score, 0.0)


def _normal_score(values: Array, width: Array | float) -> Array:
    import numpy as np

    return np.asarray(-0.5 * (values / width) ** 2 - np.log(width))


def _situation_fit(parts: _Parts, situation: _Situation, groups: Array) -> tuple[Array, float]:
    """Log-likelihood of each dimension (D,), and of all together."""
    import numpy as np

    common, cost = _common_ratio(parts, situation, groups)
    scores = np.logaddexp.reduce(
        [
            log(1 - _OTHER_SHARE - _ANY_SHARE) + _block_score(parts, situation, common),
            log(_OTHER_SHARE) + _block_score(parts, _OTHER_TASK, common),
            log(_ANY_SHARE) + _block_score(parts, _ANYTHING, np.zeros_like(common)),
        ]
    )
    scores = scores + parts.fixed
    return scores, float(scores.sum()) - cost - situation.cost


def _common_ratio(parts: _Parts, situation: _Situation, groups: Array) -> tuple[Array, float]:
    """(D,): what the ranges of a group have in common as the logarithm of a ratio, and how improbable that is."""
    import numpy as np

    common, cost = np.zeros(len(groups)), 0.0
    for group in np.unique(groups):
        moves = parts.moves & (groups == group)
        if moves.any():
            trusted = situation.common**2 / (situation.common**2 + situation.span**2 / moves.sum())
            ratio = float(np.median(parts.span[moves])) * trusted
            common[groups == group] = ratio
            cost += 0.5 * (ratio / situation.common) ** 2
    return common, cost


def _block_score(parts: _Parts, situation: _Situation, common: Array) -> Array:
    """(D,): log-likelihood of starts, quantiles, ranges and speeds; quantiles of one dimension are no strangers."""
    import numpy as np

    score = _normal_score(parts.start, situation.start + parts.spread)
    score = score + 0.5 * _normal_score(parts.values, situation.values).sum(axis=0)
    ratios = _normal_score(parts.span - common, situation.span)
    ratios = ratios + 0.5 * _normal_score(parts.speed - common, situation.speed)
    return np.asarray(score + np.where(parts.moves, ratios, 0.0))
