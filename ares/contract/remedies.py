"""Which conversions may make two datasets agree that do not: those that bring the levels of dimensions nearer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import log, pi
from typing import TYPE_CHECKING

from ares.contract.comparison import Dimension, columns_of
from ares.contract.contracts import GroupKind
from ares.signals import EpisodeSignals, classify_by_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Factors between known units, by what the second dataset is multiplied with: degrees, mm, percent, bytes, ticks.
_DEGREE = pi / 180
_SIZES = (_DEGREE, 0.001, 0.01, 1 / 255, 2 * pi / 4096)
_FACTORS = (*_SIZES, *(1 / size for size in _SIZES))
_UNIT_WORDS = {
    ("arm", _DEGREE): "deg -> rad",
    ("arm", 1 / _DEGREE): "rad -> deg",
    ("rotation", _DEGREE): "deg -> rad",
    ("rotation", 1 / _DEGREE): "rad -> deg",
    ("position", 0.001): "mm -> m",
    ("position", 1000.0): "m -> mm",
}
# Ranges that differ by a known factor are within this one of it, as a logarithm.
_NEAR = 0.4
_ENDS: frozenset[GroupKind] = frozenset({"gripper", "hand"})
# A joint that is called base counts as one of a base.
_JOINTS: frozenset[GroupKind] = frozenset({"arm", "base", "unknown"})
# Levels have to come nearer by this share before a conversion is tried, or were near already.
_NEARER, _NEAR_ALREADY = 0.6, 0.02
_LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, slots=True)
class Change:
    """Some dimensions of one signal of the second dataset, by a factor, an offset, or the values of others.

    Attributes:
        numbers: Numbers among the compared dimensions.
        sources: Those whose values they get.
        factor: What these are multiplied with.
        offset: What is then added.
        words: What a person writes for all of a kind, such as "arm: deg -> rad"; or "".
    """

    numbers: tuple[int, ...]
    sources: tuple[int, ...]
    factor: float = 1.0
    offset: float = 0.0
    words: str = ""

    def apply(self, levels: Array) -> Array:
        """(L, D) levels after the change."""
        changed = levels.copy()
        values = levels[:, list(self.sources)] * self.factor + self.offset
        changed[:, list(self.numbers)] = values[::-1] if self.factor < 0 else values
        return changed

    def text(self, dataset: str, dimensions: Sequence[Dimension]) -> str:
        """The value of `--convert`."""
        subject = f"{dataset}/{dimensions[self.numbers[0]].signal}"
        if self.words:
            return f"{subject}.{self.words}"
        names, sources = (
            ", ".join(dimensions[number].name for number in part) for part in (self.numbers, self.sources)
        )
        if self.sources != self.numbers:
            return f"{subject}[{names}]: from {sources}"
        offset = f" plus {self.offset:.6g}" if self.offset else ""
        return f"{subject}[{names}]: times {self.factor:.6g}{offset}"


# A change of one signal, or one of each.
Candidate = tuple[Change, ...]


def _scale_part(
    numbers: tuple[int, ...], factor: float = 1.0, offset: float = 0.0, words: str = ""
) -> Change:
    return Change(numbers, numbers, factor, offset, words)


def candidate_conversions(
    first: Sequence[EpisodeSignals],
    second: Sequence[EpisodeSignals],
    dimensions: Sequence[Dimension],
    differing: Iterable[int],
    dataset: str,
) -> list[tuple[str, ...]]:
    """Values of `--convert` that may make the second dataset like the first, the nearest first.

    Args:
        first: Episodes of one dataset.
        second: Episodes of the other.
        dimensions: What both have.
        differing: Numbers of the dimensions that differ.
        dataset: Name of the other.
    """
    known: dict[tuple[str, str], GroupKind] = {}
    for signal, names in (("state", first[0].state_names), ("action", first[0].action_names)):
        known |= {(signal, name): kind for name, kind in zip(names, classify_by_name(names), strict=True)}
    tables = [_Levels(_pool_levels(part, dimensions)) for part in (first, second)]
    overlay = _LaidOver(tuple(dimensions), tuple(known[part] for part in dimensions), *tables)
    tried: dict[tuple[str, ...], float] = {}
    for candidate in overlay.candidates(sorted(differing)):
        changed = tables[1].values
        for change in candidate:
            changed = change.apply(changed)
        touched = sorted({number for change in candidate for number in change.numbers})
        before, after = (tables[0].distance(part, touched) for part in (tables[1].values, changed))
        if after <= _NEARER * before or before < _NEAR_ALREADY:
            tried.setdefault(tuple(change.text(dataset, dimensions) for change in candidate), after)
    return sorted(tried, key=tried.__getitem__)


def _pool_levels(episodes: Sequence[EpisodeSignals], dimensions: Sequence[Dimension]) -> Array:
    """(L, D) quantiles of the dimensions, median over the episodes."""
    import numpy as np

    rows = [np.quantile(columns_of(episode, dimensions), _LEVELS, axis=0) for episode in episodes]
    return np.asarray(np.median(rows, axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """(L, D) levels of a dataset."""

    values: Array

    def distance(self, other: Array, numbers: Sequence[int]) -> float:
        """How far other levels are in some dimensions, in ranges of these."""
        import numpy as np

        span = np.ptp(self.values, axis=0)[list(numbers)]
        size = np.maximum(span, max(0.1 * float(span.max()), 1e-9))
        return float(np.abs((other - self.values)[:, list(numbers)] / size).mean())


@dataclass(frozen=True, slots=True, eq=False)
class _LaidOver:
    """What two datasets have in common, the kind of each dimension, and its levels in both."""

    dimensions: tuple[Dimension, ...]
    kinds: tuple[GroupKind, ...]
    first: _Levels
    second: _Levels

    def candidates(self, differing: Sequence[int]) -> Iterator[Candidate]:
        """What may be changed of the dimensions that differ."""
        for kind in dict.fromkeys(self.kinds[number] for number in differing):
            numbers = [number for number in differing if self.kinds[number] == kind]
            yield from self._end_changes(numbers) if kind in _ENDS else self._unit_changes(kind, numbers)
        joints = [number for number in differing if self.kinds[number] not in _ENDS]
        for name in dict.fromkeys(self.dimensions[number].name for number in joints):
            numbers = [number for number in joints if self.dimensions[number].name == name]
            yield from self._by_signal(numbers, partial(_scale_part, factor=-1.0))
        turned = [number for number in joints if self._fits_turned(number)]
        yield from self._by_signal(turned, partial(_scale_part, factor=-1.0))
        yield from self._half_turns(joints)
        yield from self._exchanges(joints)
        yield from self._quaternion_orders(differing)

    def _by_signal(
        self, numbers: Sequence[int], make: Callable[[tuple[int, ...]], Change]
    ) -> Iterator[Candidate]:
        """A change of some dimensions in both signals, and in each alone."""
        parts = [
            tuple(number for number in numbers if self.dimensions[number].signal == signal)
            for signal in ("state", "action")
        ]
        changes = [make(part) for part in parts if part]
        if len(changes) > 1:
            yield tuple(changes)
        yield from ((change,) for change in changes)

    def _log_ratio(self, numbers: Sequence[int]) -> Array:
        """(N,) logarithm of the range of the first over that of the second; infinite where one does not move."""
        import numpy as np

        spans = [
            np.ptp(part.values[:, list(numbers)], axis=0).clip(1e-12) for part in (self.first, self.second)
        ]
        moves = (spans[0] > 1e-9) & (spans[1] > 1e-9)
        return np.where(moves, np.log(spans[0]) - np.log(spans[1]), np.inf)

    def _unit_changes(self, kind: GroupKind, numbers: Sequence[int]) -> Iterator[Candidate]:
        """Dimensions of a kind whose ranges differ by the factor of known units: in words where it is all that move."""
        ratios = dict(zip(numbers, self._log_ratio(numbers).tolist(), strict=True))
        for factor in _FACTORS:
            near = [number for number in numbers if abs(ratios[number] - log(factor)) < _NEAR]
            members = [number for number, name in enumerate(self.kinds) if name == kind]
            moving = [
                n for n, ratio in zip(members, self._log_ratio(members), strict=True) if abs(ratio) < 1e9
            ]
            words = _UNIT_WORDS.get((kind, factor), "")

            def make(
                part: tuple[int, ...],
                factor: float = factor,
                words: str = words,
                moving: Sequence[int] = moving,
            ) -> Change:
                signal = self.dimensions[part[0]].signal
                is_whole = {*part} >= {n for n in moving if self.dimensions[n].signal == signal}
                return _scale_part(part, factor, words=f"{kind}: {words}" if words and is_whole else "")

            yield from self._by_signal(near, make)

    def _fits_turned(self, number: int) -> bool:
        turned = _scale_part((number,), -1.0).apply(self.second.values)
        before, after = (self.first.distance(part, [number]) for part in (self.second.values, turned))
        return after < _NEARER * before

    def _end_changes(self, numbers: Sequence[int]) -> Iterator[Candidate]:
        """Grippers and fingers in another range, turned round, or both."""
        ratios = self._log_ratio(numbers).tolist()
        for factor in (1.0, *_FACTORS):
            near = [n for n, ratio in zip(numbers, ratios, strict=True) if abs(ratio - log(factor)) < _NEAR]
            yield from self._by_signal(near, partial(_scale_part, factor=factor))
            for signals in (("state", "action"), ("state",), ("action",)):
                if part := [number for number in near if self.dimensions[number].signal in signals]:
                    ends = (self.first.values[:, part], self.second.values[:, part] * factor)
                    offset = sum(float(values.min() + values.max()) for values in ends) / 2
                    turn = partial(_scale_part, factor=-factor, offset=offset)
                    yield next(self._by_signal(part, turn))

    def _half_turns(self, joints: Sequence[int]) -> Iterator[Candidate]:
        """Positions in a frame that is turned by half a turn: two axes, of which perhaps one shows it."""
        positions = [number for number, kind in enumerate(self.kinds) if kind == "position"]
        shown = {self.dimensions[number].name for number in {*joints} & {*positions}}
        for axes in combinations(dict.fromkeys(self.dimensions[number].name for number in positions), 2):
            numbers = [number for number in positions if self.dimensions[number].name in axes]
            yield from self._by_signal(numbers if shown & {*axes} else (), partial(_scale_part, factor=-1.0))

    def _exchanges(self, joints: Sequence[int]) -> Iterator[Candidate]:
        """Two dimensions of a kind that stand in each other's position, in both signals or in one."""
        numbers = {self.dimensions[number]: number for number in joints}
        for first, second in combinations(dict.fromkeys(name for _, name in numbers), 2):
            changes = []
            for signal in ("state", "action"):
                pair = [numbers.get(Dimension(signal, name), -1) for name in (first, second)]
                kinds = {self.kinds[number] for number in pair}
                if min(pair) >= 0 and (len(kinds) == 1 or kinds <= _JOINTS):
                    changes.append(Change((pair[0], pair[1]), (pair[1], pair[0])))
            if len(changes) > 1:
                yield tuple(changes)
            yield from ((change,) for change in changes)

    def _quaternion_orders(self, differing: Sequence[int]) -> Iterator[Candidate]:
        """Four dimensions in a row that moved on by one, two of which differ at least: the order of a quaternion."""
        names = [dimension.name for dimension in self.dimensions]
        rows = [[*range(start, start + 4)] for start in range(len(names) - 3)]
        rows = [row for row in rows if len({self.dimensions[number].signal for number in row}) == 1]
        rows = [row for row in rows if len({*row} & {*differing}) > 1]
        for listed in {tuple(names[number] for number in row): None for row in rows}:
            numbers = [
                number for row in rows if tuple(names[number] for number in row) == listed for number in row
            ]
            for shift in (1, 3):
                yield from self._by_signal(numbers, partial(_move_part, shift=shift))


def _move_part(numbers: tuple[int, ...], shift: int) -> Change:
    return Change(numbers, (*numbers[shift:], *numbers[:shift]))
