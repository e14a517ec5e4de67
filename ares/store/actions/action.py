"""Action: one change that a person asked for, as the log keeps it; a later action can take it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from ares.episode import Json

ActionKind = Literal[
    "remove",
    "tag",
    "untag",
    "note",
    "view_save",
    "view_delete",
    "set_delete",
    "set_rename",
    "set_note",
    "clear_failures",
    "undo",
    "purge",
]
TAG_KINDS: frozenset[ActionKind] = frozenset(("tag", "untag"))
NOTE_KINDS: frozenset[ActionKind] = frozenset(("note",))
VIEW_KINDS: frozenset[ActionKind] = frozenset(("view_save", "view_delete"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One change that a person asked for; it is never changed, save that a purge takes episodes out of it.

    Attributes:
        number: 1, 2, ... in the order of the log; `ares undo NUMBER` names it.
        kind: What was done.
        person: Name of the person.
        created: ISO 8601 time in UTC.
        count: Episodes, sets or failures that it is about.
        members: Key of the list of episodes or failures in the log, or "".
        purged: Of its episodes, how many were deleted for good since.
        details: What else the kind needs: `tag`, `labels`, `name`, `note`, `query`, `undoes`, and the `recipe` of a
            selection.
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
        return {
            "number": self.number,
            "kind": self.kind,
            "person": self.person,
            "created": self.created,
            "count": self.count,
            "members": self.members,
            "purged": self.purged,
            "details": dict(self.details),
        }


def action_from_json(document: Json) -> Action:
    """The action that `Action.to_json` wrote."""
    fields = cast("dict[str, Json]", document)
    return Action(
        number=int(str(fields["number"])),
        kind=cast("ActionKind", fields["kind"]),
        person=str(fields["person"]),
        created=str(fields["created"]),
        count=int(str(fields["count"])),
        members=str(fields["members"]),
        purged=int(str(fields["purged"])),
        details=cast("Mapping[str, Json]", fields["details"]),
    )
