"""Frozen, versioned sets of episodes or of spans: stored as documents, changed by actions, written as lock files."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, groupby, islice, repeat
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ares.console import count_of
from ares.episode import Json, Span
from ares.errors import RequestError, UnknownName
from ares.names import check_name
from ares.registry import did_you_mean
from ares.settings import user_name
from ares.store import (
    SET_HEADERS,
    SET_MEMBERS,
    Action,
    ActionKind,
    SetEdits,
    StagedIds,
    read_set_edits,
    record_action,
)

if TYPE_CHECKING:
    from ares.store import AnnotationStore


# Tokens joined into one piece, so that a terminal is not flushed at every line.
_PIECE_TOKENS = 4096


class _StreamedList(list[object]):
    """A list that is not empty and that the JSON encoder reads once, item by item, from an iterator."""

    def __init__(self, items: Iterator[object]) -> None:
        super().__init__()
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return self._items

    def __bool__(self) -> bool:
        return True


def stream_json(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of a document with an indent of one space; no list is held in memory.

    Args:
        document: JSON values by name. A value that is an iterator is written as a list while it is read.
    """
    values = {
        name: _as_list(value) if isinstance(value, Iterator) else value for name, value in document.items()
    }
    tokens = json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(values)
    while piece := "".join(islice(tokens, _PIECE_TOKENS)):
        yield piece


def _as_list(items: Iterator[object]) -> list[object]:
    first_item = list(islice(items, 1))
    return _StreamedList(chain(first_item, items)) if first_item else []


_VERSIONS_COLLECTION = "set_versions"
# Exports of sets, by the key of the set and a hash of the folder: "set", "path", "created", "options" of the request,
# and "failed", the members that are not in it.
EXPORTS = "exports"
# Ids per document: 160 kB, far below the limit of MongoDB (16 MB); a million ids are a hundred documents.
_DOCUMENT_IDS = 10_000
# Characters per document, for spans with long texts.
_DOCUMENT_CHARACTERS = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationSet:
    """A frozen selection: its members never change, and another selection of the same name is a new version.

    Attributes:
        name: Its name, see `ares.names.check_name`.
        version: 1, 2, ... within the name.
        created: ISO 8601 time in UTC.
        recipe: How the members were selected (filter, search text, number of listed ids), to repeat the selection.
        episodes: Number of episodes that are members, or of which spans are.
        ids_hash: 16 hex digits over the sorted members.
        note: What a person wrote of it, or "".
        person: Who froze it; "" where an earlier version of ARES has not kept it.
        purged: Former members that were deleted for good; `episodes` and `ids_hash` are those of the rest.
        frozen_as: Name and version that it was frozen under, where it was renamed since; else "".
        num_spans: Number of members where these are spans; None where they are whole episodes.
        listed: The members of a selection that no workspace has stored, sorted; () for a set.
    """

    name: str
    version: int
    created: str
    recipe: Mapping[str, Json]
    episodes: int
    ids_hash: str
    note: str = ""
    person: str = ""
    purged: int = 0
    frozen_as: str = ""
    num_spans: int | None = None
    listed: tuple[str, ...] = ()

    @property
    def num_members(self) -> int:
        """Number of episodes or spans that are its members."""
        return self.episodes if self.num_spans is None else self.num_spans

    @property
    def size(self) -> str:
        """Its members in words: "5 episodes" or "12 spans of 5 episodes"."""
        spans = "" if self.num_spans is None else f"{count_of(self.num_spans, 'span', comma=True)} of "
        return f"{spans}{count_of(self.episodes, 'episode', comma=True)}"

    @property
    def label(self) -> str:
        """Name and version in the form that `Sets[...]` accepts: "accepted@2"."""
        return f"{self.name}@{self.version}"

    @property
    def frozen_key(self) -> str:
        """Key that it was frozen under: that of its members."""
        return self.frozen_as or f"{self.name}@{self.version:06d}"

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the store and for output."""
        return {
            "name": self.name,
            "version": self.version,
            "created": self.created,
            "recipe": dict(self.recipe),
            "episodes": self.episodes,
            **({} if self.num_spans is None else {"spans": self.num_spans}),
            "ids_hash": self.ids_hash,
            **({"note": self.note} if self.note else {}),
            **({"person": self.person} if self.person else {}),
            **({"purged": self.purged} if self.purged else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDiff:
    """The differences between two sets.

    Attributes:
        added: Number of members only in the second set.
        removed: Number of members only in the first set.
        common: Number of members in both.
    """

    added: int
    removed: int
    common: int
    _sets: Sets = field(repr=False)
    _pair: tuple[CurationSet, CurationSet] = field(repr=False)

    def added_ids(self) -> Iterator[str]:
        """Members only in the second set, sorted, streamed: ids of episodes, or lines of spans."""
        return (id for id, side in self._sets.merge(*self._pair) if side == "right")

    def removed_ids(self) -> Iterator[str]:
        """Members only in the first set, sorted, streamed: ids of episodes, or lines of spans."""
        return (id for id, side in self._sets.merge(*self._pair) if side == "left")


class Sets:
    """The sets of a workspace by name; iteration yields the names.

    Every method may raise StoreError when the store cannot be reached.
    """

    def __init__(self, store: AnnotationStore) -> None:
        self._store = store

    def create(self, name: str, episode_ids: Iterable[str], recipe: Mapping[str, Json]) -> CurationSet:
        """Freeze a selection; the order of the ids and repeated ids do not matter.

        Returns the newest version of that name when it has the same members, else a new version.
        Raises RequestError for an invalid name and for an empty selection.
        """
        return self._create(name, episode_ids, recipe, are_spans=False)

    def create_spans(self, name: str, spans: Iterable[Span], recipe: Mapping[str, Json]) -> CurationSet:
        """Freeze spans; of several with the same episode, start and end one is kept, with a text if any has one.

        Version and errors are those of `create`.
        """
        return self._create(name, (span.line for span in spans), recipe, are_spans=True)

    def _create(
        self, name: str, members: Iterable[str], recipe: Mapping[str, Json], *, are_spans: bool
    ) -> CurationSet:
        check_name("set", name, lambda: self)
        with StagedIds(members) as staged:
            if not staged.count:
                matched = ", ".join(f"{name} {value}" for name, value in recipe.items() if value)
                hint = "; what is missing fulfils only IS NULL and IS NOT TRUE" if recipe.get("where") else ""
                raise RequestError(
                    "the set would be empty", f"nothing matched {matched or 'the empty list'}{hint}"
                )
            with self._store.atomic():
                ids_hash, episodes, count = hash_members(_distinct_spans(staged) if are_spans else staged)
                versions = self.versions(name)
                if versions and versions[-1].ids_hash == ids_hash:
                    return versions[-1]
                created = datetime.now(UTC).isoformat(timespec="seconds")
                selection = CurationSet(
                    name=name,
                    version=self._claim_version(name, versions[-1].version if versions else 0, created),
                    created=created,
                    recipe=dict(recipe),
                    episodes=episodes,
                    ids_hash=ids_hash,
                    person=user_name(),
                    num_spans=count if are_spans else None,
                )
                self._write(selection, _distinct_spans(staged) if are_spans else iter(staged))
                return selection

    def delete(self, name: str, person: str = "") -> Action:
        """Delete all versions of "name", or exactly "name@2"; `undo` brings them back.

        The numbers of its versions are not used again. Raises RequestError for an unknown name.
        """
        selections = self.select(name)
        keys = {selection.frozen_key: _displayed_key(selection) for selection in selections}
        return self._record(
            "set_delete", person, keys, {"labels": [selection.label for selection in selections]}
        )

    def rename(self, name: str, new_name: str, person: str = "") -> Action:
        """Give all versions of a name another name, under which no set exists.

        A version keeps its number, unless a deleted set of the new name had it.

        Raises:
            RequestError: The name is unknown, or the new name cannot be one or is in use.
        """
        check_name("set", new_name)
        if self.versions(new_name):
            raise RequestError(
                f"there is a set {new_name!r} already", "choose another name, or delete it first"
            )
        selections, keys, version = self.select(name.partition("@")[0]), dict[str, str](), 0
        if "@" in name:
            raise RequestError(
                "all versions of a set are renamed together", f"give {name.partition('@')[0]!r}"
            )
        labels: list[Json] = [selection.label for selection in selections]
        with self._store.atomic():
            for selection in selections:
                version = self._claim_version(
                    new_name, max(version, selection.version - 1), selection.frozen_key
                )
                keys[selection.frozen_key] = f"{new_name}@{version:06d}"
            return self._record("set_rename", person, keys, {"labels": labels, "name": new_name})

    def note(self, name: str, text: str, person: str = "") -> Action:
        """Write a note to the newest version of "name", or to exactly "name@2"; it replaces an earlier note.

        Raises RequestError for an unknown name.
        """
        selection = self[name]
        keys = {selection.frozen_key: _displayed_key(selection)}
        return self._record("set_note", person, keys, {"labels": [selection.label], "note": text.strip()})

    def _record(
        self, kind: ActionKind, person: str, keys: Mapping[str, str], details: Mapping[str, Json]
    ) -> Action:
        return record_action(
            self._store,
            kind,
            person.strip() or user_name(),
            count=len(keys),
            details={"keys": dict(keys), **details},
        )

    def select(self, name: str) -> list[CurationSet]:
        """All versions of "name", or exactly "name@2". Raises RequestError."""
        return [self[name]] if "@" in name else self.versions(self[name].name)

    def __getitem__(self, name: str) -> CurationSet:
        """The newest version of "name", or exactly "name@2". Raises RequestError naming those that exist."""
        plain, _, version = str(name).partition("@")
        versions = self.versions(plain)
        matches = [selection for selection in versions if not version or str(selection.version) == version]
        if not matches:
            existing = [selection.label for selection in versions] or list(self)
            raise UnknownName(
                f"no set {name!r}",
                f"{did_you_mean(str(name), existing)}there are: {', '.join(existing) or 'none yet'}",
            )
        return matches[-1]

    def __iter__(self) -> Iterator[str]:
        """Distinct names, sorted."""
        yield from sorted({selection.name for selection in self._all()})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def versions(self, name: str) -> list[CurationSet]:
        """All versions of a name, oldest first; empty for an unknown name."""
        changes = read_set_edits(self._store)
        # Without a renamed set all versions of a name lie side by side.
        prefix = "" if changes.renamed else f"{name}@"
        return sorted(
            (selection for selection in self._all(prefix, changes) if selection.name == name),
            key=lambda selection: selection.version,
        )

    def _all(self, prefix: str = "", changes: SetEdits | None = None) -> Iterator[CurationSet]:
        """The sets that are not deleted, under their names of today."""
        changes = read_set_edits(self._store) if changes is None else changes
        for key, document in self._store.find_documents(SET_HEADERS, prefix):
            if key not in changes.deleted:
                yield _apply_changes(read_header(document), key, changes)

    def stored_keys(self) -> set[str]:
        """The keys that all sets were frozen under, deleted ones included: the first parts of the keys of members."""
        return {key for key, _ in self._store.find_documents(SET_HEADERS)}

    def ids(self, selection: CurationSet) -> Iterator[str]:
        """Ids of the episodes that are members, or of which spans are, sorted, streamed."""
        members = self.members(selection)
        return members if selection.num_spans is None else _episodes_of_lines(members)

    def episodes_of(self, frozen_key: str) -> Iterator[str]:
        """Ids of the episodes of the set that was frozen under a key, sorted, also where it was deleted since."""
        blocks = self._store.find_documents(SET_MEMBERS, f"{frozen_key}/")
        return _episodes_of_lines(member for _, block in blocks for member in cast("list[str]", block))

    def spans(self, selection: CurationSet) -> Iterator[Span]:
        """The members of a set of spans by episode and time, streamed; none of a set of episodes."""
        return iter(()) if selection.num_spans is None else map(Span.parse, self.members(selection))

    def members(self, selection: CurationSet) -> Iterator[str]:
        """The members, sorted, streamed: ids of episodes, or lines of spans."""
        yield from selection.listed
        for _, block in self._store.find_documents(SET_MEMBERS, f"{selection.frozen_key}/"):
            yield from cast("list[str]", block)

    def diff(self, a: CurationSet, b: CurationSet) -> SetDiff:
        """The changes from set `a` to set `b`. Raises RequestError for one of episodes and one of spans."""
        if (a.num_spans is None) != (b.num_spans is None):
            raise RequestError(
                "a set of spans and one of episodes cannot be compared",
                f"{a.label} has {a.size}, {b.label} has {b.size}",
            )
        counts = {"left": 0, "right": 0, "both": 0}
        for _, side in self.merge(a, b):
            counts[side] += 1
        return SetDiff(
            added=counts["right"], removed=counts["left"], common=counts["both"], _sets=self, _pair=(a, b)
        )

    def merge(self, a: CurationSet, b: CurationSet) -> Iterator[tuple[str, str]]:
        """Every member of either set, sorted, with the side that has it: "left", "right" or "both"."""
        left, right = zip(self.members(a), repeat("left")), zip(self.members(b), repeat("right"))
        for member, same in groupby(heapq.merge(left, right), key=itemgetter(0)):
            sides = [side for _, side in same]
            yield member, sides[0] if len(sides) == 1 else "both"

    def create_locked(self, selection: CurationSet, members: Iterable[str]) -> CurationSet:
        """Store a set that `parse_lock` read, under its name and version, in a workspace without that set."""
        frozen = replace(selection, frozen_as="")
        with self._store.atomic():
            self._store.claim_document(_VERSIONS_COLLECTION, frozen.frozen_key, frozen.created)
            self._write(frozen, iter(members))
        return frozen

    def write_lock(
        self, selection: CurationSet, path: Path, recipe: Mapping[str, Json] = MappingProxyType({})
    ) -> None:
        """Write a set with its members to a JSON file, for a training repository; `parse_lock` reads it.

        Who froze it stays in the workspace.

        Args:
            selection: The set.
            path: The file.
            recipe: More fields of the file, between the set and its members.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".tmp")
        with partial.open("w") as file:
            header = replace(selection, person="").to_json()
            file.writelines(stream_json({**header, **recipe, "ids": self.members(selection)}))
            file.write("\n")
        partial.replace(path)

    def _claim_version(self, name: str, version: int, claim: str) -> int:
        """Reserve the next free version number, also against processes that freeze the same name concurrently.

        Args:
            name: Name of the set.
            version: The number before the first that will do.
            claim: What is stored with the number; a number with the same claim is used again.
        """
        while True:
            version += 1
            key = f"{name}@{version:06d}"
            if self._store.claim_document(_VERSIONS_COLLECTION, key, claim):
                return version
            if "@" in claim and self._store.get_document(_VERSIONS_COLLECTION, key) == claim:
                return version

    def _write(self, selection: CurationSet, ids: Iterator[str]) -> None:
        for number, block in enumerate(_blocks_of_members(ids)):
            self._store.put_documents(
                SET_MEMBERS, {f"{selection.frozen_key}/{number:06d}": list[Json](block)}
            )
        # The header is written last, so that every set that can be read is complete.
        self._store.put_documents(SET_HEADERS, {selection.frozen_key: selection.to_json()})


def hash_members(members: Iterable[str]) -> tuple[str, int, int]:
    """A hash of sorted members, 16 hex digits, the number of episodes, and that of members."""
    digest, count, episodes, last = hashlib.blake2b(digest_size=8), 0, 0, ""
    for member in members:
        digest.update(f"{member}\n".encode("utf-8", "surrogatepass"))
        count += 1
        episode_id = member.partition(" ")[0]
        episodes += episode_id != last
        last = episode_id
    return digest.hexdigest(), episodes, count


def _episodes_of_lines(lines: Iterable[str]) -> Iterator[str]:
    """The distinct episodes of sorted lines of spans."""
    return (episode_id for episode_id, _ in groupby(lines, key=lambda line: line.partition(" ")[0]))


def _distinct_spans(lines: Iterable[str]) -> Iterator[str]:
    """Of sorted lines one for each episode, start and end: the first with a text, else the first."""
    for _, same in groupby(lines, key=lambda line: line.split(" ", 3)[:3]):
        first = next(same)
        candidates = (line for line in chain([first], same) if line.split(" ", 4)[4])
        yield next(candidates, first)


def _blocks_of_members(members: Iterator[str]) -> Iterator[list[str]]:
    """The members in lists that a document can hold."""
    block: list[str] = []
    characters = 0
    for member in members:
        if len(block) == _DOCUMENT_IDS or (block and characters + len(member) > _DOCUMENT_CHARACTERS):
            yield block
            block, characters = [], 0
        block.append(member)
        characters += len(member)
    if block:
        yield block


def _displayed_key(selection: CurationSet) -> str:
    return f"{selection.name}@{selection.version:06d}"


def _apply_changes(selection: CurationSet, key: str, changes: SetEdits) -> CurationSet:
    """A set as it was frozen under a key, with its name and note of today."""
    note, today = changes.notes.get(key, ""), changes.renamed.get(key, key)
    if today != key:
        name, _, version = today.rpartition("@")
        selection = replace(selection, name=name, version=int(version), frozen_as=key)
    return replace(selection, note=note) if note else selection


def read_header(document: Json) -> CurationSet:
    fields = cast("dict[str, object]", document)
    return CurationSet(
        name=str(fields["name"]),
        version=int(cast("int", fields["version"])),
        created=str(fields["created"]),
        recipe=cast("Mapping[str, Json]", fields["recipe"]),
        episodes=int(cast("int", fields["episodes"])),
        ids_hash=str(fields["ids_hash"]),
        person=str(fields.get("person", "")),
        purged=int(cast("int", fields.get("purged", 0))),
        num_spans=None if fields.get("spans") is None else int(cast("int", fields["spans"])),
    )
