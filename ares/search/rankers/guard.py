"""Loads rankers by name; an exception or a wrong result of one becomes an error that names it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from ares.errors import PluginError
from ares.registry import plugin_faults, rankers
from ares.search.rankers.base import BulkRanker, MomentRanker, RankerEvidence
from ares.store.vectors import Moment

if TYPE_CHECKING:
    from ares.search.query import Query
    from ares.store import Stores


def load_ranker(name: str, stores: Stores) -> GuardedRanker:
    """The ranker of a name.

    Raises:
        RequestError: The name is unknown.
        PluginError: The ranker cannot be imported or made.
    """
    label = rankers.label(name)
    with plugin_faults(label):
        ranker = rankers.get(name)(stores)
    return (
        GuardedMomentRanker(label, ranker)
        if isinstance(ranker, MomentRanker)
        else GuardedRanker(label, ranker)
    )


class GuardedRanker:
    """A ranker that raises only errors of ARES.

    Args:
        label: How messages name it, see `ares.registry.Registry.label`.
        ranker: The ranker.
    """

    def __init__(self, label: str, ranker: Any) -> None:
        self._label, self._ranker = label, ranker

    def encode(self, query: Query) -> Sequence[Any]:
        """As `Ranker.encode`."""
        with plugin_faults(self._label):
            return list(self._ranker.encode(query))

    def rank(self, encoded: Any, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """As `Ranker.rank`. Raises PluginError for a result that is no list of moments."""
        with plugin_faults(self._label):
            return self._checked(list(self._ranker.rank(encoded, candidates, limit)))

    def score_episodes(self, encoded: Any, limit: int) -> RankerEvidence:
        """As `BulkRanker.score_episodes`; of a ranker without it the best `limit` episodes. Raises PluginError."""
        if isinstance(self._ranker, BulkRanker):
            with plugin_faults(self._label):
                return self._ranker.score_episodes(encoded, limit)
        return evidence_of_moments(self.rank(encoded, None, limit))

    def _checked(self, moments: list[Any]) -> list[Moment]:
        for moment in moments:
            if not isinstance(moment, Moment):
                raise PluginError(f"{self._label} returned no moments", f"got a {type(moment).__name__}")
            if not math.isfinite(moment.score):
                raise PluginError(
                    f"{self._label} returned a wrong score", f"{moment.score} of {moment.episode_id}"
                )
        return moments


def evidence_of_moments(moments: Sequence[Moment]) -> RankerEvidence:
    """Ranked moments as arrays; their scores are compared with each other only."""
    import numpy as np
    import pyarrow as pa

    ids = pa.array([moment.episode_id for moment in moments], pa.string())
    scores = np.array([moment.score for moment in moments], np.float64)
    return RankerEvidence(pa.chunked_array([ids]), scores, "relative")


class GuardedMomentRanker(GuardedRanker):
    """A guarded ranker that also names several good moments within an episode."""

    def best_moments(self, encoded: Sequence[Any], episode_ids: Sequence[str]) -> dict[str, list[Moment]]:
        """As `MomentRanker.best_moments`."""
        with plugin_faults(self._label):
            return {
                episode_id: self._checked(list(moments))
                for episode_id, moments in self._ranker.best_moments(encoded, episode_ids).items()
            }
