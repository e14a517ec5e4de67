"""Courses: the vectors by which episodes are found that move alike, scaled by what is usual in their dataset."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from annotators.base import FrameVectors, Work
from ares.search.motion import (
    KINDS,
    Kind,
    Layout,
    Scale,
    course,
    features,
    layout_of,
    scale_from,
    scale_of,
    space_name,
)
from ares.search.spaces import SPACES
from ares.store.filters import literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import Signal, Trajectory
    from ares.workspace import Workspace

SCALES = "motion_scales"
_SAMPLE = 200
_SCALES_HELD = 1_000


class Courses:
    """Makes the vectors of state and action.

    Args:
        ws: Where scales are kept, and taken from a sample of the dataset when there is none yet.
    """

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._scale = lru_cache(maxsize=_SCALES_HELD)(self._find_scale)

    def of(self, work: Work) -> Iterator[FrameVectors]:
        """The vector of each signal that an episode has and that is finite, in the space of its layout."""
        import numpy as np

        for kind in KINDS:
            signal: Signal | None = getattr(work.trajectory, kind, None)
            layout = layout_of(signal.names) if signal is not None else None
            if signal is None or layout is None or work.trajectory is None:
                continue
            space = space_name(kind, layout, work.episode)
            scale = self._scale(work.episode.dataset, space, kind, layout)
            vector = course(features(signal, layout), work.trajectory.timestamps, scale)
            if vector is not None:
                yield FrameVectors(
                    episode_id=work.episode.episode_id,
                    camera="",
                    seconds=np.zeros(1),
                    vectors=vector[None],
                    space=space,
                )

    def _find_scale(self, dataset: str, space: str, kind: Kind, layout: Layout) -> Scale:
        """The scale of a dataset, kept from its first use: vectors made later lie in the same space."""
        key = f"{space}/{dataset}"
        known = self._ws.annotations.get(SCALES, key)
        if isinstance(known, dict):
            return scale_from(known)
        scale = self._measure(dataset, kind, layout)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        self._ws.annotations.put(SPACES, {space: {"encoder": "", "model": "motion", "created": created}})
        self._ws.annotations.put(SCALES, {key: scale.to_json()})
        return scale

    def _measure(self, dataset: str, kind: Kind, layout: Layout) -> Scale:
        import numpy as np

        ids = chain.from_iterable(self._ws.tables.episodes.stretches(f"dataset = {literal(dataset)}"))
        # Ids are hashes: the smallest are a fair sample.
        found = self._ws.tables.trajectories.read(heapq.nsmallest(_SAMPLE, ids))
        rows = [_features(trajectory, kind, layout) for _, trajectory in found]
        alike = [row for row in rows if row is not None]
        return scale_of(np.concatenate(alike) if alike else np.empty((0, layout.width)))


def _features(trajectory: Trajectory, kind: Kind, layout: Layout) -> NDArray[np.float64] | None:
    signal: Signal | None = getattr(trajectory, kind)
    own = layout_of(signal.names) if signal is not None else None
    return features(signal, own) if signal is not None and own and own.name == layout.name else None
