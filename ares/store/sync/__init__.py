"""Keeps the tables equal to what the annotation log says: columns of episodes, and segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.sync.apply import apply_log, read_changes
    from ares.store.sync.changes import LogChanges
    from ares.store.sync.makers import (
        CONFLICT,
        DISAGREEMENT,
        MakerCatalog,
        declared_columns,
        maker_column,
        stale_column,
    )
    from ares.store.sync.pins import PINS, pin_makers, read_pins
    from ares.store.sync.progress import (
        applied_action,
        applied_sequence,
        load_applied_state,
        reset_applied_actions,
        reset_applied_sequence,
        skip_applied,
    )
    from ares.store.sync.projection_plugins import InstalledProjections, Projection
    from ares.store.sync.removals import absent_restored, present_removed
    from ares.store.sync.shown import newest_by_address, segment_id, select_shown
    from ares.store.sync.tags import NOTES, TAGS, find_wrong_texts
    from ares.store.sync.views import conflict_changes, refresh_conflicts

__all__ = [
    "CONFLICT",
    "DISAGREEMENT",
    "NOTES",
    "PINS",
    "TAGS",
    "InstalledProjections",
    "LogChanges",
    "MakerCatalog",
    "Projection",
    "absent_restored",
    "applied_action",
    "applied_sequence",
    "apply_log",
    "conflict_changes",
    "declared_columns",
    "find_wrong_texts",
    "load_applied_state",
    "maker_column",
    "newest_by_address",
    "pin_makers",
    "present_removed",
    "read_changes",
    "read_pins",
    "refresh_conflicts",
    "reset_applied_actions",
    "reset_applied_sequence",
    "segment_id",
    "select_shown",
    "skip_applied",
    "stale_column",
]

__getattr__ = lazy_exports(__name__)
