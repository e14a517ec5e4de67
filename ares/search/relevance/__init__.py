"""One score from 0 to 1 for every episode of a search, and the cut below which episodes are not relevant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.search.relevance.cut import default_cut
    from ares.search.relevance.scores import SCORE_BINS, EpisodeScores
    from ares.search.relevance.scoring import score_episodes, search_by_score

__all__ = [
    "SCORE_BINS",
    "EpisodeScores",
    "default_cut",
    "score_episodes",
    "search_by_score",
]

__getattr__ = lazy_exports(__name__)
