"""The vectors of state and action that find similar motion, and the scale of each dataset."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from ares.search import (
    SIGNAL_KINDS,
    SPACES_COLLECTION,
    FeatureScale,
    SignalKind,
    SignalLayout,
    compute_motion_features,
    compute_motion_vector,
    find_signal_layout,
    fit_feature_scale,
    name_motion_space,
    read_feature_scale,
)
from ares.store import quote_literal
from ares_annotators.base import FrameVectors, Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory
    from ares.store import Stores


SCALES_COLLECTION = "motion_scales"

_SAMPLE_SIZE = 200

_MAX_CACHED_SCALES = 1_000


class TrajectoryVectors:
    """Makes the vectors of state and action of episodes.

    Args:
        stores: Stores of the workspace; they keep the scale of each dataset, fitted to a sample at its first use.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._cached_scale = lru_cache(maxsize=_MAX_CACHED_SCALES)(self._find_scale)

    def make_vectors(self, work: Work) -> Iterator[FrameVectors]:
        """The vector of each finite signal of an episode, in the space of the signal's layout."""
        import numpy as np

        for kind in SIGNAL_KINDS:
            signal: Signal | None = getattr(work.trajectory, kind, None)
            layout = find_signal_layout(signal.names) if signal is not None else None
            if signal is None or layout is None or work.trajectory is None:
                continue
            space = name_motion_space(kind, layout, work.episode)
            scale = self._cached_scale(work.episode.dataset, space, kind, layout)
            vector = compute_motion_vector(
                compute_motion_features(signal, layout), work.trajectory.timestamps, scale
            )
            if vector is not None:
                yield FrameVectors(
                    episode_id=work.episode.episode_id,
                    camera="",
                    seconds=np.zeros(1),
                    vectors=vector[None],
                    space=space,
                )

    def _find_scale(self, dataset: str, space: str, kind: SignalKind, layout: SignalLayout) -> FeatureScale:
        """The scale of a dataset, stored at its first use, so that later vectors lie in the same space."""
        key = f"{space}/{dataset}"
        existing = self._stores.annotations.get_document(SCALES_COLLECTION, key)
        if isinstance(existing, dict):
            return read_feature_scale(existing)
        scale = self._fit_scale(dataset, kind, layout)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._stores.annotations.put_documents(
            SPACES_COLLECTION, {space: {"encoder": "", "model": "motion", "created": created}}
        )
        self._stores.annotations.put_documents(SCALES_COLLECTION, {key: scale.to_json()})
        return scale

    def _fit_scale(self, dataset: str, kind: SignalKind, layout: SignalLayout) -> FeatureScale:
        import numpy as np

        ids = chain.from_iterable(
            self._stores.tables.episodes.id_batches(f"dataset = {quote_literal(dataset)}")
        )
        # Ids are hashes: the smallest are a fair sample.
        trajectories = self._stores.tables.trajectories.read(heapq.nsmallest(_SAMPLE_SIZE, ids))
        features = [_signal_features(trajectory, kind, layout) for _, trajectory in trajectories]
        rows = [episode_rows for episode_rows in features if episode_rows is not None]
        return fit_feature_scale(np.concatenate(rows) if rows else np.empty((0, layout.width)))


def _signal_features(
    trajectory: Trajectory, kind: SignalKind, layout: SignalLayout
) -> NDArray[np.float64] | None:
    """(T, F) features of a trajectory's signal, or None when it has another layout."""
    signal: Signal | None = getattr(trajectory, kind)
    signal_layout = find_signal_layout(signal.names) if signal is not None else None
    if signal is None or signal_layout is None or signal_layout.name != layout.name:
        return None
    return compute_motion_features(signal, signal_layout)
