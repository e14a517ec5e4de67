"""Whether two datasets of one robot agree: each dimension by quantiles, and how dimensions move together.

Each episode becomes a row of numbers: quantiles, ranges and speeds of its dimensions, correlations of all of them, and
how the state follows the action. Episodes of one dataset are exchangeable, so that the largest difference of two
halves is what it is when episodes are dealt out at random. Datasets disagree where theirs is larger than nearly all
of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ares.contract.evidence import pair_dimensions
from ares.signals import EpisodeSignals, with_continuous_rotations

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Episodes of a dataset beyond so many add nothing; with fewer on a side nothing shows.
COMPARED_EPISODES, LEAST_EPISODES = 32, 4
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_LAGS = 6
# How often episodes are dealt out, and the share of these whose largest difference is smaller, for each aspect.
_DEALS, _RARE = 400, 0.985
# What episodes of one dataset differ by anyway: shares of a range, logarithms of a ratio, and Fisher's z. It counts as
# so many episodes; of this share of it nothing is a difference.
_USUAL_VALUE, _USUAL_RATIO, _USUAL_RELATION = 0.15, 0.3, 0.3
_PRIOR_EPISODES, _SAME_SHARE = 2.0, 0.15
_MOST_CORRELATION = 0.97
_LEAST_RANGE = 1e-3
# Of few episodes: ranges so many times as wide, or so far apart in widths, are another unit or another zero.
_TIMES_WIDER, _FAR_APART = 5.0, 0.5


class Dimension(NamedTuple):
    """A dimension that two datasets have: "state" or "action", and its name."""

    signal: str
    name: str


# Names of the dimensions of state and action.
Names = tuple[tuple[str, ...], tuple[str, ...]]


def common_dimensions(first: Names, second: Names, parts: bool) -> tuple[Dimension, ...]:
    """What both have by name, in the order of the first; a name that is there twice is left out.

    Args:
        first: Names of one dataset.
        second: Names of the other.
        parts: Whether a signal is compared of which they share only some dimensions.
    """
    return tuple(
        Dimension(signal, name)
        for signal, names, others in zip(("state", "action"), first, second, strict=True)
        if parts or {*names} == {*others}
        for name in names
        if names.count(name) == others.count(name) == 1
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What two datasets do not agree in.

    Attributes:
        numbers: Numbers of the dimensions, among those that were compared.
        aspects: In what: "values", "ranges", "relations" or "lag"; () where it is no more than chance.
        is_sure: Whether there were enough episodes to say that they agree in the others.
    """

    numbers: frozenset[int] = frozenset()
    aspects: tuple[str, ...] = ()
    is_sure: bool = True


def find_disagreement(
    first: Sequence[EpisodeSignals],
    second: Sequence[EpisodeSignals],
    dimensions: Sequence[Dimension],
    is_early_stop: bool = False,
) -> Disagreement:
    """What two datasets, each of at least one episode of finite values, do not agree in.

    With less than `LEAST_EPISODES` on a side only ranges that hardly meet are told.

    Args:
        first: Episodes of one.
        second: Episodes of the other.
        dimensions: What is compared.
        is_early_stop: Whether aspects after the first that differs are left out.
    """
    import numpy as np

    episodes, count = (*first, *second), len(first)
    tables = [columns_of(with_continuous_rotations(episode), dimensions) for episode in episodes]
    if min(count, len(second)) < LEAST_EPISODES:
        return _compare_ranges(tables[:count], tables[count:], dimensions)
    spans = np.array([np.ptp(np.quantile(table, (0.02, 0.98), axis=0), axis=0) for table in tables])
    size = np.maximum(np.median(spans[:count], axis=0), np.median(spans[count:], axis=0))
    rates = [episode.rate_hz for episode in episodes]
    deals = _draw_deals(count, len(second))
    pairs = _pair_signals((first[0].state_names, first[0].action_names), dimensions, tables)
    numbers, aspects = set[int](), list[str]()
    for name, rows, usual, owners in _episode_features(tables, size, rates, pairs):
        differs = _differing_features(np.array(rows), usual, deals)
        if name != "lag" or not numbers:  # it is of all dimensions together
            numbers.update(number for feature in np.flatnonzero(differs) for number in owners[feature])
        aspects += [name] if differs.any() else []
        if aspects and is_early_stop:
            break
    return Disagreement(frozenset(numbers), tuple(aspects))


def _compare_ranges(
    tables: Sequence[Array], others: Sequence[Array], dimensions: Sequence[Dimension]
) -> Disagreement:
    """Dimensions whose ranges lie apart, or one of which is many times the other; shown where most of a signal do."""
    import numpy as np

    ends = [np.quantile(np.concatenate(list(part)), (0.05, 0.95), axis=0) for part in (tables, others)]
    widths = np.array([np.ptp(part, axis=0) for part in ends])
    gaps = np.maximum(ends[0][0], ends[1][0]) - np.minimum(ends[0][1], ends[1][1])
    moves = widths.min(axis=0) > _LEAST_RANGE * widths.max(axis=0)
    is_wider = moves & (widths.max(axis=0) > _TIMES_WIDER * widths.min(axis=0))
    differs = is_wider | (moves & (gaps > _FAR_APART * widths.max(axis=0)))
    signals = np.array([dimension.signal for dimension in dimensions])
    is_shown = any(
        moves[signals == signal].any()
        and 2 * differs[signals == signal].sum() >= moves[signals == signal].sum()
        for signal in ("state", "action")
    )
    apart = frozenset(np.flatnonzero(differs).tolist())
    return Disagreement(apart, ("values",) if is_shown else (), is_sure=False)


def columns_of(episode: EpisodeSignals, dimensions: Sequence[Dimension]) -> Array:
    """(T, D) values of the dimensions, T at least 3."""
    import numpy as np

    columns = [
        episode.state[:, episode.state_names.index(name)]
        if signal == "state"
        else episode.action[:, episode.action_names.index(name)]
        for signal, name in dimensions
    ]
    table = np.stack(columns, axis=1)
    return table if len(table) > 2 else np.repeat(table, 3, axis=0)


def _pair_signals(
    names: Names, dimensions: Sequence[Dimension], tables: Sequence[Array]
) -> list[tuple[int, int]]:
    """Numbers of the dimensions (state, action) that belong together: by name, else what moves most alike."""
    import numpy as np

    numbers = {(part.signal, part.name): number for number, part in enumerate(dimensions)}
    named = {
        numbers["action", names[1][action]]: numbers.get(("state", names[0][state]))
        for state, action in pair_dimensions(*names)
        if ("action", names[1][action]) in numbers
    }
    states = [number for number, dimension in enumerate(dimensions) if dimension.signal == "state"]
    pairs = []
    likeness = np.abs(np.mean([_correlate_dimensions(table) for table in tables], axis=0))
    for number, dimension in enumerate(dimensions):
        if dimension.signal == "action" and states:
            best = states[int(likeness[number, states].argmax())]
            pairs.append((best if (state := named.get(number)) is None else state, number))
    return pairs


_Features = tuple[str, "list[Array]", "Array | float", tuple[tuple[int, ...], ...]]


def _episode_features(
    tables: Sequence[Array], size: Array, rates: Sequence[float], pairs: Sequence[tuple[int, int]]
) -> Iterator[_Features]:
    """For each aspect its name, a row of features of each episode, what they differ by anyway, and their dimensions."""
    import numpy as np

    width = len(size)
    owners = tuple((number,) for number in range(width))
    values = [
        np.vstack([np.quantile(table, _QUANTILES, axis=0), table[:1], table[-1:]]).ravel() for table in tables
    ]
    rows = len(_QUANTILES) + 2
    yield "values", values, np.tile(np.maximum(_USUAL_VALUE * size, 1e-8), rows), owners * rows
    least = np.maximum(_LEAST_RANGE * size, 1e-9)
    ranges = [
        np.log(
            np.vstack(
                [
                    np.maximum(np.ptp(np.quantile(table, (0.02, 0.98), axis=0), axis=0), least),
                    np.maximum(np.quantile(np.abs(np.diff(table, axis=0)), 0.9, axis=0) * rate, least * rate),
                ]
            )
        ).ravel()
        for table, rate in zip(tables, rates, strict=True)
    ]
    yield "ranges", ranges, _USUAL_RATIO, owners * 2
    upper = np.triu_indices(width, 1)
    numbers = tuple(zip(*(part.tolist() for part in upper), strict=True))
    relations = [
        np.concatenate(
            [_correlate_dimensions(table)[upper], _correlate_dimensions(np.diff(table, axis=0))[upper]]
        )
        for table in tables
    ]
    yield "relations", relations, _USUAL_RELATION, numbers * 2
    if pairs:
        lags = [_measure_following(table, size, pairs) for table in tables]
        of_pairs = tuple({number for pair in pairs for number in pair})
        yield "lag", lags, _USUAL_RELATION, (of_pairs,) * len(lags[0])


def _correlate_dimensions(table: Array) -> Array:
    """(D, D) correlations as Fisher's z; 0 for what does not move."""
    import numpy as np

    centred = table - table.mean(axis=0)
    deviation = centred.std(axis=0)
    scaled = centred / np.where(deviation > 1e-12, deviation, np.inf)
    products = scaled.T @ scaled / len(table)
    return np.asarray(np.arctanh(np.clip(products, -_MOST_CORRELATION, _MOST_CORRELATION)))


def _measure_following(table: Array, size: Array, pairs: Sequence[tuple[int, int]]) -> Array:
    """(2 L,) correlation of the changes of the state with those of the action, and with the action, by lag."""
    import numpy as np

    states, actions = (list(part) for part in zip(*pairs, strict=True))
    scale = np.where(size > 0, size, np.inf)
    moves = np.diff(table[:, states], axis=0) / scale[states]
    parts = []
    for command in (np.diff(table[:, actions], axis=0), table[:-1, actions] - table[:, actions].mean(axis=0)):
        command = command / scale[actions]
        power = np.sqrt((moves**2).sum() * (command**2).sum())
        for lag in range(-_LAGS, _LAGS + 1):
            late, early = (
                (moves[lag:], command[: len(command) - lag]) if lag >= 0 else (moves[:lag], command[-lag:])
            )
            parts.append(float((late * early).sum()) / power if power > 0 and len(late) else 0.0)
    return np.asarray(np.arctanh(np.clip(parts, -_MOST_CORRELATION, _MOST_CORRELATION)))


def _draw_deals(count: int, other: int) -> Array:
    """(N, M) 1 for the episodes that are dealt to the first side: as it is in the first row, else another way."""
    import numpy as np

    rng = np.random.default_rng(7)
    deals = np.zeros((_DEALS + 1, count + other))
    deals[0, :count] = 1
    for row in deals[1:]:
        row[rng.permutation(count + other)[:count]] = 1
    kept = deals[:, :count].sum(axis=1)
    is_same = (kept == count) | ((kept == 0) & (count == other))
    return np.concatenate([deals[:1], deals[1:][~is_same[1:]]])


def _differing_features(rows: Array, usual: Array | float, deals: Array) -> NDArray[np.bool_]:
    """(F,) whether a feature of (N, F) differs by more than the largest difference of nearly all deals."""
    import numpy as np

    counts = deals.sum(axis=1, keepdims=True)
    others = rows.shape[0] - counts
    rows = rows - rows.mean(axis=0)
    sums = deals @ rows
    means, other_means = sums / counts, -sums / others
    within = (rows**2).sum(axis=0) - counts * means**2 - others * other_means**2
    power = np.asarray(usual) ** 2
    variance = (np.maximum(within, 0) + _PRIOR_EPISODES * power) / (len(rows) - 2 + _PRIOR_EPISODES)
    variance = variance + _SAME_SHARE**2 * power
    apart = (means - other_means) ** 2 / (variance * (1 / counts + 1 / others))
    return np.asarray(apart[0] > np.quantile(apart[1:].max(axis=1, initial=0.0), _RARE))
