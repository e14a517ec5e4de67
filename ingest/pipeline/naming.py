"""Names of datasets: one that the workspace knows keeps its name, and two different ones never share a name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ares.errors import SourceError
from ares.jobs import LocalEngine
from ingest.base import Item, Source
from ingest.discovery import OpenedDataset, StoredDataset
from ingest.guard import GuardedItems, guarded_item
from ingest.pipeline.identity import read_identity, stored_identities, stored_ids
from ingest.pipeline.read import RecordIdentity, read_records, record_limits, start_reader

if TYPE_CHECKING:
    from ares.store import Stores

DatasetIdentity = tuple[str, str, str]
# Records of two datasets of one name that are compared; one that is equal proves that they are copies.
_COMPARED_RECORDS = 3
# Items among which records with the same identity are looked for, where two datasets come in one command.
_LISTED_ITEMS = 200
_SUFFIX_DIGITS = 6


@dataclass(slots=True)
class DatasetNamer:
    """Gives datasets names of their own.

    A dataset that was read from the same folder before keeps its name. Where another dataset has its format, name and
    version already and no compared record is equal, its name gets a suffix: six hex digits of the content of its first
    record. Of several that come together, the one with the smallest suffix keeps the plain name. So neither paths nor
    their order matter.

    Attributes:
        stores: The workspace, or None where there is none yet.
        stored: Its datasets.
    """

    stores: Stores | None
    stored: Sequence[StoredDataset]

    def name_all(self, datasets: Iterable[OpenedDataset]) -> None:
        """Reopen the datasets that need another name than their own."""
        contested: dict[DatasetIdentity, list[OpenedDataset]] = {}
        nameable = [opened for opened in datasets if len(opened.sources) == 1 and opened.sources[0].folder]
        for opened in nameable:
            if opened.options.dataset:
                continue
            name = self._name_before(opened, nameable)
            if name is None:
                contested.setdefault(_identity(opened.sources[0]), []).append(opened)
            elif name != opened.sources[0].dataset:
                _rename(opened, name)
        for identity, rivals in contested.items():
            self._settle(identity, rivals)

    def _name_before(self, opened: OpenedDataset, datasets: Sequence[OpenedDataset]) -> str | None:
        """The name under which its folder was read before, or None."""
        source = opened.sources[0]
        names = [
            stored.dataset
            for stored in self.stored
            if (stored.format, stored.version) == (source.format, source.version)
            and (opened.declared or stored.folder in ("", source.folder))
            and _holds(source.folder, stored.source)
            and not any(
                other.format == opened.format
                and len(other.sources[0].folder) > len(source.folder)
                and _holds(other.sources[0].folder, stored.source)
                for other in datasets
                if other is not opened
            )
        ]
        return source.dataset if source.dataset in names else min(names, default=None)

    def _settle(self, identity: DatasetIdentity, rivals: list[OpenedDataset]) -> None:
        known = any((s.format, s.dataset, s.version) == identity for s in self.stored)
        if len(rivals) == 1 and not known:
            return
        suffixes = {id(opened): _suffix(opened) for opened in rivals}
        rivals.sort(key=lambda opened: (suffixes[id(opened)], opened.path))
        owner = rivals[0]
        names: dict[int, str] = {}
        for opened in rivals:
            is_same = self._equals_stored(opened) if known else opened is owner or _are_equal(owner, opened)
            names[id(opened)] = identity[1] if is_same else f"{identity[1]}-{suffixes[id(opened)]}"
        for opened in rivals:  # at the end, as comparing used up their items
            _rename(opened, names[id(opened)])

    def _equals_stored(self, opened: OpenedDataset) -> bool:
        """Whether a dataset is a copy of the stored one of its name; also where no record of it can be read."""
        assert self.stores is not None
        source = _fresh_source(opened)
        ids = stored_ids(self.stores, source)
        items = list(
            islice((item for item in GuardedItems(source) if item.episode_id in ids), _COMPARED_RECORDS)
        )
        if not items:
            return False
        identities = [result for result in _read(opened, items) if result is not None]
        if not identities:
            return True
        stored = stored_identities(self.stores, [item.episode_id for item in items])
        hashes = {identity.content_hash for identity in stored.values()}
        return any(identity.has_hash(hash) for identity in identities for hash in hashes)


def _identity(source: Source) -> DatasetIdentity:
    return source.format, source.dataset, source.version


def _holds(folder: str, path: str) -> bool:
    return bool(folder) and path.startswith(folder.rstrip("/") + "/")


def _rename(opened: OpenedDataset, name: str) -> None:
    opened.reopen(replace(opened.options, dataset=name))


def _fresh_source(opened: OpenedDataset) -> Source:
    return opened.reopen(opened.options)[0]


def _first_items(opened: OpenedDataset, count: int) -> list[Item]:
    return list(islice(GuardedItems(_fresh_source(opened)), count))


def _read(opened: OpenedDataset, items: Sequence[Item]) -> list[RecordIdentity | None]:
    """Identities of records, None for one that cannot be read; fragile files are read by another process."""
    folder = opened.sources[0].folder if opened.sources else ""
    guarded = (guarded_item(item, opened.format, folder, opened.options.follow_links) for item in items)
    loads = [partial(read_identity, item.load) for item in guarded]
    if not any(source.fragile for source in opened.sources):
        results: Sequence[object] = read_records(loads)
    else:
        with closing(LocalEngine()) as engine:
            readers = engine.pool(
                read_records,
                max_workers=1,
                on_worker_death=SourceError,
                build=start_reader,
                start_after_seconds=0.0,
                limits=record_limits(),
            )
            results = readers.map(loads)
    return [result if isinstance(result, RecordIdentity) else None for result in results]


def _are_equal(first: OpenedDataset, second: OpenedDataset) -> bool:
    """Whether records of two datasets with the same identity have the same content."""
    by_id = {item.episode_id: item for item in _first_items(first, _LISTED_ITEMS)}
    common = [item for item in _first_items(second, _LISTED_ITEMS) if item.episode_id in by_id]
    common = common[:_COMPARED_RECORDS]
    pairs = zip(_read(first, [by_id[item.episode_id] for item in common]), _read(second, common), strict=True)
    return any(
        identity is not None and other is not None and identity.content_hash == other.content_hash
        for identity, other in pairs
    )


def _suffix(opened: OpenedDataset) -> str:
    """Six hex digits of the content of its first record that can be read, else of its file names and sizes."""
    for item in _first_items(opened, _COMPARED_RECORDS):
        (identity,) = _read(opened, [item])
        if identity is not None:
            return identity.content_hash[:_SUFFIX_DIGITS]
    prefix = len(opened.path)
    files = sorted(
        (path[prefix:], name, size)
        for path, entries in opened.listings.items()
        for name, size in entries.files.items()
    )
    return hashlib.blake2b(repr(files).encode(), digest_size=8).hexdigest()[:_SUFFIX_DIGITS]
