"""How well each instruction of a dataset fits each episode, by models that have not seen the episode."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# A class, which is an instruction in all its wordings, with fewer different episodes is not judged.
LEAST_EPISODES = 3
# Labels that are compared with each other, those with the most episodes.
_MOST_LABELS = 2_000
# Rows that a model is fitted to, of each label and of all; and rows that are compared at once.
_ROWS_PER_LABEL, _ROWS_PER_MODEL, _ROWS_PER_BATCH = 200, 20_000, 4_096
# Least share of the spherical covariance in that of the differences to the centres.
_LEAST_SHRINKAGE = 0.3
# Share of the rows of a label, and then of all, that the covariance is taken of: the nearest to their centre. What is
# said wrongly lies far away, and would hide the very direction in which it does.
_NEAREST_OF_LABEL, _NEAREST, _TRIMMINGS = 0.7, 0.8, 4
# In each round labels whose centres lie nearer, in units of what chance alone gives, are wordings of one instruction.
# The first round is generous, because wrong instructions still blur the centres; the others do without these.
_SAME_TASK = (8.0, 5.0, 5.0)
# How often the classes and the covariance, each of which follows from the other, are found in a round.
_JOININGS = 2
# What is further from its class than usual, and so many times nearer to another, teaches nothing and may be named.
_CLEAR_RATIO = 2.0
# An episode is usual of a class when it is as near to it as this share of the episodes that it fits best.
_USUAL_QUANTILE, _LEAST_USUAL = 0.9, 5
# What differences of squared distances are divided by before they are log odds; the best for what is stored is taken.
_TEMPERATURES = tuple(2.0**power for power in range(-2, 13))
# Parts of the recordings, of which each is compared with what the others teach.
_RECORDING_PARTS = 100
# Nearest episodes of the stated and the other class that are looked at.
_NEIGHBOURS = 8
# What an episode is named from that another instruction fits clearly better, chosen on the part "development" of
# benchmarks/instruction_audit.py: it is about as near to that one as the episodes of it, and few of the nearest
# episodes have the instruction that it has.
_MOST_DISTANCE, _MOST_OWN_NEIGHBOURS = 1.5, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """The episodes of a dataset as numbers.

    Attributes:
        features: (N, F) float16.
        labels: (N,) number of the text of each episode, from 0.
        groups: (N,) number of the recording; duplicates have the same.
        is_counted: (N,) whether the episode is learnt from and counted: no duplicate, and no text that a person
            refused.
        is_failure: (N,) whether the episode is known to have failed: it may lie further from what is usual.
    """

    features: NDArray[np.float16]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    is_counted: NDArray[np.bool_]
    is_failure: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> LabelledRows:
        """Some of the rows."""
        return LabelledRows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionFits:
    """How well K classes of instructions fit N episodes, each by a model that saw neither it nor its duplicates.

    Attributes:
        classes: (L,) by label the number of its class: wordings of one task have the same, and so have instructions
            that cannot be distinguished; -1 has what has too few episodes.
        stated: (N,) squared distance to its class, 1 for the furthest that is usual; NaN where it has no model.
        best: (N,) the other class that fits best, or -1.
        other: (N,) squared distance to that one in the same unit.
        share: (N,) probability of that class against the stated one, 0 to 1; NaN where that has no model.
        neighbours: (N,) share of the stated class among the nearest episodes of both; NaN where the other is not clear.
        sizes: (K,) number of counted episodes of each class.
    """

    classes: NDArray[np.int64]
    stated: NDArray[np.float64]
    best: NDArray[np.int64]
    other: NDArray[np.float64]
    share: NDArray[np.float64]
    neighbours: NDArray[np.float64]
    sizes: NDArray[np.int64]

    def is_named(self) -> NDArray[np.bool_]:
        """(N,) whether another class fits clearly better; where it does not, there are no neighbours."""
        named: NDArray[np.bool_] = (self.neighbours <= _MOST_OWN_NEIGHBOURS) & (self.other <= _MOST_DISTANCE)
        return named


def fit_instructions(rows: LabelledRows) -> InstructionFits:
    """Find which texts are wordings of one instruction, and compare every episode with every instruction.

    Each round joins texts whose episodes look and move alike, and does not learn from what the round before it found
    to be another instruction's: it would blur the centre of the stated one.
    """
    import numpy as np

    sample = rows.take(_draw_rows(rows))
    is_used = sample.is_counted
    for limit in _SAME_TASK:
        model, classes = _fit_classes(sample, is_used, limit)
        stated, _, other = _compare_rows(model, sample, classes)
        _, is_clear = _find_usual(stated, other, sample)
        is_used = sample.is_counted & ~is_clear
    stated, best, other = _compare_rows(model, rows, classes)
    usual, is_clear = _find_usual(stated, other, rows)
    stated_class = classes[rows.labels]
    return InstructionFits(
        classes=classes,
        stated=stated / usual,
        best=best,
        other=other / usual,
        share=_compute_shares(stated - other, rows.is_counted),
        neighbours=_compare_neighbours(model, rows, sample, classes, np.where(is_clear, best, -1)),
        sizes=np.bincount(stated_class[rows.is_counted & (stated_class >= 0)], minlength=model.num_classes),
    )


def _draw_rows(rows: LabelledRows) -> NDArray[np.int64]:
    """Rows to learn from: of the labels with the most episodes, at most so many of each, and of all."""
    import numpy as np

    sizes = np.bincount(rows.labels[rows.is_counted], minlength=int(rows.labels.max(initial=-1)) + 1)
    is_compared = np.zeros(len(sizes), np.bool_)
    is_compared[np.argsort(-sizes, kind="stable")[:_MOST_LABELS]] = True
    drawn = np.random.default_rng(0).permutation(np.flatnonzero(rows.is_counted & is_compared[rows.labels]))
    drawn = drawn[np.argsort(rows.labels[drawn], kind="stable")]
    starts = np.searchsorted(rows.labels[drawn], rows.labels[drawn])
    most = min(_ROWS_PER_LABEL, max(LEAST_EPISODES, _ROWS_PER_MODEL // max(int(is_compared.sum()), 1)))
    kept: NDArray[np.int64] = np.sort(drawn[np.arange(len(drawn)) - starts < most])
    return kept


def _fit_classes(
    rows: LabelledRows, is_used: NDArray[np.bool_], limit: float
) -> tuple[_DistanceModel, NDArray[np.int64]]:
    """A model, and the class (L,) of each label: those that lie nearer than a limit are joined."""
    import numpy as np

    features = rows.features.astype(np.float64)
    classes = np.arange(int(rows.labels.max(initial=-1)) + 1)
    for _ in range(_JOININGS):
        whitening, spread = _find_whitening(features, classes[rows.labels], is_used)
        classes = _join_alike((features @ whitening)[is_used], rows.labels[is_used], classes, limit * spread)
    whitening, spread = _find_whitening(features, classes[rows.labels], is_used)
    sizes = np.bincount(classes[rows.labels[is_used]], minlength=len(classes))
    kept = np.flatnonzero(sizes >= LEAST_EPISODES)
    numbers = np.full(len(classes), -1)
    numbers[kept] = np.arange(len(kept))
    classes = numbers[classes]
    stated_class = classes[rows.labels]
    is_learnt = is_used & (stated_class >= 0)
    model = _DistanceModel(
        whitening=whitening,
        spread=spread,
        points=features[is_learnt] @ whitening,
        owners=stated_class[is_learnt],
        groups=rows.groups[is_learnt],
        num_classes=len(kept),
    )
    return model, classes


def _find_whitening(
    features: NDArray[np.float64], classes: NDArray[np.int64], is_used: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    """(F, F) by which rows (N, F) of classes (N,) are multiplied, and the median squared distance to a centre then.

    Only differences to the stated centre count, and of these the smallest.
    """
    import numpy as np

    rows, owners = features[is_used], classes[is_used]
    count = int(owners.max(initial=-1)) + 1
    centres, _ = _find_centres(rows, owners, count)
    is_near = _find_nearest(((rows - centres[owners]) ** 2).sum(axis=1), owners)
    whitening, median = np.eye(features.shape[1]), 0.0
    for _ in range(_TRIMMINGS):
        centres, sizes = _find_centres(rows[is_near], owners[is_near], count)
        has_centre, class_sizes = sizes[owners] > 1, sizes[owners]
        kept = is_near & has_centre
        if not kept.any():
            break
        differences = rows - centres[owners]
        covariance = differences[kept].T @ differences[kept] / max(kept.sum() - (sizes > 1).sum(), 1)
        freedom = int(kept.sum() - (sizes > 1).sum())
        values, vectors = np.linalg.eigh(_shrink_covariance(covariance, freedom))
        whitening = vectors / np.sqrt(values)
        # A row is nearer to the centre that it is part of than another is.
        squares = ((differences @ whitening) ** 2).sum(axis=1)
        squares *= np.where(
            kept, class_sizes / np.maximum(class_sizes - 1, 1), class_sizes / (class_sizes + 1)
        )
        median = float(np.median(squares[has_centre]))
        is_near = has_centre & (squares <= np.quantile(squares[has_centre], _NEAREST))
    return whitening, median


def _shrink_covariance(covariance: NDArray[np.float64], freedom: int) -> NDArray[np.float64]:
    """A covariance (F, F) of so many degrees of freedom, drawn to a sphere: the more, the fewer they are."""
    import numpy as np

    size = len(covariance)
    share = max(_LEAST_SHRINKAGE, size / (size + max(freedom, 1)))
    return (1 - share) * covariance + share * (np.trace(covariance) / size or 1.0) * np.eye(size)


def _find_nearest(squares: NDArray[np.float64], owners: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(N,) whether a row is among the nearest of its class, by (N,) squared distances."""
    import numpy as np

    order = np.lexsort((squares, owners))
    rank = np.empty(len(owners), np.int64)
    rank[order] = np.arange(len(owners)) - np.searchsorted(owners[order], owners[order])
    nearest: NDArray[np.bool_] = rank < np.ceil(_NEAREST_OF_LABEL * np.bincount(owners)[owners])
    return nearest


def _find_centres(
    rows: NDArray[np.float64], owners: NDArray[np.int64], count: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _DistanceModel:
    """Rows that squared distances to the means of K classes are learnt from, with one covariance of all classes.

    Attributes:
        whitening: (F, F) by which features are multiplied.
        spread: Squared distance of a usual row to the mean of its class then.
        points: (M, F) the rows, multiplied.
        owners: (M,) their classes.
        groups: (M,) their recordings.
        num_classes: K.
    """

    whitening: NDArray[np.float64]
    spread: float
    points: NDArray[np.float64]
    owners: NDArray[np.int64]
    groups: NDArray[np.int64]
    num_classes: int

    def sum_rows(self, is_learnt: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(K, F) sums of some of the rows (M,), and (K,) how many they are."""
        import numpy as np

        sums = np.zeros((self.num_classes, self.points.shape[1]))
        np.add.at(sums, self.owners[is_learnt], self.points[is_learnt])
        return sums, np.bincount(self.owners[is_learnt], minlength=self.num_classes)


def _compare_rows(
    model: _DistanceModel, rows: LabelledRows, classes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """(N,) squared distances to the stated class, NaN without, which other class is the nearest, and those to it.

    The recordings are in parts: each part is compared with the means of all other parts.
    """
    import numpy as np

    stated_class, total = classes[rows.labels], len(rows.labels)
    stated, other, best = np.full(total, np.nan), np.full(total, np.nan), np.full(total, -1)
    if model.num_classes < 2:
        return stated, best, other
    sums, counts = model.sum_rows(np.ones(len(model.owners), np.bool_))
    for part in range(_RECORDING_PARTS):
        left_sums, left_counts = model.sum_rows(model.groups % _RECORDING_PARTS == part)
        known = counts - left_counts
        means = (sums - left_sums) / np.maximum(known, 1)[:, None]
        members = np.flatnonzero(rows.groups % _RECORDING_PARTS == part)
        for start in range(0, len(members), _ROWS_PER_BATCH):
            batch = members[start : start + _ROWS_PER_BATCH]
            squares = _predict_distances(rows.features[batch] @ model.whitening, means, known, model.spread)
            every, owners = np.arange(len(batch)), stated_class[batch]
            to_stated = squares[every, owners]
            stated[batch] = np.where((owners >= 0) & np.isfinite(to_stated), to_stated, np.nan)
            squares[every[owners >= 0], owners[owners >= 0]] = np.inf
            best[batch], other[batch] = squares.argmin(axis=1), squares.min(axis=1)
    return stated, best, other


def _predict_distances(
    points: NDArray[np.float64], means: NDArray[np.float64], counts: NDArray[np.int64], spread: float
) -> NDArray[np.float64]:
    """(N, K) squared distances to means (K, F) as means of so few rows (K,) predict them; infinite for one of none."""
    import numpy as np

    squares = (points**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * points @ means.T
    known = np.maximum(counts, 1)
    predicted = squares.clip(min=0.0) * (known / (known + 1)) + spread * np.log1p(1 / known)
    return np.where(counts > 0, predicted, np.inf)


def _find_usual(
    stated: NDArray[np.float64], other: NDArray[np.float64], rows: LabelledRows
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(N,) usual squared distances to the stated class, of failures and others; (N,) whether another fits clearly."""
    import numpy as np

    is_right, usual = rows.is_counted & (stated <= other), np.full(len(stated), np.nan)
    for is_kind in (rows.is_failure, ~rows.is_failure):
        counted = is_right & is_kind
        if counted.sum() < _LEAST_USUAL:
            counted = is_right
        if counted.any():
            usual[is_kind] = np.quantile(stated[counted], _USUAL_QUANTILE)
    return usual, (stated > _CLEAR_RATIO * other) & (stated > usual)


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
    model: _DistanceModel,
    rows: LabelledRows,
    sample: LabelledRows,
    classes: NDArray[np.int64],
    best: NDArray[np.int64],
) -> NDArray[np.float64]:
    """(N,) share of the stated class among the nearest of both classes; NaN where `best` (N,) is -1.

    An instruction that is given in two scenes has no centre that fits. Its episodes have neighbours of their class.
    """
    import numpy as np

    shares = np.full(len(best), np.nan)
    stated_class, known = classes[rows.labels], classes[sample.labels]
    points, members = sample.features.astype(np.float64) @ model.whitening, np.argsort(known, kind="stable")
    starts = np.searchsorted(known[members], np.arange(model.num_classes + 1))
    for row in np.flatnonzero(best >= 0).tolist():
        pair = (int(stated_class[row]), int(best[row]))
        both = np.concatenate([members[starts[number] : starts[number + 1]] for number in pair])
        apart = both[sample.groups[both] != rows.groups[row]]
        squares = ((points[apart] - rows.features[row].astype(np.float64) @ model.whitening) ** 2).sum(axis=1)
        count = min(_NEIGHBOURS, int((known[apart] == pair[1]).sum()))
        shares[row] = (known[apart][np.argsort(squares, kind="stable")[:count]] == pair[0]).mean()
    return shares
