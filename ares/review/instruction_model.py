"""How well each instruction of a dataset fits each episode, by models that have not seen the episode."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ares.search import SPACES_COLLECTION
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import EpisodeVectors, Stores


# Each model sees all folds but one.
_FOLDS = 5
# An instruction with fewer different episodes has no model.
LEAST_EPISODES = 5
# Instructions that are compared with each other, those with the most episodes.
_MOST_CLASSES = 2_000
# Rows that a model is fitted to, of each instruction and of all; and rows that are compared at once.
_ROWS_PER_CLASS, _ROWS_PER_MODEL, _ROWS_PER_BATCH = 200, 20_000, 4_096
# Share of the spherical covariance in that of the differences to the means.
_SHRINKAGE = 0.3
# What differences of squared distances are divided by before they are log odds; the best for what is stored is taken.
_TEMPERATURES = tuple(2.0**power for power in range(-2, 13))
# What one round would name, the next does not learn from; each round has other folds.
_ROUNDS, _CLEAR_SHARE = 3, 0.75
# Instructions that are confused in a larger share of their episodes count as one.
_MOST_CONFUSED = 0.35
# A text with fewer episodes than a model needs is a wording of what fits such a share of at least so many of them.
_LEAST_WORDING, _WORDING_SHARE = 3, 0.6
# Episodes further from a mean than nearly all of its own belong to nothing that is known.
_USUAL_QUANTILE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """The episodes of a dataset as numbers.

    Attributes:
        features: (N, F) float16.
        labels: (N,) number of the instruction of each episode, from 0.
        groups: (N,) number of the recording; duplicates have the same.
        is_learnt: (N,) whether a model may learn from the episode.
        is_counted: (N,) whether the episode counts in how often instructions are confused: no duplicate, no failure.
    """

    features: NDArray[np.float16]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]
    is_learnt: NDArray[np.bool_]
    is_counted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionFits:
    """How well instructions fit N episodes, each by a model that saw neither the episode nor its duplicates.

    Attributes:
        classes: (L,) by label the number of its class: labels that cannot be told apart have the same, and -1 has what
            has too few episodes.
        best: (N,) label whose class fits best of the others, or -1.
        share: (N,) probability of that class against the own one, 0 to 1; NaN where the own has no model.
        distance: (N,) squared distance of the episode to that class, 1 for the furthest that is usual of own episodes.
        confused: (K, K) number of episodes of one class that are nearer to another.
        sizes: (K,) number of episodes of each class.
    """

    classes: NDArray[np.int64]
    best: NDArray[np.int64]
    share: NDArray[np.float64]
    distance: NDArray[np.float64]
    confused: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def is_contrary(self) -> NDArray[np.bool_]:
        """(N,) whether another class fits better than the own."""
        contrary: NDArray[np.bool_] = self.share > 0.5
        return contrary


def fit_instructions(rows: LabelledRows, seed: int = 0) -> InstructionFits:
    """Compare every episode with every instruction that has a model, and join those that cannot be told apart."""
    import numpy as np

    classes = _modelled_classes(rows)
    fits = _fit_once(rows, classes, seed)
    for _ in range(_MOST_CLASSES):
        joined = _join_confused(fits)
        if np.array_equal(joined, fits.classes):
            joined = _join_rare(rows, fits)
            if np.array_equal(joined, fits.classes):
                break
        fits = _fit_once(rows, joined, seed)
    return _fit_rounds(rows, fits, seed)


def _modelled_classes(rows: LabelledRows) -> NDArray[np.int64]:
    """(L,) a class of its own for each label with enough different episodes, and -1 for the others."""
    import numpy as np

    learnt = np.unique(np.stack([rows.labels[rows.is_learnt], rows.groups[rows.is_learnt]]), axis=1)
    counts = np.bincount(learnt[0], minlength=int(rows.labels.max(initial=-1)) + 1)
    largest = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
    kept = np.sort(largest[counts[largest] >= LEAST_EPISODES])
    classes = np.full(len(counts), -1)
    classes[kept] = np.arange(len(kept))
    return classes


def _fit_rounds(rows: LabelledRows, fits: InstructionFits, seed: int) -> InstructionFits:
    """Fit again without what another instruction fits clearly better: it would spoil both means.

    Of the last two rounds, which have other folds, the more careful counts.
    """
    import numpy as np

    before = fits
    for number in range(1, _ROUNDS):
        cleaned = replace(rows, is_learnt=rows.is_learnt & ~(fits.share > _CLEAR_SHARE))
        before, fits = fits, _fit_once(cleaned, fits.classes, seed + number)
    lesser = np.where(before.best == fits.best, np.minimum(before.share, fits.share), 0.5)
    share = np.where(np.isnan(fits.share) | (fits.share <= 0.5), fits.share, lesser)
    return replace(fits, share=share, distance=np.maximum(before.distance, fits.distance))


def _fit_once(rows: LabelledRows, classes: NDArray[np.int64], seed: int) -> InstructionFits:
    """Compare every episode with every class by a model of the other folds."""
    import numpy as np

    generator = np.random.default_rng(seed)
    own_class = classes[rows.labels]
    names = np.array([np.flatnonzero(classes == number)[0] for number in range(classes.max(initial=-1) + 1)])
    own, other = (np.full(len(own_class), np.nan) for _ in range(2))
    best, confused = np.full(len(own_class), -1), np.zeros((len(names), len(names)), np.int64)
    if len(names) > 1:
        folds = _draw_folds(rows, own_class, generator)
        for fold in range(_FOLDS):
            train = _draw_rows((folds != fold) & rows.is_learnt & (own_class >= 0), own_class, generator)
            model = _fit_model(rows.features[train].astype(np.float64), own_class[train], len(names))
            for judged in _in_batches(np.flatnonzero(folds == fold)):
                compared = _compare_classes(
                    model, rows.features[judged].astype(np.float64), own_class[judged]
                )
                own[judged], best[judged], other[judged], nearer = compared
                counted = (own_class[judged] >= 0) & rows.is_counted[judged]
                np.add.at(confused, own_class[judged][counted], nearer[counted])
    counted = (own_class >= 0) & rows.is_counted
    return InstructionFits(
        classes=classes,
        best=np.where(best >= 0, names[best] if len(names) else -1, -1),
        share=_compute_shares(own - other, counted),
        distance=other
        / (np.nanquantile(own[counted], _USUAL_QUANTILE) if np.isfinite(own[counted]).any() else 1.0),
        confused=confused,
        sizes=np.bincount(own_class[counted], minlength=len(names)),
    )


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


def _draw_folds(
    rows: LabelledRows, own_class: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """(N,) fold of each episode: all of a recording in one, and those of a class spread over all."""
    import numpy as np

    groups, first, codes = np.unique(rows.groups, return_index=True, return_inverse=True)
    shuffled = generator.permutation(len(groups))
    order = shuffled[np.argsort(own_class[first][shuffled], kind="stable")]
    folds = np.empty(len(groups), np.int64)
    folds[order] = np.arange(len(groups)) % _FOLDS
    spread: NDArray[np.int64] = folds[codes.reshape(-1)]
    return spread


def _draw_rows(
    allowed: NDArray[np.bool_], own_class: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Rows to learn from: at most so many of each class, and of all."""
    import numpy as np

    drawn = generator.permutation(np.flatnonzero(allowed))
    drawn = drawn[np.argsort(own_class[drawn], kind="stable")]
    starts = np.searchsorted(own_class[drawn], own_class[drawn])
    rank = np.arange(len(drawn)) - starts
    most = max(LEAST_EPISODES, min(_ROWS_PER_CLASS, _ROWS_PER_MODEL // (own_class.max() + 1)))
    kept: NDArray[np.int64] = drawn[rank < most]
    return kept


def _in_batches(rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(rows), _ROWS_PER_BATCH):
        yield rows[start : start + _ROWS_PER_BATCH]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DiscriminantModel:
    """Linear discriminant analysis with a shrunken covariance, in its predictive form.

    Attributes:
        whitening: (F, F) by which features are multiplied.
        means: (K, F) means of the classes after it.
        scales: (K,) what squared distances to a mean of few episodes are multiplied by.
        offsets: (K,) what is added then; infinite for a class without an episode.
    """

    whitening: NDArray[np.float64]
    means: NDArray[np.float64]
    scales: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def squared_distances(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N, K) squared distances of N episodes to the means."""
        rows = features @ self.whitening
        squares = (rows**2).sum(axis=1)[:, None] + (self.means**2).sum(axis=1) - 2 * rows @ self.means.T
        return squares.clip(min=0.0) * self.scales + self.offsets  # type: ignore[no-any-return]


def _fit_model(features: NDArray[np.float64], labels: NDArray[np.int64], classes: int) -> _DiscriminantModel:
    """Fit a model to (N, F) features of (N,) classes."""
    import numpy as np

    counts = np.bincount(labels, minlength=classes)
    sums = np.zeros((classes, features.shape[1]))
    np.add.at(sums, labels, features)
    means = sums / np.maximum(counts, 1)[:, None]
    differences = features - means[labels]
    covariance = differences.T @ differences / max(len(labels) - (counts > 0).sum(), 1)
    spherical = np.trace(covariance) / len(covariance) or 1.0
    covariance = (1 - _SHRINKAGE) * covariance + _SHRINKAGE * spherical * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    whitening = vectors / np.sqrt(values)
    # What a row has to the mean that it is part of is less than what another has to it.
    squares = ((differences @ whitening) ** 2).sum(axis=1) * (counts / np.maximum(counts - 1, 1))[labels]
    dimensions = float(np.median(squares)) if len(squares) else 0.0
    return _DiscriminantModel(
        whitening=whitening,
        means=means @ whitening,
        scales=counts / (counts + 1),
        offsets=np.where(counts > 0, dimensions * np.log1p(1 / np.maximum(counts, 1)), np.inf),
    )


def _compare_classes(
    model: _DiscriminantModel, features: NDArray[np.float64], own_class: NDArray[np.int64]
) -> tuple[
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.float64],
    NDArray[np.bool_],
]:
    """Squared distances to the own and the best other class, which that is, and (N, K) which are nearer."""
    import numpy as np

    squares, every, has_own = model.squared_distances(features), np.arange(len(features)), own_class >= 0
    own = np.where(has_own, squares[every, own_class], np.nan)
    own[np.isinf(own)] = np.nan  # nothing of it is learnt from in this fold
    nearer = squares < own[:, None]
    squares[every[has_own], own_class[has_own]] = np.inf
    best = squares.argmin(axis=1)
    return own, best, squares[every, best], nearer


def _join_confused(fits: InstructionFits) -> NDArray[np.int64]:
    """(L,) classes, of which those are joined that are confused with each other too often."""
    import numpy as np

    count = len(fits.sizes)
    share = (fits.confused + fits.confused.T) / np.maximum(fits.sizes[:, None] + fits.sizes, 1)
    first, second = np.nonzero(np.triu(share > _MOST_CONFUSED, 1))
    root = np.arange(count)
    for left, right in zip(first, second, strict=True):
        kept, joined = sorted((root[left], root[right]))
        root[root == joined] = kept
    codes = np.unique(root, return_inverse=True)[1].reshape(-1)
    return np.where(fits.classes >= 0, codes[fits.classes] if count else -1, -1)


def _join_rare(rows: LabelledRows, fits: InstructionFits) -> NDArray[np.int64]:
    """(L,) classes, to which labels with few episodes are added that mostly fit one class: wordings of it."""
    import numpy as np

    classes = fits.classes.copy()
    counted = rows.is_counted & (classes[rows.labels] < 0) & (fits.best >= 0)
    sizes = np.bincount(rows.labels[rows.is_counted], minlength=len(classes))
    pairs = np.stack([rows.labels[counted], classes[fits.best[counted]]])
    (labels, joinable), votes = np.unique(pairs, axis=1, return_counts=True)
    for label, joined, count in zip(labels, joinable, votes, strict=True):
        if sizes[label] >= _LEAST_WORDING and count >= _WORDING_SHARE * sizes[label]:
            classes[label] = joined
    return classes


# Episodes whose vectors are in memory together, and from which the directions of a dataset are taken.
_EPISODES_PER_READ, _EPISODES_OF_BASIS = 500, 1_000
# Directions that are kept of each kind, parts of an episode that are told apart, and cameras.
_DIRECTIONS, _PARTS, _MOST_CAMERAS = 48, 3, 3
# Annotations of what a judge saw before it knew a text, and the length of their vectors.
_OBSERVATION, _HASHED = "observation", 64
# Episodes of an instruction that frames are compared with, and frames that are named.
EXAMPLES, _FRAMES = 12, 2


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


def find_deciding_frames(
    stores: Stores, space: str, episode_id: str, own: Sequence[str], other: Sequence[str]
) -> tuple[str, tuple[float, ...]]:
    """The camera and the seconds of the frames that are most like other episodes and least like its own.

    Args:
        stores: Stores of the workspace.
        space: Embedding space of the frame vectors.
        episode_id: The episode.
        own: Episodes of its own instruction.
        other: Episodes of the instruction that fits better.
    """
    import numpy as np

    table = stores.tables.vectors(space)
    means = [_camera_means(table.read_episodes(ids[:EXAMPLES]).values()) for ids in (own, other)]
    vectors = table.read(episode_id)
    best: tuple[float, str, tuple[float, ...]] = (-np.inf, "", ())
    for camera in sorted(set(vectors.cameras) & means[0].keys() & means[1].keys()):
        rows = np.array(vectors.cameras) == camera
        scores = vectors.vectors[rows] @ (means[1][camera] - means[0][camera])
        selected = np.sort(np.argsort(-scores, kind="stable")[:_FRAMES])
        seconds = tuple(round(float(second), 2) for second in vectors.seconds[rows][selected])
        best = max(best, (float(scores.max()), camera, seconds))
    return best[1:]


def _camera_means(episodes: Iterable[EpisodeVectors]) -> dict[str, NDArray[np.float32]]:
    """The mean vector of the frames of each camera."""
    import numpy as np

    vectors: dict[str, list[NDArray[np.float32]]] = defaultdict(list)
    for episode in episodes:
        names = np.array(episode.cameras)
        for camera in set(episode.cameras):
            vectors[camera].append(episode.vectors[names == camera].mean(axis=0))
    return {camera: np.mean(own, axis=0) for camera, own in vectors.items()}
