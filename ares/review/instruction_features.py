"""The features of episodes that the instruction audit compares: directions of frames, and motion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ares.search import SPACES_COLLECTION
from ares.store import batched

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.store import EpisodeVectors, Stores


# Episodes whose vectors are in memory together, and from which the directions of a dataset are taken.
_EPISODES_PER_READ, _EPISODES_OF_BASIS = 500, 1_000
# Directions that are kept of each kind, parts of an episode that are distinguished, and cameras.
_DIRECTIONS, _PARTS, _MOST_CAMERAS = 48, 3, 3


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
    user_spaces = {
        name for name, document in documents if not cast("Mapping[str, object]", document).get("encoder")
    }
    return sorted(user_spaces & set(stores.tables.spaces()))


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
    blocks = [frames]
    for name, length in motion:
        means, missing = stores.tables.vectors(name).mean_vectors(ids), np.full(length, np.nan, np.float32)
        blocks.append(np.stack([means.get(episode_id, missing) for episode_id in ids]))
    return blocks


def _summarise_frames(vectors: EpisodeVectors, cameras: Sequence[str]) -> NDArray[np.float32]:
    """Means of the first, middle and last frames of each camera, one after the other; NaN for a camera without."""
    import numpy as np

    size = vectors.vectors.shape[1]
    means = np.full((len(cameras), _PARTS, size), np.nan, np.float32)
    names = np.array(vectors.cameras)
    for number, camera in enumerate(cameras):
        of_camera = vectors.vectors[names == camera]
        for part in range(_PARTS if len(of_camera) else 0):
            start = min(part * len(of_camera) // _PARTS, len(of_camera) - 1)
            stop = max((part + 1) * len(of_camera) // _PARTS, start + 1)
            means[number, part] = of_camera[start:stop].mean(axis=0)
    return means.reshape(-1)
