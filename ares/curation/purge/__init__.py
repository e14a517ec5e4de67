"""Purges: episodes deleted for good from log, tables, copies and caches, also after a crash in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.curation.purge.run import (
        PurgeReport,
        count_pending_purges,
        finish_purges,
        purge_episodes,
        purgeable_ids,
    )

__all__ = [
    "PurgeReport",
    "count_pending_purges",
    "finish_purges",
    "purge_episodes",
    "purgeable_ids",
]

__getattr__ = lazy_exports(__name__)
