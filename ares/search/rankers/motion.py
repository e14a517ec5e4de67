"""Ranks episodes by how similarly their robot moves: the course of their state or of their actions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from ares.errors import RequestError
from ares.search.motion_features import SignalKind, find_layout, space_name
from ares.search.rankers.base import RankerEvidence, VectorQuery

if TYPE_CHECKING:
    from ares.search.query import Query, QueryPart
    from ares.store import Stores
    from ares.store.vectors import Moment


class _MotionRanker:
    query_parts: ClassVar[tuple[QueryPart, ...]] = ("like",)
    signal: ClassVar[SignalKind]

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[VectorQuery]:
        """The stored motion vector of the episode. Raises RequestError when it has none."""
        if not query.like.strip():
            return []
        episode = self._stores.tables.episodes.get_episode(query.like)
        layout = find_layout(episode.state_names if self.signal == "state" else episode.action_names)
        if layout is None:
            raise RequestError(
                f"the episode has no {self.signal}", f"{episode.episode_id!r} of {episode.dataset}"
            )
        space = space_name(self.signal, layout, episode)
        vectors = self._stores.tables.vectors(space).read(episode.episode_id).vectors
        if not len(vectors):
            raise RequestError(
                f"the {self.signal} of the episode cannot be compared",
                f"{episode.episode_id!r}; run `ares annotate motion`, which leaves out signals that are not finite",
            )
        return [VectorQuery(space, vectors[0])]

    def rank(self, encoded: VectorQuery, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Episodes by cosine similarity of their motion vectors, of which each has one."""
        return self._stores.tables.vectors(encoded.space).search(encoded.vector, limit, candidates)

    def score_episodes(self, encoded: VectorQuery, limit: int) -> RankerEvidence:
        """The episodes that move most alike; all of them where the vectors have no index."""
        table = self._stores.tables.vectors(encoded.space)
        return RankerEvidence(*table.score_episodes(encoded.vector, limit), "relative")


class StateRanker(_MotionRanker):
    """Compares the course of the robot state with that of an episode."""

    signal: ClassVar[SignalKind] = "state"


class ActionRanker(_MotionRanker):
    """Compares the course of the actions with that of an episode."""

    signal: ClassVar[SignalKind] = "action"
