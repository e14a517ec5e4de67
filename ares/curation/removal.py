"""Removes episodes by an action of the log, and takes this or any other action back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ares.console import count_of
from ares.curation.failures import apply_acceptances
from ares.episode import Json
from ares.errors import RequestError, StoreError
from ares.settings import user_name
from ares.store import (
    Action,
    ActionHistory,
    ActionKind,
    applied_action,
    follow_trust,
    ids_filter,
    new_members_key,
    read_action_members,
    read_history,
    record_action,
    write_action_members,
)

if TYPE_CHECKING:
    from ares.curation.selection import SelectedEpisodes
    from ares.jobs import EpisodeSelection
    from ares.store import Stores


_BATCH = 10_000


def remove_episodes(
    stores: Stores, selected: SelectedEpisodes, *, person: str = "", note: str = ""
) -> Action:
    """Remove episodes: they vanish from the tables, and the log keeps everything; `undo` brings them back.

    Args:
        stores: Stores of the workspace.
        selected: The episodes, with how they were selected, for the log.
        person: Who removes them; the user by default.
        note: Why, in the person's words.

    Returns:
        The action; it is shown at once, or when the job ends that writes to the workspace meanwhile.

    Raises:
        RequestError: There is no episode to remove.
        StoreError: The log cannot be written.
    """
    if not selected.count:
        raise RequestError("no episode is selected", "nothing was removed")
    details: dict[str, Json] = {"recipe": selected.recipe, **({"note": note} if note else {})}
    return record_and_apply_action(stores, "remove", selected, details, person)


def record_and_apply_action(
    stores: Stores,
    kind: ActionKind,
    members: Iterable[Json],
    details: Mapping[str, Json],
    person: str,
    block_size: int = _BATCH,
) -> Action:
    """Add an action about some episodes to the log, and apply it to the tables.

    Where an interrupted command had left the same action, and it was completed now, that one is returned.

    Args:
        stores: Stores of the workspace.
        kind: What is done.
        members: Ids of the episodes, or pairs of an id and a value, sorted; iterated again where that is needed.
        details: What else the action says.
        person: Who does it; the user by default.
        block_size: Members per document of the log.

    Raises:
        StoreError: The log or the tables cannot be written, or an earlier action could not be completed.
    """
    log, person = stores.annotations, person.strip() or user_name()
    _require_earlier_actions(stores)
    for action in _completed_actions(stores, kind, person):
        blocks = read_action_members(log, action)
        if action.details == details and list(members) == [member for block in blocks for member in block]:
            return action
    with _record_together(stores, kind) as recorded:
        key = new_members_key()
        count = write_action_members(log, key, members, block_size)
        recorded.append(record_action(log, kind, person, count=count, members=key, details=details))
    return recorded[0]


@contextmanager
def _record_together(stores: Stores, kind: str) -> Iterator[list[Action]]:
    """Store what the block records as one, then let the tables show it; an error of that names the action."""
    recorded: list[Action] = []
    try:
        with stores.applying(f"ares {kind}"), stores.annotations.atomic():
            yield recorded
    except StoreError as error:
        if recorded and read_history(stores.annotations).get(recorded[0].number):
            detail = (
                f"{error.detail}; action {recorded[0].number} is recorded, and the next command completes it"
            )
            raise type(error)(error.reason, detail) from error
        raise


def _require_earlier_actions(stores: Stores) -> None:
    """Raise StoreError where the tables lack an earlier action, and cannot be written."""
    stores.catch_up()
    if stores.lag:
        raise StoreError(f"the tables do not show {stores.lag}", "nothing else was recorded")


def _completed_actions(stores: Stores, kind: str, person: str) -> list[Action]:
    """Actions of a kind and a person that an interrupted command had left, and that were completed now."""
    if not stores.completed:
        return []
    numbers, stores.completed = stores.completed, ()  # what is done after this is new
    actions = map(read_history(stores.annotations).get, numbers)
    return [action for action in actions if action and (action.kind, action.person) == (kind, person)]


def _members_of(stores: Stores, action: Action) -> set[str]:
    return {episode_id for block in read_action_members(stores.annotations, action) for episode_id in block}


def completed_removal(stores: Stores, selection: EpisodeSelection, note: str = "") -> Action | None:
    """The removal of these episodes that an interrupted command had left, and that was completed now; or None.

    Its episodes cannot be selected any more.
    """
    stores.catch_up()
    for action in _completed_actions(stores, "remove", user_name()):
        is_same = (
            action.details.get("recipe") == selection.describe() and action.details.get("note", "") == note
        )
        members = _members_of(stores, action) if is_same else set()
        # An id may be the start of one.
        others = set(selection.ids) - members
        if is_same and all(any(member.startswith(start) for member in members) for start in others):
            return action
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """What an undo has done.

    Attributes:
        action: The undo itself; it can be taken back by its number.
        undone: What it took back.
        absent: Episodes that are not removed any more but whose rows are gone: ingesting their source brings them back.
        pending: Whether another job writes to the workspace, which will show the change when it ends.
        already: Whether it had been taken back before, by `action`, and nothing was done now.
    """

    action: Action
    undone: Action
    absent: int
    pending: bool
    already: bool = False

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def undo(stores: Stores, number: int | None = None, *, person: str = "") -> UndoReport:
    """Take back an action: from then on everything is as if it had not been done.

    Args:
        stores: Stores of the workspace.
        number: Number of the action; None for the last action of the person that counts and is no undo
            itself. One that is taken back already stays so.
        person: Who takes it back; the user by default.

    Raises:
        RequestError: There is nothing to take back, or the action cannot be taken back (any more).
        StoreError: The log cannot be written.
    """
    person = person.strip() or user_name()
    _require_earlier_actions(stores)
    history = read_history(stores.annotations)
    for action in _completed_actions(stores, "undo", person):
        if number in (None, action.undoes):
            return _report_undo(stores, history, action)
    undone = _last_action_of_person(history, person) if number is None else _action_by_number(history, number)
    if not history.is_effective(undone):
        return replace(_report_undo(stores, history, history.undo_of(undone)), already=True)
    _check_undoable(history, undone)
    with _record_together(stores, "undo") as recorded:
        count, details = undone.count - undone.purged, {"undoes": undone.number}
        recorded.append(record_action(stores.annotations, "undo", person, count=count, details=details))
        apply_acceptances(stores)
        if (root := history.root(undone)).kind == "trust_answers":
            counts = read_history(stores.annotations).is_effective(root)
            follow_trust(stores.annotations, root, counts=counts)
    return _report_undo(stores, history, recorded[0])


def _report_undo(stores: Stores, history: ActionHistory, action: Action) -> UndoReport:
    """What an undo has done.

    Args:
        stores: Stores of the workspace.
        history: The actions that there are, with the one that was taken back.
        action: The undo.
    """
    undone = history.get(action.undoes)
    assert undone is not None
    pending = applied_action(stores.tables) < action.number
    is_removal = history.root(undone).kind == "remove"
    absent = _count_absent(stores, history.root(undone)) if is_removal and not pending else 0
    return UndoReport(action=action, undone=undone, absent=absent, pending=pending)


def _last_action_of_person(history: ActionHistory, person: str) -> Action:
    """The last action of a person that counts: nobody takes back unseen what somebody else has done since."""
    others = list[Action]()
    for action in reversed(history.actions):
        if action.kind not in ("undo", "purge", "clear_failures") and history.is_effective(action):
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


def _action_by_number(history: ActionHistory, number: int) -> Action:
    action = history.get(number)
    if action is None:
        raise RequestError(
            f"no action {number}", f"there are: 1 to {history.last}" if history.last else "none yet"
        )
    return action


def _check_undoable(history: ActionHistory, action: Action) -> None:
    if action.kind == "purge":
        raise RequestError(
            "a purge cannot be taken back",
            f"action {action.number} deleted {count_of(action.count, 'episode')} for good",
        )
    root = history.root(action)
    if root.kind == "clear_failures":
        raise RequestError(
            f"action {action.number} of an earlier version cannot be taken back",
            "it cleared failures; the next run tries again what is not done",
        )
    if root.members and root.purged and root.purged >= root.count:
        raise RequestError(
            f"action {action.number} cannot be taken back any more",
            "its episodes were deleted for good since",
        )


def _count_absent(stores: Stores, removal: Action) -> int:
    """Members of a removal that are neither in the tables nor removed."""
    absent = 0
    for block in read_action_members(stores.annotations, removal):
        where = ids_filter(block)
        absent += len(block) - stores.tables.episodes.count(where) - len(stores.tables.removed.ids(where))
    return absent
