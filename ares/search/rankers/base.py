"""The protocol of a ranker: one way to compare a query with the episodes of a workspace."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.search.query import Query, QueryPart
    from ares.store.vectors import Moment

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


@runtime_checkable
class MomentRanker(Protocol):
    """A ranker that can also name several good moments within an episode."""

    def best_moments(self, encoded: Sequence[Any], episode_ids: Sequence[str]) -> dict[str, list[Moment]]:
        """The few best moments of each of these episodes, best first, by the result of `encode`."""
