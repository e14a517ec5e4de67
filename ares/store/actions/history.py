"""The numbered actions of a workspace, read from and added to the annotation log."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, cast

from ares.episode import Json
from ares.store.actions.action import Action, ActionKind, action_from_json
from ares.store.filters import batched

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore

ACTIONS, ACTION_MEMBERS = "actions", "action_members"
# Ids per document: 160 kB, as the members of a set.
_DOCUMENT_IDS = 10_000


class ActionHistory:
    """The actions of a workspace, in the order of their numbers.

    Args:
        actions: All of them.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        self.actions = actions
        self._by_number = {action.number: action for action in actions}

    @property
    def last(self) -> int:
        """Number of the newest action; 0 without any."""
        return self.actions[-1].number if self.actions else 0

    def get(self, number: int) -> Action | None:
        """The action of a number, or None."""
        return self._by_number.get(number)

    @cached_property
    def _undone(self) -> set[int]:
        """Numbers that an undo takes back which is not taken back itself."""
        undone: set[int] = set()
        # An undo is newer than what it takes back: from the newest on, each is decided when it is met.
        for action in reversed(self.actions):
            if action.kind == "undo" and action.number not in undone:
                undone.add(action.undoes)
        return undone

    def is_effective(self, action: Action) -> bool:
        """Whether an action counts: no undo that counts takes it back."""
        return action.number not in self._undone

    def effective(self, kinds: Collection[str]) -> list[Action]:
        """The actions of some kinds that count, oldest first."""
        return [action for action in self.actions if action.kind in kinds and self.is_effective(action)]

    def root(self, action: Action) -> Action:
        """What an undo is about in the end: the action at the end of the chain of undos, or the action itself."""
        while action.kind == "undo" and action.undoes in self._by_number:
            action = self._by_number[action.undoes]
        return action

    def kinds_after(self, number: int) -> set[ActionKind]:
        """The kinds of change that the actions after a number make; an undo makes that of what it takes back."""
        return {self.root(action).kind for action in self.actions if action.number > number}


def read_history(annotations: AnnotationStore) -> ActionHistory:
    """The actions of a log. Raises StoreError."""
    return ActionHistory([action_from_json(document) for _, document in annotations.find_documents(ACTIONS)])


def new_members_key() -> str:
    """A key for a list of members that no other list has."""
    return uuid.uuid4().hex


def write_members(annotations: AnnotationStore, key: str, members: Iterable[Json]) -> int:
    """Write the members of an action before the action itself. Returns their number. Raises StoreError."""
    count = 0
    for number, block in enumerate(batched(members, _DOCUMENT_IDS)):
        annotations.put_documents(ACTION_MEMBERS, {f"{key}/{number:06d}": list[Json](block)})
        count += len(block)
    return count


def read_members(annotations: AnnotationStore, action: Action) -> Iterator[list[str]]:
    """The members of an action in blocks of some thousands; nothing for one without. Raises StoreError."""
    if action.members:
        for _, block in annotations.find_documents(ACTION_MEMBERS, f"{action.members}/"):
            yield cast("list[str]", block)


def read_member_documents(annotations: AnnotationStore, action: Action) -> Iterator[list[Json]]:
    """As `read_members`, of an action whose members are not ids. Raises StoreError."""
    for _, block in (
        annotations.find_documents(ACTION_MEMBERS, f"{action.members}/") if action.members else ()
    ):
        yield cast("list[Json]", block)


def record_action(
    annotations: AnnotationStore,
    kind: ActionKind,
    person: str,
    *,
    count: int,
    members: str = "",
    details: Mapping[str, Json] | None = None,
) -> Action:
    """Add an action to the log under the next free number; its members are written before. Raises StoreError."""
    number = read_history(annotations).last
    while True:
        number += 1
        action = Action(
            number=number,
            kind=kind,
            person=person,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            count=count,
            members=members,
            details=details or {},
        )
        if annotations.claim_document(ACTIONS, action_key(number), action.to_json()):
            return action


def action_key(number: int) -> str:
    """Key of the document of an action: in the order of keys the actions are in that of their numbers."""
    return f"{number:09d}"
