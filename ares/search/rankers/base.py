"""The protocol of a ranker: one way to compare a query with the episodes of a workspace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.search.query import Query, QueryPart
    from ares.store.lance import EpisodeRuns
    from ares.store.vectors import Moment

EvidenceScale = Literal["share", "absolute", "relative"]
EncodedT = TypeVar("EncodedT")


class Ranker(Protocol[EncodedT]):
    """Ranks episodes by one kind of evidence. Entry points of "ares.rankers" are classes called with `Stores`.

    Attributes:
        query_parts: The parts of a query that it compares: "text", "image", "like".
    """

    query_parts: ClassVar[tuple[QueryPart, ...]]

    def encode(self, query: Query) -> Sequence[EncodedT]:
        """Turn the parts of a query into what `rank` compares; empty when this ranker can compare none of them.

        All model work belongs here: rankers are encoded first, one after another.

        Raises:
            RequestError: The workspace lacks what the ranker needs.
            ModelError: A model cannot be loaded.
        """

    def rank(self, encoded: EncodedT, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Rank episodes for one encoded part; runs in a thread beside the other parts and rankers.

        Args:
            encoded: One element of the result of `encode`.
            candidates: Ids of the episodes to rank, or None for all.
            limit: Maximum number of episodes.

        Returns:
            One moment per episode, best first.
        """


class VectorQuery(NamedTuple):
    """A query vector and the vector table to search.

    Attributes:
        space: Name of the space, and so of the table.
        vector: (D,) unit vector.
    """

    space: str
    vector: NDArray[np.float32]


class RankerEvidence(NamedTuple):
    """What one ranker says of many episodes, as arrays.

    Attributes:
        episode_ids: (N,) ids, or runs of rows in place of them, which are found faster. An id may be repeated, then
            its best score counts.
        scores: (N,) float64, higher is more like the query.
        scale: What a score of 1 means. "share": all of the query; 0 is nothing of it. "absolute": the same as the
            query; other scores mean something in comparison with those of most episodes. "relative": nothing; a score
            is compared with the best one.
    """

    episode_ids: pa.ChunkedArray | EpisodeRuns
    scores: NDArray[np.float64]
    scale: EvidenceScale


@runtime_checkable
class BulkRanker(Protocol):
    """A ranker that can also score all episodes of a workspace at once."""

    def score_episodes(self, encoded: Any, limit: int) -> RankerEvidence:
        """Score the episodes of a workspace for one element of the result of `encode`.

        Args:
            encoded: That element.
            limit: Episodes that are scored at least, where an index makes scoring all of them too slow.
        """


@runtime_checkable
class MomentRanker(Protocol):
    """A ranker that can also name several good moments within an episode."""

    def best_moments(self, encoded: Sequence[Any], episode_ids: Sequence[str]) -> dict[str, list[Moment]]:
        """The few best moments of each of these episodes, best first, by the result of `encode`."""
