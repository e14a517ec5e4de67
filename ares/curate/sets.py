"""Sets: frozen, versioned selections of episodes, kept as documents of the annotation store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ares.annotation import canonical
from ares.episode import Json
from ares.errors import RequestError
from ares.longjson import pieces
from ares.store.filters import chunks
from ares.store.scratch import Scratch

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore

_HEADS = "sets"
_TAKEN = "set_versions"
MEMBERS = "set_members"
# Ids per document: 160 kB, far below MongoDB's 16 MB, and a million ids are a hundred documents.
_BLOCK = 10_000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationSet:
    """A frozen selection; its members never change, a new selection under the same name is a new version.

    Attributes:
        name: Letters, digits, "-", "_" and ".".
        version: 1, 2, ... within the name.
        created: ISO 8601 time in UTC.
        recipe: How the members were chosen (filter, search text, ids file), for people and for repeating it.
        episodes: Number of members.
        ids_hash: 16 hex digits over the sorted member ids.
    """

    name: str
    version: int
    created: str
    recipe: Mapping[str, Json]
    episodes: int
    ids_hash: str

    @property
    def label(self) -> str:
        """Name and version, as `Sets[...]` takes them: "accepted@2"."""
        return f"{self.name}@{self.version}"

    def to_json(self) -> dict[str, Json]:
        """The fields, as stored and as printed."""
        return {
            "name": self.name,
            "version": self.version,
            "created": self.created,
            "recipe": dict(self.recipe),
            "episodes": self.episodes,
            "ids_hash": self.ids_hash,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What lies between two sets.

    Attributes:
        added: Number of episodes that only the second has.
        removed: Number of episodes that only the first has.
        common: Number of episodes in both.
    """

    added: int
    removed: int
    common: int
    _sets: Sets
    _pair: tuple[CurationSet, CurationSet]

    def added_ids(self) -> Iterator[str]:
        """Ids that only the second set has, sorted, streamed."""
        return (id for id, where in self._sets.merge(*self._pair) if where == "right")

    def removed_ids(self) -> Iterator[str]:
        """Ids that only the first set has, sorted, streamed."""
        return (id for id, where in self._sets.merge(*self._pair) if where == "left")


class Sets:
    """The sets of a workspace, by name; iterating gives the names.

    Every method may raise StoreError when the store cannot be reached.
    """

    def __init__(self, store: AnnotationStore) -> None:
        self._store = store

    def create(self, name: str, episode_ids: Iterable[str], recipe: Mapping[str, Json]) -> CurationSet:
        """Freeze a selection; the order of ids does not matter and repeated ones count once.

        Returns the newest version of that name when it has the same members, else a new version.
        Raises RequestError for a name that is no plain name and for an empty selection.
        """
        if not _NAME.fullmatch(name):
            raise RequestError("a set needs a plain name", f"{name!r}; use letters, digits, '-', '_' and '.'")
        with Scratch() as scratch:
            if not _sort(episode_ids, scratch):
                raise RequestError("the set would be empty", f"nothing matched {canonical(dict(recipe))}")
            return self._create(name, scratch, recipe)

    def _create(self, name: str, scratch: Scratch, recipe: Mapping[str, Json]) -> CurationSet:
        hashed, counted = hash_ids(_sorted(scratch))
        versions = self.versions(name)
        if versions and versions[-1].ids_hash == hashed:
            return versions[-1]
        created = datetime.now(UTC).isoformat(timespec="seconds")
        made = CurationSet(
            name=name,
            version=self._next(name, versions[-1].version if versions else 0, created),
            created=created,
            recipe=dict(recipe),
            episodes=counted,
            ids_hash=hashed,
        )
        self._write(made, _sorted(scratch))
        return made

    def __getitem__(self, name: str) -> CurationSet:
        """The newest version of "name", or exactly "name@2". Raises RequestError naming those there are."""
        plain, _, version = name.partition("@")
        versions = self.versions(plain)
        wanted = [one for one in versions if not version or str(one.version) == version]
        if not wanted:
            there = [one.label for one in versions] or list(self)
            raise RequestError(f"no set {name!r}", f"there are: {', '.join(there) or 'none yet'}")
        return wanted[-1]

    def __iter__(self) -> Iterator[str]:
        """Names, sorted, each once."""
        yield from sorted({key.rpartition("@")[0] for key, _ in self._store.find(_HEADS)})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def versions(self, name: str) -> list[CurationSet]:
        """Every version of a name, oldest first; empty for an unknown name."""
        return [_head(document) for _, document in self._store.find(_HEADS, f"{name}@")]

    def ids(self, chosen: CurationSet) -> Iterator[str]:
        """The members, sorted, streamed."""
        for _, block in self._store.find(MEMBERS, f"{_key(chosen)}/"):
            yield from cast("list[str]", block)

    def diff(self, a: CurationSet, b: CurationSet) -> Diff:
        """What changes from `a` to `b`."""
        counts = {"left": 0, "right": 0, "both": 0}
        for _, where in self.merge(a, b):
            counts[where] += 1
        return Diff(
            added=counts["right"], removed=counts["left"], common=counts["both"], _sets=self, _pair=(a, b)
        )

    def merge(self, a: CurationSet, b: CurationSet) -> Iterator[tuple[str, str]]:
        """Every id of either set, sorted, with where it is: "left", "right" or "both"."""
        left, right = self.ids(a), self.ids(b)
        one, other = next(left, None), next(right, None)
        while one is not None or other is not None:
            if other is None or (one is not None and one < other):
                yield cast("str", one), "left"
                one = next(left, None)
            elif one is None or other < one:
                yield other, "right"
                other = next(right, None)
            else:
                yield one, "both"
                one, other = next(left, None), next(right, None)

    def lock(self, chosen: CurationSet, path: Path) -> None:
        """Write the set with its ids as a JSON file, to be kept in a training repository; see `read_lock`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".tmp")
        with partial.open("w") as file:
            file.writelines(pieces({**chosen.to_json(), "ids": self.ids(chosen)}))
            file.write("\n")
        partial.replace(path)

    def _next(self, name: str, version: int, created: str) -> int:
        """A version number that nobody else gets, also of those who freeze a set of that name right now."""
        while True:
            version += 1
            if self._store.claim(_TAKEN, f"{name}@{version:06d}", created):
                return version

    def _write(self, made: CurationSet, ids: Iterator[str]) -> None:
        for number, block in enumerate(chunks(ids, _BLOCK)):
            self._store.put(MEMBERS, {f"{_key(made)}/{number:06d}": list[Json](block)})
        # The head is written last: a set that can be found is whole.
        self._store.put(_HEADS, {_key(made): made.to_json()})


def read_lock(path: Path) -> tuple[CurationSet, list[str]]:
    """Read a lock file back. Raises RequestError when it is none, or when its ids were changed."""
    try:
        document = json.loads(path.read_text())
        chosen, ids = _head(document), [str(id) for id in document["ids"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError("the lock file cannot be read", f"{path}: {error!r}") from None
    hashed, counted = hash_ids(ids)
    if (hashed, counted) != (chosen.ids_hash, chosen.episodes):
        raise RequestError(
            "the lock file was changed after it was written",
            f"{path}: {counted} ids with hash {hashed}, expected {chosen.episodes} with {chosen.ids_hash}",
        )
    return chosen, ids


def hash_ids(ids: Iterable[str]) -> tuple[str, int]:
    """16 hex digits over sorted ids, and how many they are."""
    digest, counted = hashlib.blake2b(digest_size=8), 0
    for id in ids:
        digest.update(f"{id}\n".encode())
        counted += 1
    return digest.hexdigest(), counted


def _sort(ids: Iterable[str], scratch: Scratch) -> int:
    """Put ids into the scratch, each once. Returns how many they are."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.string())])
    batches = (
        pa.record_batch([pa.array(chunk, pa.string())], schema=schema) for chunk in chunks(ids, _BLOCK)
    )
    scratch.put("given_ids", schema, batches)
    return scratch.make("ids", "SELECT DISTINCT id FROM given_ids")


def _sorted(scratch: Scratch) -> Iterator[str]:
    for batch in scratch.stream("SELECT id FROM ids ORDER BY id"):
        yield from batch["id"].to_pylist()


def _key(chosen: CurationSet) -> str:
    return f"{chosen.name}@{chosen.version:06d}"


def _head(document: Json) -> CurationSet:
    fields = cast("dict[str, object]", document)
    return CurationSet(
        name=str(fields["name"]),
        version=int(cast("int", fields["version"])),
        created=str(fields["created"]),
        recipe=cast("Mapping[str, Json]", fields["recipe"]),
        episodes=int(cast("int", fields["episodes"])),
        ids_hash=str(fields["ids_hash"]),
    )
