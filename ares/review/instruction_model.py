"""How well each instruction of a dataset fits each episode, by models that have not seen the episode."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, cast

from ares.search import SPACES_COLLECTION
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import EpisodeVectors, Stores


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
# What is further from its own class than usual, and so many times nearer to another, teaches nothing and may be named.
_CLEAR_RATIO = 2.0
# An episode is usual of a class when it is as near to it as this share of the episodes that it fits best.
_USUAL_QUANTILE, _LEAST_USUAL = 0.9, 5
# What differences of squared distances are divided by before they are log odds; the best for what is stored is taken.
_TEMPERATURES = tuple(2.0**power for power in range(-2, 13))
# Nearest episodes of the own and the other class that are looked at.
_NEIGHBOURS = 8


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
            that cannot be told apart; -1 has what has too few episodes.
        own: (N,) squared distance to the own class, 1 for the furthest that is usual; NaN where it has no model.
        best: (N,) the other class that fits best, or -1.
        other: (N,) squared distance to that one in the same unit.
        share: (N,) probability of that class against the own one, 0 to 1; NaN where the own has no model.
        neighbours: (N,) share of the own class among the nearest episodes of both; NaN where the other is not clear.
        sizes: (K,) number of counted episodes of each class.
    """

    classes: NDArray[np.int64]
    own: NDArray[np.float64]
    best: NDArray[np.int64]
    other: NDArray[np.float64]
    share: NDArray[np.float64]
    neighbours: NDArray[np.float64]
    sizes: NDArray[np.int64]

    def is_contrary(self) -> NDArray[np.bool_]:
        """(N,) whether another class fits better than the own."""
        contrary: NDArray[np.bool_] = self.own > self.other
        return contrary


def fit_instructions(rows: LabelledRows) -> InstructionFits:
    """Find which texts are wordings of one instruction, and compare every episode with every instruction.

    Each round joins texts whose episodes look and move alike, and does not learn from what the round before it found
    to be another instruction's: it would blur the centre of its own.
    """
    import numpy as np

    sample = rows.take(_draw_rows(rows))
    is_used = sample.is_counted
    for limit in _SAME_TASK:
        model, classes = _fit_classes(sample, is_used, limit)
        own, _, other = _compare_in_batches(model, sample, classes)
        _, is_clear = _find_usual(own, other, sample)
        is_used = sample.is_counted & ~is_clear
    own, best, other = _compare_in_batches(model, rows, classes)
    usual, is_clear = _find_usual(own, other, rows)
    own_class = classes[rows.labels]
    return InstructionFits(
        classes=classes,
        own=own / usual,
        best=best,
        other=other / usual,
        share=_compute_shares(own - other, rows.is_counted),
        neighbours=_compare_neighbours(model, rows, sample, classes, np.where(is_clear, best, -1)),
        sizes=np.bincount(own_class[rows.is_counted & (own_class >= 0)], minlength=len(model.counts)),
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
    own_class = classes[rows.labels]
    is_learnt = is_used & (own_class >= 0)
    learnt, owners = features[is_learnt] @ whitening, own_class[is_learnt]
    model = _DistanceModel(
        whitening=whitening,
        spread=spread,
        counts=np.bincount(owners, minlength=len(kept)),
        sums=_sum_rows(learnt, owners, len(kept)),
        parts=_sum_recordings(learnt, rows.groups[is_learnt], owners, len(kept)),
    )
    return model, classes


def _find_whitening(
    features: NDArray[np.float64], classes: NDArray[np.int64], is_used: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    """(F, F) by which rows (N, F) of classes (N,) are multiplied, and the median squared distance to a centre then.

    Only differences to the own centre count, and of these the smallest.
    """
    import numpy as np

    rows, owners = features[is_used], classes[is_used]
    count = int(owners.max(initial=-1)) + 1
    centres, _ = _find_centres(rows, owners, count)
    is_near = _find_nearest(((rows - centres[owners]) ** 2).sum(axis=1), owners)
    whitening, median = np.eye(features.shape[1]), 0.0
    for _ in range(_TRIMMINGS):
        centres, sizes = _find_centres(rows[is_near], owners[is_near], count)
        has_centre, own = sizes[owners] > 1, sizes[owners]
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
        squares *= np.where(kept, own / np.maximum(own - 1, 1), own / (own + 1))
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
    """Squared distances to the means of K classes with one covariance, without the recording that is compared.

    Attributes:
        whitening: (F, F) by which features are multiplied.
        spread: Squared distance of a usual row to the mean of its class then.
        counts: (K,) rows of each class.
        sums: (K, F) their sums.
        parts: What each recording adds to the sums.
    """

    whitening: NDArray[np.float64]
    spread: float
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    parts: _RecordingSums

    def squared_distances(
        self, features: NDArray[np.float16], groups: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """(N, K) squared distances of N rows of recordings (N,) to the means of all other recordings."""
        import numpy as np

        rows, counts = features.astype(np.float64) @ self.whitening, np.maximum(self.counts, 1)
        means = self.sums / counts[:, None]
        squares = (rows**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * rows @ means.T
        squares = self._predict(squares.clip(min=0.0), self.counts)
        for owners, parts in self.parts.pairs_of(groups):
            classes = self.parts.classes[parts]
            left = self.counts[classes] - self.parts.counts[parts]
            means = (self.sums[classes] - self.parts.sums[parts]) / np.maximum(left, 1)[:, None]
            squares[owners, classes] = self._predict(((rows[owners] - means) ** 2).sum(axis=1), left)
        return squares

    def _predict(self, squares: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Distances as a mean of few rows predicts them; infinite for one of none."""
        import numpy as np

        known = np.maximum(counts, 1)
        predicted = squares * (known / (known + 1)) + self.spread * np.log1p(1 / known)
        return np.where(counts > 0, predicted, np.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordingSums:
    """Rows of P pairs of a recording and a class.

    Attributes:
        groups: (P,) the recordings, ascending.
        classes: (P,) the classes.
        counts: (P,) rows.
        sums: (P, F) their sums.
    """

    groups: NDArray[np.int64]
    classes: NDArray[np.int64]
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]

    def pairs_of(self, groups: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield rows of recordings (N,) with a pair of theirs, until each row had all of its pairs."""
        import numpy as np

        starts, stops = (np.searchsorted(self.groups, groups, side) for side in ("left", "right"))
        for step in range(int((stops - starts).max(initial=0))):
            owners = np.flatnonzero(starts + step < stops)
            yield owners, starts[owners] + step


def _sum_recordings(
    rows: NDArray[np.float64], groups: NDArray[np.int64], classes: NDArray[np.int64], count: int
) -> _RecordingSums:
    import numpy as np

    keys, codes = np.unique(groups * max(count, 1) + classes, return_inverse=True)
    return _RecordingSums(
        groups=keys // max(count, 1),
        classes=keys % max(count, 1),
        counts=np.bincount(codes, minlength=len(keys)),
        sums=_sum_rows(rows, codes, len(keys)),
    )


def _sum_rows(rows: NDArray[np.float64], owners: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    import numpy as np

    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, owners, rows)
    return sums


def _compare_in_batches(
    model: _DistanceModel, rows: LabelledRows, classes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """(N,) squared distances to the own class, NaN without, which other class is the nearest, and those to it."""
    import numpy as np

    own_class, total = classes[rows.labels], len(rows.labels)
    own, other, best = np.full(total, np.nan), np.full(total, np.nan), np.full(total, -1)
    for start in range(0, total if len(model.counts) > 1 else 0, _ROWS_PER_BATCH):
        part = slice(start, start + _ROWS_PER_BATCH)
        squares = model.squared_distances(rows.features[part], rows.groups[part])
        every, owners = np.arange(len(squares)), own_class[part]
        known = squares[every, owners]
        own[part] = np.where((owners >= 0) & np.isfinite(known), known, np.nan)
        squares[every[owners >= 0], owners[owners >= 0]] = np.inf
        best[part] = squares.argmin(axis=1)
        other[part] = squares.min(axis=1)
    return own, best, other


def _find_usual(
    own: NDArray[np.float64], other: NDArray[np.float64], rows: LabelledRows
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(N,) usual squared distances to the own class, of failures and others; (N,) whether another fits clearly."""
    import numpy as np

    is_right, usual = rows.is_counted & (own <= other), np.full(len(own), np.nan)
    for is_kind in (rows.is_failure, ~rows.is_failure):
        counted = is_right & is_kind
        if counted.sum() < _LEAST_USUAL:
            counted = is_right
        if counted.any():
            usual[is_kind] = np.quantile(own[counted], _USUAL_QUANTILE)
    return usual, (own > _CLEAR_RATIO * other) & (own > usual)


def _compute_shares(margins: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(N,) probabilities of the other class from (N,) squared distances to the own one less those to the other.

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
    """(N,) share of the own class among the nearest of both classes; NaN where `best` (N,) is -1.

    An instruction that is given in two scenes has no centre that fits either. There it has neighbours of its own.
    """
    import numpy as np

    shares = np.full(len(best), np.nan)
    own_class, known = classes[rows.labels], classes[sample.labels]
    points, members = sample.features.astype(np.float64) @ model.whitening, np.argsort(known, kind="stable")
    starts = np.searchsorted(known[members], np.arange(len(model.counts) + 1))
    for row in np.flatnonzero(best >= 0).tolist():
        pair = (int(own_class[row]), int(best[row]))
        both = np.concatenate([members[starts[number] : starts[number + 1]] for number in pair])
        apart = both[sample.groups[both] != rows.groups[row]]
        squares = ((points[apart] - rows.features[row].astype(np.float64) @ model.whitening) ** 2).sum(axis=1)
        count = min(_NEIGHBOURS, int((known[apart] == pair[1]).sum()))
        shares[row] = (known[apart][np.argsort(squares, kind="stable")[:count]] == pair[0]).mean()
    return shares


# Episodes whose vectors are in memory together, and from which the directions of a dataset are taken.
_EPISODES_PER_READ, _EPISODES_OF_BASIS = 500, 1_000
# Directions that are kept of each kind, parts of an episode that are told apart, and cameras.
_DIRECTIONS, _PARTS, _MOST_CAMERAS = 48, 3, 3
# Annotations of what a judge saw before it knew a text, and the length of their vectors.
_OBSERVATION, _HASHED = "observation", 64


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFeatures:
    """Features of N episodes.

    Attributes:
        values: (N, F) float16, which a model of a million holds; zeros for what an episode lacks.
        is_seen: (N,) whether the episode has frame vectors.
    """

    values: NDArray[np.float16]
    is_seen: NDArray[np.bool_]


def read_features(stores: Stores, ids: Sequence[str], space: str) -> EpisodeFeatures | None:
    """The features of N episodes of one dataset, read some hundred episodes at a time; None without frame vectors.

    Args:
        stores: Stores of the workspace.
        ids: N ids.
        space: Embedding space of the frame vectors.
    """
    import numpy as np

    step = max(1, len(ids) // _EPISODES_OF_BASIS)
    bases = _find_bases(stores, ids[::step][:_EPISODES_OF_BASIS], space)
    if bases is None:
        return None
    parts, seen = [], []
    for chunk in batched(ids, _EPISODES_PER_READ):
        blocks = _read_blocks(stores, chunk, bases.cameras, bases.lengths)
        parts.append(bases.project(blocks).astype(np.float16))
        seen.append(~np.isnan(blocks[0]).all(axis=1))
    return EpisodeFeatures(values=np.concatenate(parts), is_seen=np.concatenate(seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bases:
    """The directions in which the episodes of a dataset differ most, by kind of features.

    Attributes:
        cameras: Cameras whose frames are compared.
        lengths: Length of the vectors by space: first that of the frames, then those of motion.
        means: Of each kind (F,).
        directions: Of each kind (F, D), of which the projections together have a variance of 1.
    """

    cameras: Sequence[str]
    lengths: Mapping[str, int]
    means: Sequence[NDArray[np.float32]]
    directions: Sequence[NDArray[np.float32]]

    def project(self, blocks: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """(N, D) of blocks (N, F) of each kind; what is missing is taken as the mean."""
        import numpy as np

        projected = [
            np.nan_to_num(block - mean) @ directions
            for block, mean, directions in zip(blocks, self.means, self.directions, strict=True)
        ]
        return np.concatenate(projected, axis=1).astype(np.float32)


def _find_bases(stores: Stores, ids: Sequence[str], space: str) -> _Bases | None:
    """The directions that a sample of a dataset has; None where none of it has frame vectors."""
    table, counts, lengths = stores.tables.vectors(space), Counter[str](), dict[str, int]()
    for chunk in batched(ids, _EPISODES_PER_READ):
        for vectors in table.read_episodes(chunk).values():
            counts.update(set(vectors.cameras))
            lengths[space] = vectors.vectors.shape[1]
    if not counts:
        return None
    for name in _motion_spaces(stores):
        for vector in stores.tables.vectors(name).mean_vectors(ids[:_EPISODES_PER_READ]).values():
            lengths[name] = len(vector)
    cameras = [name for name, _ in counts.most_common(_MOST_CAMERAS)]
    samples = [_read_blocks(stores, chunk, cameras, lengths) for chunk in batched(ids, _EPISODES_PER_READ)]
    means, directions = [], []
    for blocks in zip(*samples, strict=True):
        mean, basis = _main_directions(blocks)
        means.append(mean)
        directions.append(basis)
    return _Bases(cameras=cameras, lengths=lengths, means=means, directions=directions)


def _motion_spaces(stores: Stores) -> list[str]:
    """Spaces of vectors that come from signals, which have no encoder."""
    documents = stores.annotations.find_documents(SPACES_COLLECTION)
    own = {name for name, document in documents if not cast("Mapping[str, object]", document).get("encoder")}
    return sorted(own & set(stores.tables.spaces()))


def _main_directions(
    blocks: Sequence[NDArray[np.float32]],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean (F,) of rows, and the directions (F, D) in which they differ most."""
    import numpy as np

    rows = np.concatenate(blocks)
    known = ~np.isnan(rows)
    mean = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.nan_to_num(rows - mean)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    directions, variance = directions[:_DIRECTIONS], (sizes[:_DIRECTIONS] ** 2).sum() / len(rows)
    scaled = directions.T / np.sqrt(variance) if variance > 0 else directions.T
    return mean.astype(np.float32), scaled.astype(np.float32)


def _read_blocks(
    stores: Stores, ids: Sequence[str], cameras: Sequence[str], lengths: Mapping[str, int]
) -> list[NDArray[np.float32]]:
    """Features (N, F) of each kind of N episodes; NaN for what is not stored."""
    import numpy as np

    (space, length), *motion = lengths.items()
    stored = stores.tables.vectors(space).read_episodes(ids)
    frames = np.full((len(ids), len(cameras) * _PARTS * length), np.nan, np.float32)
    for row, episode_id in enumerate(ids):
        if episode_id in stored:
            frames[row] = _summarise_frames(stored[episode_id], cameras)
    blocks = [frames, _read_observations(stores, ids)]
    for name, length in motion:
        own, missing = stores.tables.vectors(name).mean_vectors(ids), np.full(length, np.nan, np.float32)
        blocks.append(np.stack([own.get(episode_id, missing) for episode_id in ids]))
    return blocks


def _summarise_frames(vectors: EpisodeVectors, cameras: Sequence[str]) -> NDArray[np.float32]:
    """Means of the first, middle and last frames of each camera, one after the other; NaN for a camera without."""
    import numpy as np

    size = vectors.vectors.shape[1]
    means = np.full((len(cameras), _PARTS, size), np.nan, np.float32)
    names = np.array(vectors.cameras)
    for number, camera in enumerate(cameras):
        own = vectors.vectors[names == camera]
        for part in range(_PARTS if len(own) else 0):
            start = min(part * len(own) // _PARTS, len(own) - 1)
            stop = max((part + 1) * len(own) // _PARTS, start + 1)
            means[number, part] = own[start:stop].mean(axis=0)
    return means.reshape(-1)


def _read_observations(stores: Stores, ids: Sequence[str]) -> NDArray[np.float32]:
    """(N, 64) hashed words of what a judge saw in each episode before it knew a text; NaN where it saw none."""
    import numpy as np

    words = np.zeros((len(ids), _HASHED), np.float32)
    rows = {episode_id: row for row, episode_id in enumerate(ids)}
    for annotation in stores.annotations.find_annotations(ids, [_OBSERVATION]):
        for slot, part in annotation.value.items():
            text = str(part.get("value") or "") if isinstance(part, Mapping) else ""
            for word in text.lower().split():
                words[rows[annotation.episode_id], zlib.crc32(f"{slot} {word}".encode()) % _HASHED] = 1.0
    words[~words.any(axis=1)] = np.nan
    return words
