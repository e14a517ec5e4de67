"""Frozen, versioned selections of episodes, stored as documents of the annotation store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ares.annotation import canonical_json
from ares.episode import Json
from ares.errors import RequestError
from ares.io import stream_json
from ares.store import TempDatabase
from ares.store.filters import batched

if TYPE_CHECKING:
    from ares.store.annotations import AnnotationStore

_HEADERS_COLLECTION = "sets"
_VERSIONS_COLLECTION = "set_versions"
MEMBERS_COLLECTION = "set_members"
# Ids per document: 160 kB, far below the limit of MongoDB (16 MB); a million ids are a hundred documents.
_DOCUMENT_IDS = 10_000
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationSet:
    """A frozen selection: its members never change, and another selection of the same name is a new version.

    Attributes:
        name: Letters, digits, "-", "_" and ".".
        version: 1, 2, ... within the name.
        created: ISO 8601 time in UTC.
        recipe: How the members were selected (filter, search text, number of listed ids), to repeat the selection.
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
        """Name and version in the form that `Sets[...]` accepts: "accepted@2"."""
        return f"{self.name}@{self.version}"

    def to_json(self) -> dict[str, Json]:
        """The fields as JSON, for the store and for output."""
        return {
            "name": self.name,
            "version": self.version,
            "created": self.created,
            "recipe": dict(self.recipe),
            "episodes": self.episodes,
            "ids_hash": self.ids_hash,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDiff:
    """The differences between two sets.

    Attributes:
        added: Number of episodes only in the second set.
        removed: Number of episodes only in the first set.
        common: Number of episodes in both.
    """

    added: int
    removed: int
    common: int
    _sets: Sets
    _pair: tuple[CurationSet, CurationSet]

    def added_ids(self) -> Iterator[str]:
        """Ids only in the second set, sorted, streamed."""
        return (id for id, side in self._sets.merge(*self._pair) if side == "right")

    def removed_ids(self) -> Iterator[str]:
        """Ids only in the first set, sorted, streamed."""
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
        if not _NAME.fullmatch(name):
            raise RequestError("a set needs a plain name", f"{name!r}; use letters, digits, '-', '_' and '.'")
        with TempDatabase() as database:
            if not _store_distinct(episode_ids, database):
                raise RequestError(
                    "the set would be empty", f"nothing matched {canonical_json(dict(recipe))}"
                )
            return self._create(name, database, recipe)

    def _create(self, name: str, database: TempDatabase, recipe: Mapping[str, Json]) -> CurationSet:
        ids_hash, count = hash_ids(_sorted_ids(database))
        versions = self.versions(name)
        if versions and versions[-1].ids_hash == ids_hash:
            return versions[-1]
        created = datetime.now(UTC).isoformat(timespec="seconds")
        selection = CurationSet(
            name=name,
            version=self._claim_version(name, versions[-1].version if versions else 0, created),
            created=created,
            recipe=dict(recipe),
            episodes=count,
            ids_hash=ids_hash,
        )
        self._write(selection, _sorted_ids(database))
        return selection

    def __getitem__(self, name: str) -> CurationSet:
        """The newest version of "name", or exactly "name@2". Raises RequestError naming those that exist."""
        plain, _, version = name.partition("@")
        versions = self.versions(plain)
        matches = [selection for selection in versions if not version or str(selection.version) == version]
        if not matches:
            existing = [selection.label for selection in versions] or list(self)
            raise RequestError(f"no set {name!r}", f"there are: {', '.join(existing) or 'none yet'}")
        return matches[-1]

    def __iter__(self) -> Iterator[str]:
        """Distinct names, sorted."""
        yield from sorted(
            {key.rpartition("@")[0] for key, _ in self._store.find_documents(_HEADERS_COLLECTION)}
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def versions(self, name: str) -> list[CurationSet]:
        """All versions of a name, oldest first; empty for an unknown name."""
        return [
            _read_header(document)
            for _, document in self._store.find_documents(_HEADERS_COLLECTION, f"{name}@")
        ]

    def ids(self, selection: CurationSet) -> Iterator[str]:
        """Ids of the members, sorted, streamed."""
        for _, block in self._store.find_documents(MEMBERS_COLLECTION, f"{_key(selection)}/"):
            yield from cast("list[str]", block)

    def diff(self, a: CurationSet, b: CurationSet) -> SetDiff:
        """The changes from set `a` to set `b`."""
        counts = {"left": 0, "right": 0, "both": 0}
        for _, side in self.merge(a, b):
            counts[side] += 1
        return SetDiff(
            added=counts["right"], removed=counts["left"], common=counts["both"], _sets=self, _pair=(a, b)
        )

    def merge(self, a: CurationSet, b: CurationSet) -> Iterator[tuple[str, str]]:
        """Every id of either set, sorted, with the side that has it: "left", "right" or "both"."""
        first_ids, second_ids = self.ids(a), self.ids(b)
        first, second = next(first_ids, None), next(second_ids, None)
        while first is not None or second is not None:
            if second is None or (first is not None and first < second):
                yield cast("str", first), "left"
                first = next(first_ids, None)
            elif first is None or second < first:
                yield second, "right"
                second = next(second_ids, None)
            else:
                yield first, "both"
                first, second = next(first_ids, None), next(second_ids, None)

    def write_lock(self, selection: CurationSet, path: Path) -> None:
        """Write a set with its ids to a JSON file, for a training repository; `read_lock` reads it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".tmp")
        with partial.open("w") as file:
            file.writelines(stream_json({**selection.to_json(), "ids": self.ids(selection)}))
            file.write("\n")
        partial.replace(path)

    def _claim_version(self, name: str, version: int, created: str) -> int:
        """Reserve the next free version number, also against processes that freeze the same name concurrently."""
        while True:
            version += 1
            if self._store.claim_document(_VERSIONS_COLLECTION, f"{name}@{version:06d}", created):
                return version

    def _write(self, selection: CurationSet, ids: Iterator[str]) -> None:
        for number, block in enumerate(batched(ids, _DOCUMENT_IDS)):
            self._store.put_documents(
                MEMBERS_COLLECTION, {f"{_key(selection)}/{number:06d}": list[Json](block)}
            )
        # The header is written last, so that every set that can be read is complete.
        self._store.put_documents(_HEADERS_COLLECTION, {_key(selection): selection.to_json()})


def read_lock(path: Path) -> tuple[CurationSet, list[str]]:
    """Read a lock file. Raises RequestError for any other file, and when the ids were changed."""
    try:
        document = json.loads(path.read_text())
        selection, ids = _read_header(document), [str(id) for id in document["ids"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError("the lock file cannot be read", f"{path}: {error!r}") from None
    ids_hash, count = hash_ids(ids)
    if (ids_hash, count) != (selection.ids_hash, selection.episodes):
        expected = f"{selection.episodes} with {selection.ids_hash}"
        raise RequestError(
            "the lock file was changed after it was written",
            f"{path}: {count} ids with hash {ids_hash}, expected {expected}",
        )
    return selection, ids


def hash_ids(ids: Iterable[str]) -> tuple[str, int]:
    """A hash of sorted ids, 16 hex digits, and the number of ids."""
    digest, count = hashlib.blake2b(digest_size=8), 0
    for id in ids:
        digest.update(f"{id}\n".encode())
        count += 1
    return digest.hexdigest(), count


def _store_distinct(ids: Iterable[str], database: TempDatabase) -> int:
    """Store the distinct ids in the database. Returns their number."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.string())])
    batches = (
        pa.record_batch([pa.array(chunk, pa.string())], schema=schema)
        for chunk in batched(ids, _DOCUMENT_IDS)
    )
    database.insert("given_ids", schema, batches)
    return database.create_table_as("ids", "SELECT DISTINCT id FROM given_ids")


def _sorted_ids(database: TempDatabase) -> Iterator[str]:
    for batch in database.stream("SELECT id FROM ids ORDER BY id"):
        yield from batch["id"].to_pylist()


def _key(selection: CurationSet) -> str:
    return f"{selection.name}@{selection.version:06d}"


def _read_header(document: Json) -> CurationSet:
    fields = cast("dict[str, object]", document)
    return CurationSet(
        name=str(fields["name"]),
        version=int(cast("int", fields["version"])),
        created=str(fields["created"]),
        recipe=cast("Mapping[str, Json]", fields["recipe"]),
        episodes=int(cast("int", fields["episodes"])),
        ids_hash=str(fields["ids_hash"]),
    )
