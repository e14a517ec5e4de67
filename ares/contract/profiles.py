"""How the dimensions of a signal are distributed: a few robust numbers of each, by which two datasets are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.statistics import DEVIATIONS_PER_MAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Json, Signal

    Array = NDArray[np.float64]

QUANTILES = (0.02, 0.25, 0.5, 0.75, 0.98)
# Rows of a profile: where an episode starts, the quantiles of its values, its speed, its noise, the distance of
# neighbouring values, and how much the starts of episodes differ.
_POSITIONS = 1 + len(QUANTILES)
_SPEED, _NOISE, _RESOLUTION, _START_SPREAD = range(_POSITIONS, _POSITIONS + 4)
NUM_ROWS = _START_SPREAD + 1
_FAST, _STILL, _SMALLEST = 0.95, 0.25, 0.02
# An encoder is told by steps that are whole multiples of the smallest one, in nearly all of so many.
_LEAST_STEPS, _WHOLE_SHARE, _WHOLE, _MOST_MULTIPLES = 20, 0.95, 0.05, 200
_DIGITS = 7


@dataclass(frozen=True, slots=True)
class SignalProfile:
    """How the D dimensions of a signal are distributed in the episodes of a dataset, medians over the episodes.

    Attributes:
        rows: (10, D) start, quantiles at `QUANTILES`, speed per second (the 95 % quantile), noise (the 25 % quantile of
            the second differences), distance of neighbouring values (0 where they are no multiples of one), and the
            spread of the starts over the episodes.
    """

    rows: tuple[tuple[float, ...], ...]

    @property
    def size(self) -> int:
        """Number of the dimensions."""
        return len(self.rows[0])

    def array(self) -> Array:
        """The rows as (10, D)."""
        import numpy as np

        return np.array(self.rows)

    def changed(self, numbers: Sequence[int], factor: float, offset: float) -> SignalProfile:
        """The profile after some dimensions were multiplied by a factor, and an offset was added."""
        import numpy as np

        factors, offsets = np.ones(self.size), np.zeros(self.size)
        factors[list(numbers)], offsets[list(numbers)] = factor, offset
        return profile_from_array(affine(self.array(), factors, offsets))

    def reordered(self, numbers: Sequence[int]) -> SignalProfile:
        """The profile of the dimensions in another order."""
        return SignalProfile(tuple(tuple(row[number] for number in numbers) for row in self.rows))

    def to_json(self) -> Json:
        """The rows as JSON."""
        return [list(row) for row in self.rows]


def profile_from_array(rows: Array) -> SignalProfile:
    """The profile of (10, D) rows, to seven digits."""
    return SignalProfile(
        tuple(tuple(float(f"{value:.{_DIGITS}g}") for value in row) for row in rows.tolist())
    )


def affine(rows: Array, factors: Array, offsets: Array) -> Array:
    """Rows (10, D) of dimensions that were multiplied by factors (D,) and moved by offsets (D,)."""
    import numpy as np

    changed = rows * np.abs(factors)
    positions = rows[:_POSITIONS] * factors + offsets
    turned = np.vstack([positions[:1], positions[:0:-1]])
    changed[:_POSITIONS] = np.where(factors < 0, turned, positions)
    return changed


def episode_profile(values: Array, rate_hz: float) -> Array:
    """(9, D) of one episode of values (T, D), T at least 3: all rows but the spread of the starts."""
    import numpy as np

    steps = np.diff(values, axis=0)
    return np.vstack(
        [
            values[:1],
            np.quantile(values, QUANTILES, axis=0),
            np.quantile(np.abs(steps), _FAST, axis=0)[None] * rate_hz,
            np.quantile(np.abs(np.diff(steps, axis=0)), _STILL, axis=0)[None],
            np.array([[_encoder_resolution(column) for column in steps.T]]).reshape(1, -1),
        ]
    )


def _encoder_resolution(steps: Array) -> float:
    """Distance of neighbouring values of an encoder; 0 where the steps (T,) are no multiples of one."""
    import numpy as np

    sizes = np.abs(steps[steps != 0])
    if len(sizes) < _LEAST_STEPS:
        return 0.0
    multiples = sizes / np.quantile(sizes, _SMALLEST)
    is_whole = np.abs(multiples - np.round(multiples)) < _WHOLE
    if is_whole.mean() < _WHOLE_SHARE or np.median(multiples) > _MOST_MULTIPLES:
        return 0.0
    return float(np.median(sizes[multiples < 1.5]))


def pool_profiles(episodes: Sequence[Array]) -> SignalProfile:
    """The profile of a dataset from the (9, D) of at least one episode; one odd episode hardly changes it."""
    import numpy as np

    rows = np.array(episodes)
    middle = np.median(rows, axis=0)
    spread = DEVIATIONS_PER_MAD * np.median(np.abs(rows[:, 0] - middle[0]), axis=0)
    return profile_from_array(np.vstack([middle, spread[None]]))


def positions(rows: Array) -> Array:
    """(6, D): the start and the quantiles."""
    return rows[:_POSITIONS]


def spans(rows: Array) -> Array:
    """(D,): the range of an episode without its outermost values."""
    import numpy as np

    return np.asarray(rows[_POSITIONS - 1] - rows[1])


def speeds(rows: Array) -> Array:
    """(D,): the speed per second."""
    import numpy as np

    return np.asarray(rows[_SPEED])


def noises(rows: Array) -> Array:
    """(D,): the noise; 0 where an encoder hides it."""
    import numpy as np

    return np.where(rows[_RESOLUTION] > 0, 0.0, rows[_NOISE])


def resolutions(rows: Array) -> Array:
    """(D,): the distance of neighbouring values, 0 where it is unknown."""
    import numpy as np

    return np.asarray(rows[_RESOLUTION])


def start_spreads(rows: Array) -> Array:
    """(D,): how much the starts of episodes differ."""
    import numpy as np

    return np.asarray(rows[_START_SPREAD])


# Values of one signal in two sources are in doubt where one range is so many times the other, or begins so far, by
# ranges, behind its end. A range below this share of the widest one of its signal is noise.
_LISTED = 6
_TIMES_WIDER, _FAR_APART, _NOISE_SHARE = 3.0, 0.25, 0.01


@dataclass(slots=True)
class FeatureProfile:
    """What some episodes of a source say of a signal besides state and action, such as audio or touch.

    Attributes:
        layouts: Number of the episodes by the names of its dimensions.
        episodes_with_gaps: How many of them have values that are not finite.
        ends: (2, D) by the names, lowest and highest finite values but for 2 % on both sides of each episode.
        is_whole: Whether all finite values are whole numbers.
    """

    layouts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    episodes_with_gaps: int = 0
    ends: dict[tuple[str, ...], Array] = field(default_factory=dict)
    is_whole: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """The names that most episodes have."""
        return min(self.layouts, key=lambda names: (-self.layouts[names], names))

    def add(self, signal: Signal) -> None:
        """Count the signal of an episode."""
        import numpy as np

        values = np.where(np.isfinite(signal.values), signal.values, np.nan).astype(np.float64)
        self.layouts[signal.names] += 1
        self.episodes_with_gaps += bool(np.isnan(values).any())
        self.is_whole = self.is_whole and bool((np.isnan(values) | (values == np.rint(values))).all())
        filled = values[:, ~np.isnan(values).all(axis=0)]
        reached = np.full((2, values.shape[1]), np.nan)
        if filled.size:
            reached[:, ~np.isnan(values).all(axis=0)] = np.nanquantile(
                filled, (QUANTILES[0], QUANTILES[-1]), axis=0
            )
        known = self.ends.setdefault(signal.names, reached)
        self.ends[signal.names] = np.stack([np.fmin(known[0], reached[0]), np.fmax(known[1], reached[1])])

    def describe_gaps(self, what: str, sampled: int) -> Iterator[str]:
        """What a merge fills of the signal, or puts in another order, among so many episodes."""
        count = self.layouts.total()
        if count < sampled:
            yield f"{what} is in {count} of {sampled} sampled episodes: zeros are written elsewhere, with a mask"
        if others := count - self.layouts[self.names]:
            yield (
                f"{what} has other dimensions in {count_of(others, 'sampled episode')}: they get the order of "
                f"{', '.join(self.names[:_LISTED])}, and episodes fail where they are not as many"
            )
        if self.episodes_with_gaps:
            yield (
                f"{what} has values that are not finite in {count_of(self.episodes_with_gaps, 'sampled episode')}: "
                "0 is written, and mask.feature is 0 in these steps"
            )


def compare_features(first: FeatureProfile, second: FeatureProfile) -> Iterator[tuple[str, Array, Array]]:
    """The dimensions whose values speak against one unit, zero and sign in two sources, with the ends of both.

    Dimensions of the same names are compared, else those in the same position; a constant within the range of the
    other source is no difference.
    """
    import numpy as np

    names, others = first.names, second.names
    order = [others.index(name) for name in names] if {*names} == {*others} else list(range(len(names)))
    ends = (first.ends[names], second.ends[others][:, order])
    spreads = [np.nan_to_num(part[1] - part[0]) for part in ends]
    floors = [spread.max(initial=0.0) * _NOISE_SHARE for spread in spreads]
    for number, name in enumerate(names):
        (low, high), (other_low, other_high) = (part[:, number] for part in ends)
        widths = [max(spread[number], floor) for spread, floor in zip(spreads, floors, strict=True)]
        gap = max(low, other_low) - min(high, other_high)
        is_constant = not all(spread[number] for spread in spreads)
        is_wider = not is_constant and max(widths) >= _TIMES_WIDER * min(widths)
        if is_wider or gap > _FAR_APART * max(widths):
            yield name, ends[0][:, number], ends[1][:, number]
