"""The table of a split: the side of each content, which stays when the set grows, is made again or is merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from ares.curation.sets import CurationSet, Sets

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import AnnotationStore


# A document for each content, under the name of the set that is split: "side", "rule", "seed" and "episode_id".
SPLITS = "splits"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRow:
    """The side of one content.

    Attributes:
        content_hash: Hash of the content; the id of the episode where the source has none.
        side: Name of the side, such as "val".
        by: Names by whose values it was drawn.
        seed: Seed that it was drawn with.
        episode_id: The episode that was drawn, which keeps its side when its content is read again.
    """

    content_hash: str
    side: str
    by: tuple[str, ...]
    seed: int
    episode_id: str

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the store, cards and exports."""
        return {
            "content_hash": self.content_hash,
            "side": self.side,
            "rule": list(self.by),
            "seed": self.seed,
            "episode_id": self.episode_id,
        }


def read_split_rows(log: AnnotationStore, name: str) -> Iterator[SplitRow]:
    """The rows that are stored under the name of a set, by content, streamed."""
    # No name of a set has an "@".
    for _, document in log.find_documents(SPLITS, f"{name}@"):
        fields = cast("Mapping[str, object]", document)
        yield SplitRow(
            content_hash=str(fields["content_hash"]),
            side=str(fields["side"]),
            by=tuple(cast("list[str]", fields["rule"])),
            seed=int(cast("int", fields["seed"])),
            episode_id=str(fields["episode_id"]),
        )


def write_split_rows(log: AnnotationStore, name: str, rows: Iterable[SplitRow]) -> None:
    """Store rows under the name of a set; a row replaces that of the same content."""
    log.put_documents(SPLITS, {f"{name}@{row.content_hash}": row.to_json() for row in rows})


def drop_split_rows(log: AnnotationStore, name: str) -> None:
    """Delete the rows that are stored under the name of a set."""
    log.drop_documents(SPLITS, [key for key, _ in log.find_documents(SPLITS, f"{name}@")])


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTable:
    """The sides that a set has from before.

    Attributes:
        rows: Rows by content: its own, and for other contents those of the sets that it was made of.
        rules: The names that its own rows were drawn by.
        sides: Sides by content and by id of the episode; more than one where the sets that it was made of differ.
    """

    rows: Mapping[str, SplitRow] = field(default_factory=dict)
    rules: frozenset[frozenset[str]] = frozenset()
    sides: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def sides_of(self, content_hash: str, episode_id: str) -> frozenset[str]:
        """The sides of an episode; none for a new one."""
        none = frozenset[str]()
        return self.sides.get(content_hash, none) | self.sides.get(episode_id, none)


def read_split_table(log: AnnotationStore, selection: CurationSet) -> SplitTable:
    """What is known of the sides of a set: by its name, by earlier names, and by the sets that it was made of."""
    sets, rows, rules = Sets(log), dict[str, SplitRow](), set[frozenset[str]]()
    own_sides, sides = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    own_names = _names_of_set(sets, selection.name)
    for name in own_names:
        for row in read_split_rows(log, name):
            rows.setdefault(row.content_hash, row)
            rules.add(frozenset(row.by))
            for key in (row.content_hash, row.episode_id):
                own_sides.setdefault(key, frozenset((row.side,)))
    for name in _names_of_parts(sets, selection, own_names):
        for row in read_split_rows(log, name):
            rows.setdefault(row.content_hash, row)
            for key in (row.content_hash, row.episode_id):
                sides[key] = sides.get(key, frozenset()) | {row.side}
    return SplitTable(rows=rows, rules=frozenset(rules), sides={**sides, **own_sides})


def carried_split(log: AnnotationStore, selection: CurationSet) -> list[SplitRow]:
    """The rows that travel with a set, sorted by content: those that it is a part of, else its own."""
    whole = selection.recipe.get("split_of")
    if whole:
        name = str(whole).partition("@")[0]
        rows = {
            row.content_hash: row
            for label in reversed(_names_of_set(Sets(log), name))
            for row in read_split_rows(log, label)
        }
        return [rows[key] for key in sorted(rows)]
    table = read_split_table(log, selection)
    return [row for key, row in sorted(table.rows.items()) if len(table.sides[key]) == 1]


def carried_name(selection: CurationSet) -> str:
    """The name under which another workspace stores what `carried_split` gives."""
    return str(selection.recipe.get("split_of") or selection.name).partition("@")[0]


def _names_of_set(sets: Sets, name: str) -> list[str]:
    """A name, and the names that its versions were frozen under."""
    frozen = (version.frozen_key.rpartition("@")[0] for version in sets.versions(name))
    return list(dict.fromkeys((name, *frozen)))


def _names_of_parts(sets: Sets, selection: CurationSet, known: Iterable[str]) -> list[str]:
    """The names of the sets that a set was made of, at any depth, without those that are known."""
    names, waiting, known = dict[str, None](), [selection.recipe], set(known)
    while waiting:
        recipe = waiting.pop()
        labels = [*cast("list[str]", recipe.get("sets") or ()), *filter(None, [recipe.get("set")])]
        for label in map(str, labels):
            name = label.partition("@")[0]
            if name not in known:
                known.add(name)
                names.update(dict.fromkeys(_names_of_set(sets, name)))
                waiting += [version.recipe for version in sets.versions(name)]
    return list(names)
