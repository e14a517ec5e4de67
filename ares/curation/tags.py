"""Tags of episodes: added and removed by people, as actions of the log; the column `tags` shows them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ares.curation.removal import record_members
from ares.curation.staged_ids import StagedIds
from ares.episode import Json
from ares.errors import RequestError
from ares.store.actions import TAG_KINDS, Action, read_history, read_members
from ares.store.sync import TAGS

if TYPE_CHECKING:
    from ares.store import Stores

_TAG = re.compile(r"[\w.:/+-]{1,80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagUse:
    """One tag of a workspace.

    Attributes:
        tag: The tag.
        episodes: Number of episodes that have it.
        person: Who added or removed it last.
        changed: When, ISO 8601 time in UTC.
    """

    tag: str
    episodes: int
    person: str
    changed: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return {"tag": self.tag, "episodes": self.episodes, "person": self.person, "changed": self.changed}


def add_tag(
    stores: Stores, tag: str, ids: StagedIds, recipe: Mapping[str, Json], *, person: str = ""
) -> Action:
    """Add a tag to episodes; those that have it already keep it.

    Args:
        stores: Stores of the workspace.
        tag: 1 to 80 letters, digits and "_", "-", ".", ":", "/" or "+".
        ids: Ids of episodes.
        recipe: How they were selected, for the log.
        person: Who adds it; the user by default.

    Raises:
        RequestError: The tag has another form, or no episode is selected.
        StoreError: The log cannot be written.
    """
    return _record(stores, "tag", tag, ids, recipe, person)


def remove_tag(
    stores: Stores, tag: str, ids: StagedIds, recipe: Mapping[str, Json], *, person: str = ""
) -> Action:
    """Remove a tag from episodes; those without it stay as they are. Arguments and errors are those of `add_tag`."""
    return _record(stores, "untag", tag, ids, recipe, person)


def _record(
    stores: Stores, kind: str, tag: str, ids: StagedIds, recipe: Mapping[str, Json], person: str
) -> Action:
    check_tag(tag)
    if not ids.count:
        raise RequestError("no episode is selected", f"the tag {tag!r} was not changed")
    details: dict[str, Json] = {"tag": tag, "recipe": dict(recipe)}
    return record_members(stores, "tag" if kind == "tag" else "untag", ids, details, person)


def check_tag(tag: str) -> None:
    """Raise RequestError for a text that cannot be a tag."""
    if not _TAG.fullmatch(tag):
        raise RequestError(
            "that cannot be a tag",
            f"{tag!r}; use up to 80 letters, digits and '_', '-', '.', ':', '/' or '+'",
        )


def tag_filter(tag: str) -> str:
    """The SQL filter of the episodes that have a tag. Raises RequestError for a text that cannot be a tag."""
    check_tag(tag)
    return f"array_has({TAGS}, '{tag}')"


def list_tags(stores: Stores) -> list[TagUse]:
    """Every tag that some episode has, by name. Raises StoreError."""
    import pyarrow.compute as pc

    counts: Counter[str] = Counter()
    for batch in stores.tables.episodes.scan([TAGS]) if TAGS in stores.tables.episodes.columns() else ():
        pairs = pc.value_counts(batch[TAGS].flatten()).to_pylist()
        counts.update({pair["values"]: pair["counts"] for pair in pairs})
    last = {action.tag: action for action in read_history(stores.annotations).effective(TAG_KINDS)}
    return [
        TagUse(
            tag=tag,
            episodes=counts[tag],
            person=last[tag].person if tag in last else "",
            changed=last[tag].created if tag in last else "",
        )
        for tag in sorted(counts)
    ]


def tags_of(stores: Stores, episode_id: str) -> list[dict[str, Json]]:
    """The tags of one episode, each with who added it last and when. Raises StoreError."""
    last: dict[str, Action] = {}
    for action in read_history(stores.annotations).effective(TAG_KINDS):
        if any(episode_id in block for block in read_members(stores.annotations, action)):
            last[action.tag] = action
    return [
        {"tag": tag, "person": action.person, "created": action.created}
        for tag, action in sorted(last.items())
        if action.kind == "tag"
    ]
