"""Notes of people on episodes, as actions of the log; the column `notes` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ares.curation.removal import record_members
from ares.curation.staged_ids import StagedIds
from ares.episode import Json
from ares.errors import RequestError
from ares.store.actions import NOTE_KINDS, Action, read_history, read_members

if TYPE_CHECKING:
    from ares.store import Stores

_MAX_CHARACTERS = 2_000


def add_note(
    stores: Stores, text: str, ids: StagedIds, recipe: Mapping[str, Json], *, person: str = ""
) -> Action:
    """Write a note to episodes, beside those that they have; `undo` takes it back.

    Args:
        stores: Stores of the workspace.
        text: 1 to 2,000 characters.
        ids: Ids of episodes.
        recipe: How they were selected, for the log.
        person: Who writes it; the user by default.

    Raises:
        RequestError: The text is empty or too long, or no episode is selected.
        StoreError: The log cannot be written.
    """
    note = text.strip()
    if not 0 < len(note) <= _MAX_CHARACTERS:
        raise RequestError(
            f"a note has 1 to {_MAX_CHARACTERS:,} characters", f"got {len(note):,}; write it shorter"
        )
    if not ids.count:
        raise RequestError("no episode is selected", "the note was not written")
    return record_members(stores, "note", ids, {"note": note, "recipe": dict(recipe)}, person)


def notes_of(stores: Stores, episode_id: str) -> list[dict[str, Json]]:
    """The notes of one episode, oldest first, each with its person, time and action. Raises StoreError."""
    return [
        {
            "note": str(action.details["note"]),
            "person": action.person,
            "created": action.created,
            "action": action.number,
        }
        for action in read_history(stores.annotations).effective(NOTE_KINDS)
        if any(episode_id in block for block in read_members(stores.annotations, action))
    ]
