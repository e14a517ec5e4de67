"""What people add to episodes without changing their data: tags, notes and chosen producers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ares.curation.removal import record_and_apply_action
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.store import (
    NOTE_KINDS,
    TAG_KINDS,
    TAGS,
    Action,
    ActionKind,
    ProducerCatalog,
    load_applied_state,
    pin_producers,
    read_action_members,
    read_history,
    read_pins,
)

if TYPE_CHECKING:
    from ares.curation.selection import SelectedEpisodes
    from ares.store import Stores


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
        return asdict(self)


def add_tag(stores: Stores, tag: str, selected: SelectedEpisodes, *, person: str = "") -> Action:
    """Add a tag to episodes; those that have it already keep it.

    Args:
        stores: Stores of the workspace.
        tag: A name, see `ares.names.check_name`.
        selected: The episodes, with how they were selected, for the log.
        person: Who adds it; the user by default.

    Raises:
        RequestError: The text cannot be a tag, or no episode is selected.
        StoreError: The log cannot be written.
    """
    return _record_tag_action(stores, "tag", tag, selected, person)


def remove_tag(stores: Stores, tag: str, selected: SelectedEpisodes, *, person: str = "") -> Action:
    """Remove a tag from episodes; those without it stay as they are. Arguments and errors are those of `add_tag`."""
    return _record_tag_action(stores, "untag", tag, selected, person)


def _record_tag_action(
    stores: Stores, kind: ActionKind, tag: str, selected: SelectedEpisodes, person: str
) -> Action:
    check_name("tag", tag, lambda: (use.tag for use in list_tags(stores)))
    if not selected.count:
        raise RequestError("no episode is selected", f"the tag {tag!r} was not changed")
    return record_and_apply_action(stores, kind, selected, {"tag": tag, "recipe": selected.recipe}, person)


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
        if any(episode_id in block for block in read_action_members(stores.annotations, action)):
            last[action.tag] = action
    return [
        {"tag": tag, "person": action.person, "created": action.created}
        for tag, action in sorted(last.items())
        if action.kind == "tag"
    ]


_MAX_NOTE_CHARACTERS = 2_000


def add_note(stores: Stores, text: str, selected: SelectedEpisodes, *, person: str = "") -> Action:
    """Write a note to episodes, beside those that they have; `undo` takes it back.

    Args:
        stores: Stores of the workspace.
        text: 1 to 2,000 characters.
        selected: The episodes, with how they were selected, for the log.
        person: Who writes it; the user by default.

    Raises:
        RequestError: The text is empty or too long, or no episode is selected.
        StoreError: The log cannot be written.
    """
    note = text.strip()
    check_note(note)
    if not selected.count:
        raise RequestError("no episode is selected", "the note was not written")
    return record_and_apply_action(
        stores, "note", selected, {"note": note, "recipe": selected.recipe}, person
    )


def check_note(note: str) -> None:
    """Raise RequestError for a text that cannot be a note."""
    if not 0 < len(note) <= _MAX_NOTE_CHARACTERS:
        raise RequestError(
            f"a note has 1 to {_MAX_NOTE_CHARACTERS:,} characters", f"got {len(note):,}; write it shorter"
        )


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
        if any(episode_id in block for block in read_action_members(stores.annotations, action))
    ]


def producer_catalog(stores: Stores) -> ProducerCatalog:
    """The producers of a workspace, with the rules by which the tables show them now."""
    annotations = stores.annotations
    state = load_applied_state(stores.tables)
    return ProducerCatalog(annotations.producers(), read_pins(annotations), state.producer_sequences)


def choose_shown_producers(stores: Stores, producers: Mapping[str, str]) -> dict[str, str]:
    """Pin producers, so that their annotations alone fill the columns of their annotators.

    Args:
        stores: Stores of the workspace.
        producers: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: An annotator or a producer does not exist, or several begin so; then nothing is changed.
    """
    with stores.write_lock("the choice of producers"):
        pinned = pin_producers(stores.annotations, producers)
        stores.sync()
    return pinned
