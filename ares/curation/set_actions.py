"""What the actions of the log say of sets: which are deleted, what they are called now, and their notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ares.store.actions import Action, ActionHistory, read_history

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SetChanges:
    """What has happened to sets since they were frozen; a key is a name with the number of a version.

    Attributes:
        deleted: Keys that sets were frozen under and that are deleted.
        renamed: The key of today by the key that a set was frozen under.
        notes: The note by the key that a set was frozen under.
    """

    deleted: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def read_set_changes(annotations: AnnotationStore) -> SetChanges:
    """The changes of all sets. Raises StoreError."""
    return fold_set_changes(read_history(annotations))


def fold_set_changes(history: ActionHistory) -> SetChanges:
    """The changes of all sets that the actions of a history make together."""
    changes = SetChanges()
    for action in history.effective(("set_delete", "set_rename", "set_note")):
        if action.kind == "set_delete":
            changes.deleted.update(_keys(action))
        elif action.kind == "set_rename":
            changes.renamed.update(_keys(action))
        else:
            changes.notes.update(dict.fromkeys(_keys(action), str(action.details["note"])))
    return changes


def _keys(action: Action) -> Mapping[str, str]:
    """The sets that an action is about: the new key by the key that each was frozen under."""
    return cast("Mapping[str, str]", action.details["keys"])
