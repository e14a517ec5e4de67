"""The table of a split: the side of each content, which stays when the set grows, is made again or is merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from ares.curation.sets import CurationSet, Sets
from ares.names import check_name
from ares.store import batched, list_named_sets

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.store import AnnotationStore


# Documents under the name of the set that is split: "rule", "seed", and what was "drawn", the side and the id of the
# episode by content, of so many contents at most.
SPLITS, _BLOCK_ROWS = "splits", 20_000
# In place of a name: the rows that ingested exports brought.
_BROUGHT = ""


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

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> SplitRow:
        """The row of `to_json`. Raises KeyError, TypeError, ValueError or RequestError for anything else."""
        names = ("content_hash", "side", "episode_id")
        check_name("part", str(document["side"]))
        by, seed = tuple(map(str, document["rule"])), int(document["seed"])
        return cls(by=by, seed=seed, **{name: str(document[name]) for name in names})


def read_split_rows(log: AnnotationStore, name: str) -> Iterator[SplitRow]:
    """The rows that are stored under the name of a set, streamed."""
    # No name of a set has an "@".
    for _, document in log.find_documents(SPLITS, f"{name}@"):
        block = cast("Mapping[str, Any]", document)
        by, seed = tuple(block["rule"]), int(block["seed"])
        for content, drawn in block["drawn"].items():
            side, _, episode_id = drawn.rpartition(" ")
            yield SplitRow(content_hash=content, side=side, by=by, seed=seed, episode_id=episode_id)


def read_sides(log: AnnotationStore) -> dict[str, dict[str, str]]:
    """By name of a set the side of each content in its split."""
    sides: dict[str, dict[str, str]] = {}
    for key, document in log.find_documents(SPLITS):
        drawn = cast("Mapping[str, Any]", document)["drawn"]
        contents = {content: text.rpartition(" ")[0] for content, text in drawn.items()}
        sides.setdefault(key.partition("@")[0], {}).update(contents)
    return sides


def write_split_rows(
    log: AnnotationStore, name: str, rows: Iterable[SplitRow], *, fresh: bool = False
) -> None:
    """Store rows under the name of a set, in place of those of the same contents, or of all of them if fresh."""
    merged = {} if fresh else {row.content_hash: row for row in read_split_rows(log, name)}
    merged.update((row.content_hash, row) for row in rows)
    by_draw: dict[tuple[tuple[str, ...], int], list[SplitRow]] = {}
    for _, row in sorted(merged.items()):
        by_draw.setdefault((row.by, row.seed), []).append(row)
    blocks: list[dict[str, Json]] = [
        {
            "rule": list(by),
            "seed": seed,
            "drawn": {row.content_hash: f"{row.side} {row.episode_id}" for row in block},
        }
        for (by, seed), drawn in by_draw.items()
        for block in batched(drawn, _BLOCK_ROWS)
    ]
    log.drop_documents(SPLITS, [key for key, _ in log.find_documents(SPLITS, f"{name}@")])
    log.put_documents(SPLITS, {f"{name}@{number:06d}": block for number, block in enumerate(blocks)})


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


def add_brought_sides(log: AnnotationStore, table: SplitTable, contents: Mapping[str, str]) -> SplitTable:
    """The table with the sides that ingested exports brought of contents that it does not know.

    Args:
        log: The annotation log.
        table: What is known of a set.
        contents: The content of each of its episodes, by id.
    """
    ids = {content: id for id, content in contents.items()}
    brought = {
        row.content_hash: replace(row, episode_id=ids[row.content_hash])
        for row in read_split_rows(log, _BROUGHT)
        if row.content_hash in ids and not table.sides_of(row.content_hash, ids[row.content_hash])
    }
    sides = {content: frozenset((row.side,)) for content, row in brought.items()}
    return replace(table, rows={**table.rows, **brought}, sides={**table.sides, **sides})


def keep_brought_rows(log: AnnotationStore, rows: Iterable[SplitRow]) -> None:
    """Store the split of a set of another workspace, of which an export is ingested; what is known stays."""
    known = {row.content_hash for row in read_split_rows(log, _BROUGHT)}
    if new := [row for row in rows if row.content_hash not in known]:
        write_split_rows(log, _BROUGHT, new)


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
        labels += list_named_sets(str(recipe.get("where") or ""))
        for label in map(str, labels):
            name = label.partition("@")[0]
            if name not in known:
                known.add(name)
                names.update(dict.fromkeys(_names_of_set(sets, name)))
                waiting += [version.recipe for version in sets.versions(name)]
    return list(names)
