"""Takes back the last action, or any other that counts, by an action of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.curation.failures import apply_failure_actions
from ares.episode import Json
from ares.errors import RequestError
from ares.settings import user_name
from ares.store.actions import Action, ActionHistory, read_history, read_members, record_action
from ares.store.filters import ids_filter
from ares.store.sync import applied_action

if TYPE_CHECKING:
    from ares.store import Stores


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """What an undo has done.

    Attributes:
        action: The undo itself; it can be taken back by its number.
        undone: What it took back.
        absent: Episodes that are not removed any more but whose rows are gone: ingesting their source brings them back.
        pending: Whether another job writes to the workspace, which will show the change when it ends.
    """

    action: Action
    undone: Action
    absent: int
    pending: bool

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {
            "action": self.action.to_json(),
            "undone": self.undone.to_json(),
            "absent": self.absent,
            "pending": self.pending,
        }


def undo(stores: Stores, number: int | None = None, *, person: str = "") -> UndoReport:
    """Take back an action: from then on everything is as if it had not been done.

    Args:
        stores: Stores of the workspace.
        number: Number of the action; None for the person's own last that counts and is no undo itself.
        person: Who takes it back; the user by default.

    Raises:
        RequestError: There is nothing to take back, or the action cannot be taken back (any more).
        StoreError: The log cannot be written.
    """
    history, person = read_history(stores.annotations), person.strip() or user_name()
    undone = _last(history, person) if number is None else _numbered(history, number)
    _check(history, undone)
    action = record_action(
        stores.annotations,
        "undo",
        person,
        count=undone.count - undone.purged,
        details={"undoes": undone.number},
    )
    stores.sync()
    apply_failure_actions(stores)
    pending = applied_action(stores.tables) < action.number
    is_removal = history.root(undone).kind == "remove"
    absent = _count_absent(stores, history.root(undone)) if is_removal and not pending else 0
    return UndoReport(action=action, undone=undone, absent=absent, pending=pending)


def _last(history: ActionHistory, person: str) -> Action:
    """The last action of a person that counts: nobody takes back unseen what somebody else has done since."""
    others = list[Action]()
    for action in reversed(history.actions):
        if action.kind not in ("undo", "purge") and history.is_effective(action):
            if action.person == person:
                return action
            others.append(action)
    if others:
        last = others[0]
        raise RequestError(
            f"there is nothing of {person} to take back",
            f"the last action is of {last.person}: `ares undo {last.number}` takes it back",
        )
    raise RequestError("there is nothing to take back", "`ares undo --list` shows what was done")


def _numbered(history: ActionHistory, number: int) -> Action:
    action = history.get(number)
    if action is None:
        raise RequestError(
            f"no action {number}", f"there are: 1 to {history.last}" if history.last else "none yet"
        )
    return action


def _check(history: ActionHistory, action: Action) -> None:
    if action.kind == "purge":
        raise RequestError(
            "a purge cannot be taken back", f"action {action.number} deleted {action.count} episodes for good"
        )
    if not history.is_effective(action):
        undo_number = next(
            later.number
            for later in reversed(history.actions)
            if later.kind == "undo" and later.undoes == action.number and history.is_effective(later)
        )
        raise RequestError(
            f"action {action.number} is taken back already",
            f"`ares undo {undo_number}` lets it count again",
        )
    root = history.root(action)
    if root.members and root.purged and root.purged >= root.count:
        raise RequestError(
            f"action {action.number} cannot be taken back any more",
            "its episodes were deleted for good since",
        )


def _count_absent(stores: Stores, removal: Action) -> int:
    """Members of a removal that are neither in the tables nor removed."""
    absent = 0
    for block in read_members(stores.annotations, removal):
        where = ids_filter(block)
        absent += len(block) - stores.tables.episodes.count(where) - len(stores.tables.removed.ids(where))
    return absent
