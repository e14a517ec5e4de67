"""Selection of episodes, and frozen sets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.curation.makers import maker_catalog, use_makers
    from ares.curation.select import SOURCE_ORDER, select_episodes
    from ares.curation.sets import MEMBERS_COLLECTION, CurationSet, Sets, hash_ids

__all__ = [
    "MEMBERS_COLLECTION",
    "SOURCE_ORDER",
    "CurationSet",
    "Sets",
    "hash_ids",
    "maker_catalog",
    "select_episodes",
    "use_makers",
]

__getattr__ = lazy_exports(__name__)
