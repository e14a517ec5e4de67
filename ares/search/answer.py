"""The answer to a query: the best episodes by fused ranks, or by score where the query has a cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.search.engine import search_moments
from ares.search.query import Hit, Query
from ares.search.relevance import search_by_score

if TYPE_CHECKING:
    from ares.store import Stores


def search(stores: Stores, query: Query) -> list[Hit]:
    """The best moment of each of the best episodes, at most `query.limit`.

    With `query.min_score` the episodes are ranked by one score from 0 to 1, see `ares.search.relevance`.

    Raises:
        RequestError: The filter is invalid, a ranker is unknown, or the workspace lacks what a ranker needs.
        ModelError: The model of the embedding space cannot be loaded.
        PluginError: A ranker or an encoder raised another exception.
    """
    return search_moments(stores, query) if query.min_score is None else search_by_score(stores, query)
