"""Tells whether a record is the stored episode of the same id, or another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import SourceError
from ares.media import compute_stamp
from ares.store.filters import TrustedFilter, ids_filter, quote_literal
from ingest.base import Item, Source
from ingest.pipeline.read import RecordIdentity

if TYPE_CHECKING:
    from ares.store import Stores


class IdentityConflict(SourceError):
    """A record whose episode id belongs to another record; the episode stored under that id has not failed."""


def read_identity(load: Callable[[], Record]) -> RecordIdentity:
    """Read a record and return only its identity; called by readers. Raises SourceError."""
    record = load()
    episode = record.episode
    return RecordIdentity(episode.content_hash, episode.source, _stamp(episode.source), record.earlier_hash)


def _stamp(path: str) -> str:
    try:
        return compute_stamp(path)
    except (OSError, SourceError):
        return ""


def stored_ids(stores: Stores, source: Source) -> set[str]:
    """Ids of the episodes that the workspace has of a source's format, dataset and version."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    condition = " AND ".join(f"{name} = {quote_literal(value)}" for name, value in clauses.items())
    return stores.tables.episodes.ids(TrustedFilter(condition))


def stored_identities(stores: Stores, ids: Sequence[str]) -> dict[str, RecordIdentity]:
    """Identities of stored episodes, by episode id."""
    if not ids:
        return {}
    episodes = stores.tables.episodes
    columns = ["episode_id", "content_hash", "source"]
    # A workspace from before stamps has no column for them.
    columns += ["source_stamp"] if "source_stamp" in episodes.columns() else []
    return {
        episode_id: RecordIdentity(content_hash, source, *(stamp or "" for stamp in stamps))
        for batch in episodes.scan(columns, ids_filter(ids))
        for episode_id, content_hash, source, *stamps in zip(
            *(batch[name].to_pylist() for name in columns), strict=True
        )
    }


def is_same_record(stored: RecordIdentity, identity: RecordIdentity) -> bool:
    """Whether a record is the stored one: by its hash, else by the content of the file that holds it.

    The hash of a record of an unchanged file differs where an earlier version of ARES read less of it.
    """
    if identity.has_hash(stored.content_hash):
        return True
    # Size and fingerprint of each file; the version between them changes when a file is copied.
    before, now = (
        [stamp.split(":")[::2] for stamp in record.source_stamp.split("|")] for record in (stored, identity)
    )
    return bool(stored.source_stamp) and before == now


def find_conflict(item: Item, stored: RecordIdentity, identity: RecordIdentity) -> IdentityConflict | None:
    """Why the item is not the stored episode of the same identity, or None when it is."""
    if is_same_record(stored, identity):
        return None
    return IdentityConflict(
        "another record has this identity already",
        f"{item.location} differs from {stored.source}; give it a name of its own with --dataset NAME",
    )
