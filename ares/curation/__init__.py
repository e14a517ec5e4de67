"""EpisodeSelection of episodes, and frozen sets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.curation.failures import (
        Failure,
        apply_failure_actions,
        clear_failures,
        episodes_of_failures,
        failures_of,
        list_failures,
    )
    from ares.curation.makers import maker_catalog, use_makers
    from ares.curation.notes import add_note, notes_of
    from ares.curation.purge import (
        PurgeReport,
        count_pending_purges,
        finish_purges,
        purge_episodes,
        purgeable_ids,
    )
    from ares.curation.removal import (
        RemovalPreview,
        count_removed_members,
        preview_removal,
        remove_episodes,
    )
    from ares.curation.select import SOURCE_ORDER, select_episodes
    from ares.curation.selection import EpisodeSelection, selected_ids
    from ares.curation.sets import MEMBERS_COLLECTION, CurationSet, SetDiff, Sets, hash_ids
    from ares.curation.staged_ids import StagedIds
    from ares.curation.tags import TagUse, add_tag, list_tags, remove_tag, tag_filter, tags_of
    from ares.curation.undoing import UndoReport, undo
    from ares.curation.views import SavedView, delete_view, list_views, save_view

__all__ = [
    "MEMBERS_COLLECTION",
    "SOURCE_ORDER",
    "CurationSet",
    "EpisodeSelection",
    "Failure",
    "PurgeReport",
    "RemovalPreview",
    "SavedView",
    "SetDiff",
    "Sets",
    "StagedIds",
    "TagUse",
    "UndoReport",
    "add_note",
    "add_tag",
    "apply_failure_actions",
    "clear_failures",
    "count_pending_purges",
    "count_removed_members",
    "delete_view",
    "episodes_of_failures",
    "failures_of",
    "finish_purges",
    "hash_ids",
    "list_failures",
    "list_tags",
    "list_views",
    "maker_catalog",
    "notes_of",
    "preview_removal",
    "purge_episodes",
    "purgeable_ids",
    "remove_episodes",
    "remove_tag",
    "save_view",
    "select_episodes",
    "selected_ids",
    "tag_filter",
    "tags_of",
    "undo",
    "use_makers",
]

__getattr__ = lazy_exports(__name__)
