"""Ranks episodes by words that their captions and instructions share with a text (BM25)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from ares.search.fusion import Ranking, best_per_episode, fuse
from ares.search.rankers.base import RankerEvidence
from ares.search.rankers.word_coverage import word_coverage
from ares.store.vectors import Moment

if TYPE_CHECKING:
    from ares.search.query import Query, QueryPart
    from ares.store import Stores


class KeywordRanker:
    """Compares captions and instructions with the words of a text, or of the instruction of an episode."""

    query_parts: ClassVar[tuple[QueryPart, ...]] = ("text", "like")

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def encode(self, query: Query) -> list[str]:
        """The texts to look for."""
        texts = [query.text]
        if query.like.strip():
            texts.append(self._stores.tables.episodes.get_episode(query.like).instruction)
        return [text for text in texts if text.strip()]

    def rank(self, encoded: str, candidates: Collection[str] | None, limit: int) -> Sequence[Moment]:
        """Episodes whose caption or instruction matches; when both kinds match, their rankings are fused."""
        tables = self._stores.tables
        captions = [
            _moment(hit.episode_id, hit.start_seconds, hit.score)
            for hit in tables.segments.search_text(encoded, limit, candidates)
        ]
        instructions = [
            _moment(episode_id, 0.0, score)
            for episode_id, score in tables.episodes.search_instruction(encoded, limit, candidates)
        ]
        rankings = [Ranking(best_per_episode(moments)) for moments in (captions, instructions) if moments]
        if len(rankings) > 1:
            return fuse(rankings)
        return rankings[0].moments if rankings else []

    def score_episodes(self, encoded: str, limit: int) -> RankerEvidence:
        """The share of the words of the text that each episode has, see `word_coverage`."""
        return RankerEvidence(*word_coverage(self._stores, encoded), "share")


def _moment(episode_id: str, seconds: float, score: float) -> Moment:
    """A match in a text. Its camera is empty because a text describes a time span and not a frame."""
    return Moment(episode_id=episode_id, camera="", seconds=seconds, score=score)
