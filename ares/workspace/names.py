"""What a name names: episodes by id, record or file, datasets, sets and tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from ares.curation import Sets
from ares.errors import RequestError
from ares.store import TAG_KINDS, TrustedFilter, quote_literal, read_history

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import Stores

NameKind = Literal["episode", "dataset", "set", "tag"]
# An id is 16 hex digits; fewer than these name too many.
_ID_START = re.compile(r"[0-9a-f]{4,16}")
_SEPARATOR = re.compile(r"[\s/:#]")
_EPISODE_COLUMNS = ("episode_id", "dataset", "split", "key", "source", "instruction")
_MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedThing:
    """One thing that has a name.

    Attributes:
        kind: What it is.
        name: Id of an episode, label of a set such as "accepted@2", name of a dataset or tag.
        detail: What tells it from others: dataset, split, record and instruction of an episode; size of a set.
        is_exact: Whether the text is its whole name, and not a part of it.
    """

    kind: NameKind
    name: str
    detail: str
    is_exact: bool

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON."""
        return asdict(self)


def find_names(stores: Stores, text: str, limit: int = 10) -> list[NamedThing]:
    """What a text names or begins to name, exact names first, then sets, datasets, tags and episodes.

    An episode has its id, its record (its key, with dataset or split before it: "droid train 12"), and the name of
    its file. Capitals do not matter for sets, datasets and tags.

    Args:
        stores: Stores of the workspace.
        text: 1 to 200 characters.
        limit: Most things of each kind.

    Raises:
        RequestError: The text is empty or too long.
    """
    text = " ".join(text.split())
    if not 1 <= len(text) <= _MOST_CHARACTERS:
        raise RequestError("a name has 1 to 200 characters", f"{len(text)} characters")
    sets, datasets = Sets(stores.annotations), _list_datasets(stores)
    tags = {action.tag for action in read_history(stores.annotations).effective(TAG_KINDS)}
    named = [
        *(_name_set(sets, label, text) for label in _select_matching(_set_labels(sets, text), text, limit)),
        *(_name_thing("dataset", name, "", text) for name in _select_matching(datasets, text, limit)),
        *(_name_thing("tag", name, "", text) for name in _select_matching(tags, text, limit)),
        *_find_episodes(stores, text, datasets, limit),
    ]
    return sorted(named, key=lambda thing: not thing.is_exact)


def _set_labels(sets: Sets, text: str) -> Iterable[str]:
    """Names of sets; a text with a version names that version."""
    return (selection.label for selection in sets.versions(text.partition("@")[0])) if "@" in text else sets


def _name_set(sets: Sets, label: str, text: str) -> NamedThing:
    selection = sets[label]
    is_exact = text.casefold() in (selection.name.casefold(), selection.label.casefold())
    return NamedThing(kind="set", name=selection.label, detail=selection.size, is_exact=is_exact)


def _name_thing(kind: NameKind, name: str, detail: str, text: str) -> NamedThing:
    return NamedThing(kind=kind, name=name, detail=detail, is_exact=name.casefold() == text.casefold())


def _select_matching(names: Iterable[str], text: str, limit: int) -> list[str]:
    """Names that have the text in them, the shortest first; those that begin with it before others."""
    part = text.casefold()
    matches = {name for name in names if part in name.casefold()}
    return sorted(matches, key=lambda name: (not name.casefold().startswith(part), len(name), name))[:limit]


def _list_datasets(stores: Stores) -> set[str]:
    import pyarrow.compute as pc

    batches = stores.tables.episodes.scan(["dataset"])
    return {name for batch in batches for name in pc.unique(batch["dataset"]).to_pylist()}


def _find_episodes(stores: Stores, text: str, datasets: set[str], limit: int) -> Iterator[NamedThing]:
    """Episodes by id, then by record, then by file, each once."""
    seen = set[str]()
    for condition, is_exact in _episode_conditions(text, datasets):
        rows = stores.tables.episodes.read_columns(_EPISODE_COLUMNS, TrustedFilter(condition), limit)
        new = [row for row in rows.to_pylist() if row["episode_id"] not in seen]
        for row in islice(new, max(0, limit - len(seen))):
            seen.add(row["episode_id"])
            record = " ".join(filter(None, (row["dataset"], row["split"], row["key"])))
            detail = ": ".join(filter(None, (record, row["instruction"])))
            yield NamedThing(kind="episode", name=row["episode_id"], detail=detail, is_exact=is_exact)
        if len(seen) >= limit:
            return


def _episode_conditions(text: str, datasets: set[str]) -> Iterator[tuple[str, bool]]:
    """Conditions that a text may mean, the surest first, and whether it is then a whole name."""
    start = text.lower()
    if _ID_START.fullmatch(start):
        yield f"starts_with(episode_id, {quote_literal(start)})", len(start) == 16
    yield " OR ".join(f"({record})" for record in _record_conditions(text, datasets)), True
    yield f"starts_with(key, {quote_literal(text)})", False
    yield f"contains(source, {quote_literal(text)})", False


def _record_conditions(text: str, datasets: set[str]) -> Iterator[str]:
    """Conditions of a key with a dataset, a split or both before it; any of these may have spaces or "/" in it."""
    text = re.sub(r"^episode\s+", "", text, flags=re.IGNORECASE)
    for dataset in sorted(datasets):
        rest = text[len(dataset) + 1 :]
        if rest and _SEPARATOR.match(text, len(dataset)) and text.casefold().startswith(dataset.casefold()):
            for condition in (f"key = {quote_literal(rest)}", *_split_condition(rest)):
                yield f"dataset = {quote_literal(dataset)} AND {condition}"
    yield from (f"key = {quote_literal(text)}", *_split_condition(text))


def _split_condition(text: str) -> list[str]:
    """The condition that the first word is a split and the rest a key; none for one word."""
    split, *rest = _SEPARATOR.split(text, maxsplit=1)
    return [f"split = {quote_literal(split)} AND key = {quote_literal(rest[0])}"] if rest and rest[0] else []
