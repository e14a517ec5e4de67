"""How well each instruction of a dataset fits each episode, by models that have not seen the episode."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A class, which is an instruction in all its wordings, with fewer different episodes is not judged.
LEAST_EPISODES = 3
# Labels that are compared with each other, those with the most episodes.
_MOST_LABELS = 2_000
# Rows that a model is fitted to, and rows that are compared at once.
_ROWS_PER_MODEL, _ROWS_PER_BATCH = 20_000, 4_096
# Least share of the spherical covariance in that of the differences to the centres.
_LEAST_SHRINKAGE = 0.3
# Share of all rows that the covariance is taken of: the nearest to their centre. What is said wrongly lies far away,
# and would hide the very direction in which it does.
_NEAREST, _TRIMMINGS = 0.8, 4
# Labels whose centres lie nearer, in units of what chance alone gives, are wordings of one instruction.
_SAME_TASK = 4.0
# Rounds before the last: each finds what the next does not learn from. Where one in five instructions is wrong,
# none finds 9 of 20 planted exchanges, one 12 or 13, two 12 to 15.
_ROUNDS = 2
# How many times nearer another class is than the stated one, in squared distances, where an episode may be named: the
# first at which exchanges on purpose are named and others are not. Of few episodes all classes lie far away.
CLEAR_RATIOS = (2.0, 1.5, 1.25)
# What differences of squared distances are divided by before they are log odds; the best for what is stored is taken.
_TEMPERATURES = tuple(2.0**power for power in range(-2, 13))
# Parts of the recordings, of which each is compared with what the others teach.
_RECORDING_PARTS = 100
# Nearest episodes of the stated and the other class that are looked at.
_NEIGHBOURS = 8
# An episode is named where at most this share of the nearest episodes has the instruction that it has.
_MOST_OWN_NEIGHBOURS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """The episodes of a dataset as numbers.

    Attributes:
        features: (N, F) float16.
        labels: (N,) number of the text of each episode, from 0.
        groups: (N,) number of the recording; duplicates have the same.
        is_counted: (N,) whether the episode is learnt from and counted: no duplicate, and no text that a person
            refused.
    """

    features: NDArray[np.float16]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    is_counted: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> LabelledRows:
        """Some of the rows."""
        return LabelledRows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionFits:
    """How well K classes of instructions fit N episodes, each by a model that saw neither it nor its duplicates.

    Attributes:
        classes: (L,) by label the number of its class: wordings of one task have the same, and so have instructions
            that cannot be distinguished; -1 has what has too few episodes.
        best: (N,) the other class that fits best, or -1.
        share: (N,) probability of that class against the stated one, 0 to 1; NaN where that has no model.
        is_named: (N,) whether that class fits clearly better, and few of the nearest episodes have the stated one.
        count: K.
        clear_ratio: How many times nearer a class is that fits clearly better.
    """

    classes: NDArray[np.int64]
    best: NDArray[np.int64]
    share: NDArray[np.float64]
    is_named: NDArray[np.bool_]
    count: int
    clear_ratio: float


def fit_instructions(rows: LabelledRows, clear_ratio: float) -> InstructionFits:
    """Find which texts are wordings of one instruction, and compare every episode with every instruction.

    Each round does not learn from what the round before it found to be another instruction's: it would blur the centre
    of the stated one.
    """
    import numpy as np

    sample = rows.take(_draw_rows(rows))
    for _ in range(_ROUNDS):
        classes, whitening, spread = _fit_classes(sample, len(np.bincount(rows.labels)))
        stated, _, other = _compare_rows(sample, sample, classes, whitening, spread)
        sample = sample.take(np.flatnonzero(~(stated > clear_ratio * other)))
    classes, whitening, spread = _fit_classes(sample, len(np.bincount(rows.labels)))
    stated, best, other = _compare_rows(rows, sample, classes, whitening, spread)
    is_clear = stated > clear_ratio * other
    neighbours = _compare_neighbours(rows, sample, classes, whitening, np.where(is_clear, best, -1))
    return InstructionFits(
        classes=classes,
        best=best,
        share=_compute_shares(stated - other, rows.is_counted),
        is_named=is_clear & (neighbours <= _MOST_OWN_NEIGHBOURS),
        count=int(classes.max(initial=-1)) + 1,
        clear_ratio=clear_ratio,
    )


def _fit_classes(sample: LabelledRows, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """The class (L,) of each label: those that lie near each other are joined; and what `_find_whitening` says."""
    import numpy as np

    whitening, spread = _find_whitening(sample.features, sample.labels)
    classes = _join_alike(sample.features @ whitening, sample.labels, np.arange(count), _SAME_TASK * spread)
    kept = np.bincount(classes[sample.labels], minlength=count) >= LEAST_EPISODES
    return np.where(kept, np.cumsum(kept) - 1, -1)[classes], *_find_whitening(
        sample.features, classes[sample.labels]
    )


def _draw_rows(rows: LabelledRows) -> NDArray[np.int64]:
    """Rows to learn from: of the labels with the most episodes, at most so many of each that all are not too many."""
    import numpy as np

    sizes = np.bincount(rows.labels[rows.is_counted], minlength=int(rows.labels.max(initial=-1)) + 1)
    is_compared = np.zeros(len(sizes), np.bool_)
    is_compared[np.argsort(-sizes, kind="stable")[:_MOST_LABELS]] = True
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(rows.is_counted & is_compared[rows.labels]))
    drawn = drawn[np.argsort(rows.labels[drawn], kind="stable")]
    starts = np.searchsorted(rows.labels[drawn], rows.labels[drawn])
    most = max(LEAST_EPISODES, _ROWS_PER_MODEL // max(int(is_compared.sum()), 1))
    kept: NDArray[np.int64] = np.sort(drawn[np.arange(len(drawn)) - starts < most])
    return kept


def _find_whitening(
    features: NDArray[np.float16], owners: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """(F, F) by which rows (N, F) of classes (N,) are multiplied, and the median squared distance to a centre then.

    Only differences to the stated centre count, and after each trimming of these the smallest.
    """
    import numpy as np

    size, count = features.shape[1], int(owners.max(initial=-1)) + 1
    whitening, median, is_near = np.eye(size), 0.0, np.ones(len(features), np.bool_)
    for _ in range(_TRIMMINGS):
        centres, sizes = _find_centres(features[is_near], owners[is_near], count)
        has_centre, kept = sizes[owners] > 1, is_near & (sizes[owners] > 1)
        if not kept.any():
            break
        differences, freedom = features - centres[owners], max(int(kept.sum() - (sizes > 1).sum()), 1)
        covariance = differences[kept].T @ differences[kept] / freedom
        # The fewer degrees of freedom a covariance has, the more it is drawn to a sphere.
        share = max(_LEAST_SHRINKAGE, size / (size + freedom))
        sphere = (np.trace(covariance) / size or 1.0) * np.eye(size)
        values, vectors = np.linalg.eigh((1 - share) * covariance + share * sphere)
        whitening = vectors / np.sqrt(values)
        squares = ((differences @ whitening) ** 2).sum(axis=1)
        # A row is nearer to the centre that it is part of than another is.
        squares *= sizes[owners] / np.where(kept, np.maximum(sizes[owners] - 1, 1), sizes[owners] + 1)
        median = float(np.median(squares[has_centre]))
        is_near = has_centre & (squares <= np.quantile(squares[has_centre], _NEAREST))
    return whitening, median


def _find_centres(
    rows: NDArray[np.floating[Any]], owners: NDArray[np.int64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(K, F) medians of the rows (N, F) of each class, which one wrong row of three does not move; (K,) sizes."""
    import numpy as np

    centres, sizes = np.zeros((count, rows.shape[1])), np.bincount(owners, minlength=count)
    ordered, stop = rows[np.argsort(owners, kind="stable")], 0
    for number in np.flatnonzero(sizes).tolist():
        start, stop = stop, stop + int(sizes[number])
        centres[number] = np.median(ordered[start:stop], axis=0)
    return centres, sizes


def _join_alike(
    rows: NDArray[np.float64], labels: NDArray[np.int64], classes: NDArray[np.int64], limit: float
) -> NDArray[np.int64]:
    """(L,) classes, of which two that are nearest to each other are joined while they lie nearer than a limit."""
    import numpy as np

    while True:
        centres, sizes = _find_centres(rows, classes[labels], len(classes))
        present = np.flatnonzero(sizes)
        centres, sizes = centres[present], sizes[present]
        squares = (centres**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * centres @ centres.T
        # The difference of two means of one class has a variance of 1 / n + 1 / m.
        apart = squares.clip(min=0.0) * sizes[:, None] * sizes / (sizes[:, None] + sizes)
        np.fill_diagonal(apart, np.inf)
        nearest, every = (
            apart.argmin(axis=1) if len(apart) else np.zeros(0, np.int64),
            np.arange(len(present)),
        )
        is_joined = (nearest[nearest] == every) & (every < nearest) & (apart[every, nearest] < limit)
        if not is_joined.any():
            return classes
        names = np.arange(len(classes))
        names[present[nearest[is_joined]]] = present[is_joined]
        classes = names[classes]


def _compare_rows(
    rows: LabelledRows,
    sample: LabelledRows,
    classes: NDArray[np.int64],
    whitening: NDArray[np.float64],
    spread: float,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """(N,) squared distances to the stated class, NaN without, which other class is the nearest, and those to it.

    The recordings are in parts: each part is compared with the means of the sample without it. `spread` is the
    squared distance of a usual row to the mean of its class.
    """
    import numpy as np

    stated_class, owners, total = classes[rows.labels], classes[sample.labels], len(rows.labels)
    stated, other, best = np.full(total, np.nan), np.full(total, np.nan), np.full(total, -1)
    points, count = sample.features @ whitening, int(classes.max(initial=-1)) + 1
    for part in range(_RECORDING_PARTS if count > 1 else 0):
        is_learnt = (sample.groups % _RECORDING_PARTS != part) & (owners >= 0)
        sums, counts = np.zeros((count, points.shape[1])), np.bincount(owners[is_learnt], minlength=count)
        np.add.at(sums, owners[is_learnt], points[is_learnt])
        known = np.maximum(counts, 1)
        means = sums / known[:, None]
        members = np.flatnonzero(rows.groups % _RECORDING_PARTS == part)
        for batch in np.split(members, range(_ROWS_PER_BATCH, len(members), _ROWS_PER_BATCH)):
            compared = rows.features[batch] @ whitening
            squares = (compared**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * compared @ means.T
            # What the distances to the means of all rows are, as means of so few predict them.
            squares = squares.clip(min=0.0) * (known / (known + 1)) + spread * np.log1p(1 / known)
            squares[:, counts == 0] = np.inf
            has_class = np.flatnonzero(stated_class[batch] >= 0)
            cells = has_class, stated_class[batch][has_class]
            stated[batch[has_class]] = squares[cells]
            squares[cells] = np.inf
            best[batch], other[batch] = squares.argmin(axis=1), squares.min(axis=1)
    return np.where(np.isfinite(stated), stated, np.nan), best, other


def _compute_shares(margins: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(N,) probabilities of the other class from (N,) squared distances to the stated one less those to the other.

    They are calibrated to the instructions as they stand, wrong ones included: where one in ten is wrong, even a large
    margin leaves a doubt.
    """
    import numpy as np

    is_known = np.isfinite(margins)
    known, shares = margins[counted & is_known], np.full(len(margins), np.nan)
    losses = [np.logaddexp(0.0, known / (2 * temperature)).sum() for temperature in _TEMPERATURES]
    temperature = _TEMPERATURES[int(np.argmin(losses))]
    shares[is_known] = np.exp(-np.logaddexp(0.0, -margins[is_known] / (2 * temperature)))
    return shares


def _compare_neighbours(
    rows: LabelledRows,
    sample: LabelledRows,
    classes: NDArray[np.int64],
    whitening: NDArray[np.float64],
    best: NDArray[np.int64],
) -> NDArray[np.float64]:
    """(N,) share of the stated class among the nearest of both classes; NaN where `best` (N,) is -1.

    An instruction that is given in two scenes has no centre that fits. Its episodes have neighbours of their class.
    """
    import numpy as np

    shares = np.full(len(best), np.nan)
    stated_class, known = classes[rows.labels], classes[sample.labels]
    points = sample.features @ whitening
    for row in np.flatnonzero(best >= 0).tolist():
        pair = (int(stated_class[row]), int(best[row]))
        apart = np.flatnonzero(np.isin(known, pair) & (sample.groups != rows.groups[row]))
        squares = ((points[apart] - rows.features[row] @ whitening) ** 2).sum(axis=1)
        count = min(_NEIGHBOURS, int((known[apart] == pair[1]).sum()))
        shares[row] = (known[apart][np.argsort(squares, kind="stable")[:count]] == pair[0]).mean()
    return shares
