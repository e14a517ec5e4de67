"""What people add to episodes without changing their data: tags, notes, values, saved views and chosen makers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ares.console import count_of
from ares.curation.removal import record_and_apply_action
from ares.episode import Json
from ares.errors import RequestError
from ares.names import check_name
from ares.settings import user_name
from ares.store import (
    CONFLICT,
    DISAGREEMENT,
    NOTE_KINDS,
    NOTES,
    REVIEWED,
    REVIEWER,
    TAG_KINDS,
    TAGS,
    VALUE_KINDS,
    VIEW_KINDS,
    Action,
    ActionKind,
    MakerCatalog,
    arrow_type,
    check_ids_once,
    declared_columns,
    is_column_name,
    load_applied_state,
    pin_makers,
    read_action_members,
    read_history,
    read_pins,
    record_action,
)

if TYPE_CHECKING:
    import pyarrow as pa

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
        return {"tag": self.tag, "episodes": self.episodes, "person": self.person, "changed": self.changed}


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


# Values of a column as people say them, and values per document of the log: a text may take six bytes a character.
_VALUE_WORDS = {"bool": "true or false", "int64": "whole numbers", "float64": "numbers", "string": "texts"}
_BLOCK_VALUES, _BLOCK_TEXTS, _MAX_VALUE_CHARACTERS = 10_000, 2_000, 1_000
_MAX_COLUMN_NAME = 60
_PEOPLE_COLUMNS = frozenset((TAGS, NOTES, REVIEWED, REVIEWER, CONFLICT, DISAGREEMENT))


class _ValuePairs(Iterable["Json"]):
    """The rows of a table as pairs of an id and a value, made some thousands at a time."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Json]:
        for batch in self._rows.to_batches(_BLOCK_VALUES):
            yield from map(list[Json], zip(*(values.to_pylist() for values in batch.columns), strict=True))


def set_values(
    stores: Stores, column: str, episode_ids: pa.Array, values: pa.Array, *, person: str = ""
) -> Action:
    """Set values of a column of people's own, a new one or one that they have set before.

    Args:
        stores: Stores of the workspace.
        column: Small letters, digits and "_", no name of any other column.
        episode_ids: (N,) strings, each once.
        values: (N,) flags, numbers or texts; a missing one, NaN too, takes away what is there.
        person: Who sets them; the user by default.

    Raises:
        RequestError: The name is in use or no name, an id is no episode, or the values have another type.
        StoreError: The log cannot be written.
    """
    import pyarrow as pa

    typed = _typed_values(column, values, _own_column_type(stores, column))
    rows = pa.table({"episode_id": episode_ids, "value": typed}).sort_by("episode_id")
    check_ids_once(stores, rows["episode_id"])
    type_name = {pa.float64(): "float64", pa.int64(): "int64", pa.bool_(): "bool"}.get(typed.type, "string")
    details: dict[str, Json] = {"column": column, "type": type_name}
    block = _BLOCK_TEXTS if type_name == "string" else _BLOCK_VALUES
    return record_and_apply_action(stores, "set_values", _ValuePairs(rows), details, person, block)


def _own_column_type(stores: Stores, column: str) -> str:
    """Type of a column of people, "" for a new one. Raises RequestError for a name in use, or that cannot be one."""
    history = read_history(stores.annotations)
    actions = [action.details for action in history.effective(VALUE_KINDS)]
    if types := [str(details["type"]) for details in actions if details["column"] == column]:
        return types[-1]
    if not isinstance(column, str) or not is_column_name(column) or len(column) > _MAX_COLUMN_NAME:
        raise RequestError(
            "that cannot be the name of a column",
            f"{column!r}; use a word of up to {_MAX_COLUMN_NAME} small letters, digits and '_'",
        )
    declared = {declared.name for declared in declared_columns(stores.annotations.makers().values())}
    existing = set(stores.tables.episodes.snapshot().arrow_schema.names) - history.own_columns().keys()
    if column in existing | declared | _PEOPLE_COLUMNS:
        raise RequestError(f"there is a column {column!r} already", "give your values another name")
    return ""


def _typed_values(column: str, values: pa.Array, type_name: str) -> pa.Array:
    """The values with the type of their column, "" for their own. Raises RequestError for others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    own = next((name for name, is_kind in _kind_checks().items() if is_kind(kind)), "")
    if pa.types.is_null(kind):
        own = type_name
    target = type_name or own
    fits = own == target or {own, target} == {"int64", "float64"}
    if not own or not fits or not len(values):
        expected = _VALUE_WORDS.get(target, "true or false, numbers or texts")
        example = next((repr(value) for value in values.drop_null()[:1].to_pylist()), "no value")
        raise RequestError(f"the column {column!r} takes {expected}", f"got {kind}, such as {example[:100]}")
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
    try:
        typed = values.cast(arrow_type(target))
    except pa.ArrowInvalid as error:
        line = str(error).splitlines()[0]
        raise RequestError(f"the column {column!r} takes {_VALUE_WORDS[target]}", line) from None
    too_large = pc.is_inf(typed) if target == "float64" else pa.scalar(False)
    if target == "string":
        too_large = pc.greater(pc.utf8_length(typed), _MAX_VALUE_CHARACTERS)
    if pc.any(too_large).as_py() if isinstance(too_large, pa.Array | pa.ChunkedArray) else False:
        limit = (
            f"texts of at most {_MAX_VALUE_CHARACTERS:,} characters"
            if target == "string"
            else "finite numbers"
        )
        raise RequestError(
            f"the column {column!r} takes {limit}", f"got {typed.filter(too_large)[0].as_py()!r:.100}"
        )
    return typed


def _kind_checks() -> dict[str, Callable[[pa.DataType], bool]]:
    """By type of a column whether an Arrow type is one of its values."""
    import pyarrow.types as types

    def is_text(kind: pa.DataType) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    return {
        "bool": types.is_boolean,
        "int64": types.is_integer,
        "float64": types.is_floating,
        "string": is_text,
    }


_MAX_VIEW_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedView:
    """A view under a name.

    Attributes:
        name: Its name.
        query: Parameters of its address, such as {"q": ["drawer"], "cut": ["0.6"]}.
        person: Who saved it.
        created: When, ISO 8601 time in UTC.
    """

    name: str
    query: Mapping[str, Sequence[str]]
    person: str
    created: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        query: dict[str, Json] = {name: list[Json](texts) for name, texts in self.query.items()}
        return {"name": self.name, "query": query, "person": self.person, "created": self.created}


def save_view(stores: Stores, name: str, query: Mapping[str, Sequence[str]], *, person: str = "") -> Action:
    """Save a view; it replaces one of the same name, which an undo brings back.

    Args:
        stores: Stores of the workspace.
        name: A name, see `ares.names.check_name`.
        query: Parameters of the address of the view; none for all episodes.
        person: Who saves it; the user by default.

    Raises:
        RequestError: The text cannot be a name, or the view is too long, or has parameters without values.
        StoreError: The log cannot be written.
    """
    check_name("view", name, lambda: (view.name for view in list_views(stores)))
    size = sum(len(text) for texts in query.values() for text in texts)
    if query and not 0 < size <= _MAX_VIEW_CHARACTERS:
        raise RequestError(
            "a view has a search or a filter",
            f"got {count_of(size, 'character', comma=True)} of at most {_MAX_VIEW_CHARACTERS:,}",
        )
    details: dict[str, Json] = {
        "name": name,
        "query": {key: list[Json](texts) for key, texts in query.items()},
    }
    return record_action(
        stores.annotations, "view_save", person.strip() or user_name(), count=1, details=details
    )


def delete_view(stores: Stores, name: str, *, person: str = "") -> Action:
    """Delete a view. Raises RequestError when there is none of that name, and StoreError."""
    _require_view(stores, name)
    return record_action(
        stores.annotations, "view_delete", person.strip() or user_name(), count=1, details={"name": name}
    )


def list_views(stores: Stores) -> list[SavedView]:
    """The views of a workspace, by name. Raises StoreError."""
    views: dict[str, SavedView] = {}
    for action in read_history(stores.annotations).effective(VIEW_KINDS):
        name = str(action.details["name"])
        if action.kind == "view_delete":
            views.pop(name, None)
            continue
        query = cast("Mapping[str, Sequence[str]]", action.details["query"])
        views[name] = SavedView(name=name, query=query, person=action.person, created=action.created)
    return [views[name] for name in sorted(views)]


def _require_view(stores: Stores, name: str) -> None:
    names = [view.name for view in list_views(stores)]
    if name not in names:
        raise RequestError(f"no view {name!r}", f"there are: {', '.join(names) or 'none yet'}")


def maker_catalog(stores: Stores) -> MakerCatalog:
    """The makers of a workspace, with the rules by which the tables show them now."""
    annotations = stores.annotations
    state = load_applied_state(stores.tables)
    return MakerCatalog(annotations.makers(), read_pins(annotations), state.maker_sequences)


def choose_shown_makers(stores: Stores, makers: Mapping[str, str]) -> dict[str, str]:
    """Pin makers, so that their annotations alone fill the columns of their annotators.

    Args:
        stores: Stores of the workspace.
        makers: By annotator a maker_id, the unique start of one, or "newest" to unpin.

    Returns:
        The maker_id, or "newest", by annotator.

    Raises:
        RequestError: An annotator or a maker does not exist, or several begin so; then nothing is changed.
    """
    with stores.write_lock("the choice of makers"):
        pinned = pin_makers(stores.annotations, makers)
        stores.sync()
    return pinned
