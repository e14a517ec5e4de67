"""What people removed, tagged, noted and purged, from the numbered actions in the log."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from ares.episode import Json
from ares.errors import RequestError
from ares.registry import did_you_mean
from ares.store.log.protocol import ACTIONS
from ares.store.sql import batched

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.log.protocol import AnnotationStore
    from ares.store.temp_db import TempDatabase


ActionKind = Literal[
    "remove",
    "tag",
    "untag",
    "note",
    "set_values",
    # Of earlier versions, which stored the address of a page under a name and took failures out of the log.
    "view_save",
    "view_delete",
    "clear_failures",
    "set_delete",
    "set_rename",
    "set_note",
    "accept_failures",
    "trust_answers",
    "evaluate",
    "undo",
    "purge",
]
TAG_KINDS: frozenset[ActionKind] = frozenset(("tag", "untag"))
NOTE_KINDS: frozenset[ActionKind] = frozenset(("note",))
VALUE_KINDS: frozenset[ActionKind] = frozenset(("set_values",))
# Kinds that the tables show; all others are read from the log alone.
_TABLE_KINDS: frozenset[ActionKind] = TAG_KINDS | NOTE_KINDS | VALUE_KINDS | {"remove", "purge", "set_delete"}
ACTION_MEMBERS = "action_members"
# Ids per document: 160 kB, as the members of a set.
_DOCUMENT_IDS = 10_000
TOMBSTONES = "tombstones"
REMOVED_REASON = "removed earlier and not read again: `ares undo` brings it back"
PURGED_REASON = "deleted for good earlier and refused"
# Columns of texts that people add to episodes.
TAGS, NOTES = "tags", "notes"
# What the rows (episode_id, value, number, is_added) of the actions say of each episode. The last action about an
# episode and a tag decides, and so does the last about a value, where an empty one takes an earlier one away.
_DESIRED = {
    TAGS: """
SELECT episode_id, list_sort(list(value)) AS value FROM (
    SELECT episode_id, value FROM operations GROUP BY episode_id, value HAVING arg_max(is_added, number)
) GROUP BY episode_id
""",
    NOTES: "SELECT episode_id, list(value ORDER BY number) AS value FROM operations GROUP BY episode_id",
    "": """
SELECT episode_id, arg_max_null(value, number) AS value FROM operations GROUP BY episode_id HAVING value IS NOT NULL
""",
}
# Headers of sets by the name and version that they were frozen under, and their members in blocks below these keys.
SET_HEADERS, SET_MEMBERS = "sets", "set_members"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change that a person asked for; it is never changed, save that a purge takes episodes out of it.

    Attributes:
        number: 1, 2, ... in the order of the log; `ares undo NUMBER` names it.
        kind: What was done.
        person: Name of the person.
        created: ISO 8601 time in UTC.
        count: Episodes, sets, failures or trials that it is about.
        members: Key of the list of episodes, failures or trials in the log, or "".
        purged: Of its episodes, how many were deleted for good since.
        details: What else the kind needs: `tag`, `labels`, `name`, `note`, `query`, `undoes`, `column` with its `type`,
            the people `of` whom answers of an `origin` count, a `file` of results with the `sets` of its policies, and
            the `recipe` of a selection.
    """

    number: int
    kind: ActionKind
    person: str
    created: str
    count: int
    members: str = ""
    purged: int = 0
    details: Mapping[str, Json] = field(default_factory=dict)

    @property
    def undoes(self) -> int:
        """Number of the action that an undo takes back; 0 for all other kinds."""
        return int(str(self.details.get("undoes", 0)))

    @property
    def tag(self) -> str:
        """The tag that is added or removed, or ""."""
        return str(self.details.get("tag", ""))

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the log and for output."""
        return asdict(self)


def curation_action_from_json(document: Json) -> Action:
    """The action that `Action.to_json` wrote."""
    stated = cast("dict[str, Any]", document)
    return Action(**{part.name: stated[part.name] for part in fields(Action)})


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

    def undo_of(self, action: Action) -> Action:
        """The undo that takes back an action that does not count."""
        undos = (later for later in self.actions if later.undoes == action.number)
        return next(later for later in undos if self.is_effective(later))

    def effective(self, kinds: Collection[str]) -> list[Action]:
        """The actions of some kinds that count, oldest first."""
        return [action for action in self.actions if action.kind in kinds and self.is_effective(action)]

    def root(self, action: Action) -> Action:
        """What an undo is about in the end: the action at the end of the chain of undos, or the action itself."""
        while action.kind == "undo" and action.undoes in self._by_number:
            action = self._by_number[action.undoes]
        return action

    def shown_after(self, number: int) -> tuple[int, ...]:
        """Numbers of the actions after a number that the tables show, oldest first."""
        new = (action for action in self.actions if action.number > number)
        return tuple(action.number for action in new if self.root(action).kind in _TABLE_KINDS)

    def user_columns(self, after: int = 0) -> dict[str, str]:
        """Type of every column that people have set values of, those that were taken back too.

        Args:
            after: Only columns that an action after this number is about.
        """
        roots = [self.root(action) for action in self.actions if action.number > after]
        changed = {str(root.details["column"]) for root in roots if root.kind == "set_values"}
        every = [
            *filter(lambda action: action.kind == "set_values", self.actions),
            *self.effective(VALUE_KINDS),
        ]
        # What counts decides: a name that was taken back may have got another type since.
        types = {str(action.details["column"]): str(action.details["type"]) for action in every}
        return {name: types[name] for name in types if name in changed}

    def kinds_after(self, number: int) -> set[ActionKind]:
        """The kinds of change that the actions after a number make; an undo makes that of what it takes back."""
        return {self.root(action).kind for action in self.actions if action.number > number}


def read_history(annotations: AnnotationStore) -> ActionHistory:
    """The actions of a log. Raises StoreError."""
    return ActionHistory(
        [curation_action_from_json(document) for _, document in annotations.find_documents(ACTIONS)]
    )


def new_members_key() -> str:
    """A key for a list of members that no other list has."""
    return uuid.uuid4().hex


def write_action_members(
    annotations: AnnotationStore, key: str, members: Iterable[Json], size: int = _DOCUMENT_IDS
) -> int:
    """Write the members of an action before the action itself. Returns their number. Raises StoreError.

    Args:
        annotations: The log.
        key: Of the list, see `new_members_key`.
        members: Ids of episodes, or pairs of an id and what else there is of it.
        size: Members per document.
    """
    count = 0
    for number, block in enumerate(batched(members, size)):
        annotations.put_documents(ACTION_MEMBERS, {f"{key}/{number:06d}": list[Json](block)})
        count += len(block)
    return count


def read_action_members(annotations: AnnotationStore, action: Action) -> Iterator[list[Any]]:
    """The members of an action in blocks of some thousands; nothing for one without. Raises StoreError."""
    if action.members:
        for _, block in annotations.find_documents(ACTION_MEMBERS, f"{action.members}/"):
            yield cast("list[Any]", block)


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


def hash_episode_identity(workspace_id: str, episode_id: str) -> str:
    """32 hex digits of an episode in a workspace; the same episode has another hash in another workspace."""
    digest = hashlib.blake2b(episode_id.encode(), digest_size=16, key=workspace_id.encode()[:64])
    return digest.hexdigest()


def read_tombstones(annotations: AnnotationStore) -> frozenset[str]:
    """The hashes of all purged episodes. Raises StoreError."""
    return frozenset(key for key, _ in annotations.find_documents(TOMBSTONES))


def add_tombstones(annotations: AnnotationStore, identity_hashes: Iterable[str], created: str) -> None:
    """Remember that the episodes of some hashes were purged. Raises StoreError."""
    documents: dict[str, Json] = dict.fromkeys(identity_hashes, created)
    annotations.put_documents(TOMBSTONES, documents)


def removed_id_array(annotations: AnnotationStore, history: ActionHistory) -> pa.ChunkedArray:
    """Ids of the episodes that are removed, (N,) strings in Arrow: a quarter of the memory of Python strings."""
    import pyarrow as pa

    chunks = [
        pa.array(block, pa.string())
        for action in history.effective(("remove",))
        for block in read_action_members(annotations, action)
    ]
    return pa.chunked_array(chunks, pa.string())


def write_desired_values(
    annotations: AnnotationStore, history: ActionHistory, database: TempDatabase, column: str
) -> None:
    """Write the table "desired_values" (episode_id, value) of the temporary database: what people say of a column.

    Args:
        annotations: The log.
        history: Its actions.
        database: The temporary database.
        column: A column that people have set; or "tags", sorted, or "notes", oldest first.
    """
    import pyarrow as pa

    from ares.store.lance.schema import arrow_type

    kind = pa.string() if column in (TAGS, NOTES) else arrow_type(history.user_columns()[column])
    schema = pa.schema(
        [("episode_id", pa.string()), ("value", kind), ("number", pa.int64()), ("is_added", pa.bool_())]
    )
    database.insert("operations", schema, _read_operations(annotations, history, column, schema))
    database.create_table_as("desired_values", _DESIRED.get(column, _DESIRED[""]))
    database.drop_tables("operations")


def _read_operations(
    annotations: AnnotationStore, history: ActionHistory, column: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Rows of the actions about a column, with the value that each says of an episode."""
    import pyarrow as pa

    for action in history.effective({TAGS: TAG_KINDS, NOTES: NOTE_KINDS}.get(column, VALUE_KINDS)):
        if action.kind in VALUE_KINDS and (
            (action.details["column"], action.details["type"]) != (column, history.user_columns()[column])
        ):
            continue
        for block in read_action_members(annotations, action):
            size = len(block)
            if action.kind in VALUE_KINDS:
                ids, values = [pair[0] for pair in block], [pair[1] for pair in block]
            else:
                ids, values = block, [action.tag or str(action.details.get("note", ""))] * size
            columns = [ids, values, [action.number] * size, [action.kind != "untag"] * size]
            arrays = [pa.array(items, kind) for items, kind in zip(columns, schema.types, strict=True)]
            yield pa.record_batch(arrays, schema=schema)


class RemovedIds:
    """Tells of an episode of a source whether it was removed or purged, so that it is not read again.

    Args:
        annotations: The log.
        workspace_id: The workspace, which the hashes of purged episodes belong to.
    """

    def __init__(self, annotations: AnnotationStore, workspace_id: str) -> None:
        removed = removed_id_array(annotations, read_history(annotations))
        self._ids = set(removed.to_pylist())
        self._purged_hashes = read_tombstones(annotations)
        self._workspace_id = workspace_id

    def reason(self, episode_id: str) -> str:
        """Why an episode is not read, or ""."""
        if episode_id in self._ids:
            return REMOVED_REASON
        if (
            self._purged_hashes
            and hash_episode_identity(self._workspace_id, episode_id) in self._purged_hashes
        ):
            return PURGED_REASON
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEdits:
    """What has happened to sets since they were frozen; a key is a name with the number of a version.

    Attributes:
        deleted: Keys that sets were frozen under and that are deleted.
        renamed: The key of today by the key that a set was frozen under.
        notes: The note by the key that a set was frozen under.
    """

    deleted: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def read_set_edits(annotations: AnnotationStore) -> SetEdits:
    """The changes of all sets. Raises StoreError."""
    changes = SetEdits()
    for action in read_history(annotations).effective(("set_delete", "set_rename", "set_note")):
        if action.kind == "set_delete":
            changes.deleted.update(_set_keys_of_action(action))
        elif action.kind == "set_rename":
            changes.renamed.update(_set_keys_of_action(action))
        else:
            changes.notes.update(dict.fromkeys(_set_keys_of_action(action), str(action.details["note"])))
    return changes


def _set_keys_of_action(action: Action) -> Mapping[str, str]:
    """The sets that an action is about: the new key by the key that each was frozen under."""
    return cast("Mapping[str, str]", action.details["keys"])


def find_set(annotations: AnnotationStore, name: str) -> tuple[str, Iterator[str]]:
    """The label of the newest version of a set "name", or of "name@2", and the ids of its episodes, streamed.

    Raises RequestError naming the sets that there are.
    """
    edits, keys = read_set_edits(annotations), dict[tuple[str, int], str]()
    for key, _ in annotations.find_documents(SET_HEADERS):
        if key not in edits.deleted:
            plain, _, version = edits.renamed.get(key, key).rpartition("@")
            keys[plain, int(version)] = key
    plain, _, number = name.partition("@")
    versions = [version for other, version in keys if other == plain and number in ("", str(version))]
    if not versions:
        names = sorted({other for other, _ in keys})
        raise RequestError(
            f"no set {name!r}", f"{did_you_mean(name, names)}there are: {', '.join(names) or 'none yet'}"
        )
    blocks = annotations.find_documents(SET_MEMBERS, f"{keys[plain, max(versions)]}/")
    # Spans are lines that begin with the id of their episode.
    members = (member.partition(" ")[0] for _, block in blocks for member in cast("list[str]", block))
    return f"{plain}@{max(versions)}", members
