"""What a ranker is, and how one is loaded so that its faults become errors that name it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from ares.errors import PluginError
from ares.registry import plugin_faults, rankers
from ares.store import Moment

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from ares.search.query import Query, QueryPart
    from ares.store import EpisodeRowRuns, Stores


EvidenceScale = Literal["share", "absolute", "relative"]
EncodedT = TypeVar("EncodedT")


class Ranker(Protocol[EncodedT]):
    """Ranks episodes by one kind of evidence. Entry points of "ares.rankers" are classes called with `Stores`.

    The built-in ones are in `visual.py`, `text.py` and `motion.py`.

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
        is_text: Whether it is of a text.
    """

    space: str
    vector: NDArray[np.float32]
    is_text: bool = False


class RankerScores(NamedTuple):
    """What one ranker says of many episodes, as arrays.

    Attributes:
        episode_ids: (N,) ids, or runs of rows in place of them, which are found faster. An id may be repeated, then
            its best score counts.
        scores: (N,) float64, higher is more like the query.
        scale: What a score of 1 means. "share": all of the query; 0 is nothing of it. "absolute": the same as the
            query; other scores mean something in comparison with those of most episodes. "relative": nothing; a score
            is compared with the best one.
    """

    episode_ids: pa.ChunkedArray | EpisodeRowRuns
    scores: NDArray[np.float64]
    scale: EvidenceScale


@runtime_checkable
class BulkRanker(Protocol):
    """A ranker that can also score all episodes of a workspace at once."""

    def score_episodes(self, encoded: Any, limit: int) -> RankerScores:
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


def load_ranker(name: str, stores: Stores) -> CheckedRanker:
    """The ranker of a name.

    Raises:
        RequestError: The name is unknown.
        PluginError: The ranker cannot be imported or made.
    """
    label = rankers.label(name)
    with plugin_faults(label):
        ranker = rankers.get(name)(stores)
    return (
        CheckedMomentRanker(label, ranker)
        if isinstance(ranker, MomentRanker)
        else CheckedRanker(label, ranker)
    )


class CheckedRanker:
    """A ranker that raises only errors of ARES.

    Args:
        label: How messages name it, see `ares.registry.Registry.label`.
        ranker: The ranker.
    """

    def __init__(self, label: str, ranker: Any) -> None:
        self._label = label
        self._ranker: Ranker[Any] = ranker

    def encode(self, query: Query) -> Sequence[Any]:
        """As `Ranker.encode`."""
        with plugin_faults(self._label):
            return list(self._ranker.encode(query))

    def rank(self, encoded: Any, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """As `Ranker.rank`. Raises PluginError for a result that is no list of moments."""
        with plugin_faults(self._label):
            return self._checked(list(self._ranker.rank(encoded, candidates, limit)))

    def score_episodes(self, encoded: Any, limit: int) -> RankerScores:
        """As `BulkRanker.score_episodes`; of a ranker without it the best `limit` episodes. Raises PluginError."""
        if isinstance(self._ranker, BulkRanker):
            with plugin_faults(self._label):
                return self._ranker.score_episodes(encoded, limit)
        return convert_moments_to_scores(self.rank(encoded, None, limit))

    def _checked(self, moments: list[Any]) -> list[Moment]:
        for moment in moments:
            if not isinstance(moment, Moment):
                raise PluginError(f"{self._label} returned no moments", f"got a {type(moment).__name__}")
            if not math.isfinite(moment.score):
                raise PluginError(
                    f"{self._label} returned a wrong score", f"{moment.score} of {moment.episode_id}"
                )
        return moments


def convert_moments_to_scores(moments: Sequence[Moment]) -> RankerScores:
    """Ranked moments as arrays; their scores are compared with each other only."""
    import numpy as np
    import pyarrow as pa

    ids = pa.array([moment.episode_id for moment in moments], pa.string())
    scores = np.array([moment.score for moment in moments], np.float64)
    return RankerScores(pa.chunked_array([ids]), scores, "relative")


class CheckedMomentRanker(CheckedRanker):
    """A guarded ranker that also names several good moments within an episode."""

    _ranker: Any

    def best_moments(self, encoded: Sequence[Any], episode_ids: Sequence[str]) -> dict[str, list[Moment]]:
        """As `MomentRanker.best_moments`."""
        with plugin_faults(self._label):
            return {
                episode_id: self._checked(list(moments))
                for episode_id, moments in self._ranker.best_moments(encoded, episode_ids).items()
            }
