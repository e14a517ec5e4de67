"""Ways to compare a query with episodes, one module per kind of evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.search.rankers.base import BulkRanker, MomentRanker, Ranker, RankerEvidence
    from ares.search.rankers.guard import GuardedRanker, load_ranker
    from ares.search.rankers.keyword import KeywordRanker
    from ares.search.rankers.motion import ActionRanker, StateRanker
    from ares.search.rankers.semantic import SemanticRanker, rank_by_text
    from ares.search.rankers.visual import VisualRanker

__all__ = [
    "ActionRanker",
    "BulkRanker",
    "GuardedRanker",
    "KeywordRanker",
    "MomentRanker",
    "Ranker",
    "RankerEvidence",
    "SemanticRanker",
    "StateRanker",
    "VisualRanker",
    "load_ranker",
    "rank_by_text",
]

__getattr__ = lazy_exports(__name__)
