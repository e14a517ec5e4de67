"""Tells whether a record is the stored episode of the same id, or another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import SourceError
from ares.store.filters import ids_filter, quote_literal
from ingest.base import Item, Source
from ingest.pipeline.read import RecordIdentity

if TYPE_CHECKING:
    from ares.store import Stores


class IdentityConflict(SourceError):
    """A record whose episode id belongs to another record; the episode stored under that id has not failed."""


def read_identity(load: Callable[[], Record]) -> RecordIdentity:
    """Read a record and return only its identity; called by readers. Raises SourceError."""
    episode = load().episode
    return RecordIdentity(episode.content_hash, episode.source)


def stored_ids(stores: Stores, source: Source) -> set[str]:
    """Ids of the episodes that the workspace has of a source's format, dataset and version."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    return stores.tables.episodes.ids(
        " AND ".join(f"{name} = {quote_literal(value)}" for name, value in clauses.items())
    )


def stored_identities(stores: Stores, ids: Sequence[str]) -> dict[str, RecordIdentity]:
    """Identities of stored episodes, by episode id."""
    if not ids:
        return {}
    columns = ["episode_id", "content_hash", "source"]
    batches = stores.tables.episodes.scan(columns, ids_filter(ids))
    return {
        episode_id: RecordIdentity(content_hash, source)
        for batch in batches
        for episode_id, content_hash, source in zip(
            *(batch[name].to_pylist() for name in columns), strict=True
        )
    }


def find_conflict(item: Item, stored: RecordIdentity, identity: RecordIdentity) -> IdentityConflict | None:
    """Why the item is not the stored episode of the same identity, or None when it is."""
    if stored.content_hash == identity.content_hash:
        return None
    return IdentityConflict(
        "another record has this identity already",
        f"{item.location} differs from {stored.source}; give it a name of its own with --dataset NAME",
    )
