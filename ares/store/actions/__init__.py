"""Actions: what people did to episodes, tags, sets and failures, kept in the log to be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.store.actions.action import NOTE_KINDS, TAG_KINDS, VIEW_KINDS, Action, ActionKind
    from ares.store.actions.history import (
        ACTION_MEMBERS,
        ACTIONS,
        ActionHistory,
        action_key,
        new_members_key,
        read_history,
        read_member_documents,
        read_members,
        record_action,
        write_members,
    )
    from ares.store.actions.state import RemovedIds, fold_notes, fold_tags, removed_id_array
    from ares.store.actions.tombstones import TOMBSTONES, add_tombstones, hash_identity, read_tombstones

__all__ = [
    "ACTIONS",
    "ACTION_MEMBERS",
    "NOTE_KINDS",
    "TAG_KINDS",
    "TOMBSTONES",
    "VIEW_KINDS",
    "Action",
    "ActionHistory",
    "ActionKind",
    "RemovedIds",
    "action_key",
    "add_tombstones",
    "fold_notes",
    "fold_tags",
    "hash_identity",
    "new_members_key",
    "read_history",
    "read_member_documents",
    "read_members",
    "read_tombstones",
    "record_action",
    "removed_id_array",
    "write_members",
]

__getattr__ = lazy_exports(__name__)
