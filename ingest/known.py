"""Known: whether a record whose identity stands in the workspace already is the one that stands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ares.episode import Record
from ares.errors import SourceError
from ares.store import filters
from ingest.base import Item, Source
from ingest.batch import Identity

if TYPE_CHECKING:
    from ares.workspace import Workspace


class Taken(SourceError):
    """A record whose identity is another's: a failure of the record, but not of the episode of that identity."""


def identify(load: Callable[[], Record]) -> Identity:
    """What tells a record; read where records are read. Raises SourceError."""
    episode = load().episode
    return Identity(episode.content_hash, episode.source)


def known_ids(ws: Workspace, source: Source) -> set[str]:
    """Ids of the episodes that stand in the workspace under the names of a source."""
    clauses = {"format": source.format, "dataset": source.dataset, "version": source.version}
    return ws.tables.episodes.ids(
        " AND ".join(f"{name} = {filters.literal(value)}" for name, value in clauses.items())
    )


def stored(ws: Workspace, ids: Sequence[str]) -> dict[str, Identity]:
    """What tells these episodes, as the workspace has it."""
    if not ids:
        return {}
    columns = ["episode_id", "content_hash", "source"]
    batches = ws.tables.episodes.scan(columns, filters.among("episode_id", ids))
    return {
        each: Identity(content_hash, source)
        for batch in batches
        for each, content_hash, source in zip(*(batch[name].to_pylist() for name in columns), strict=True)
    }


def clash(item: Item, there: Identity, found: Identity) -> Taken | None:
    """Why the item is not the stored episode of the same identity, or None when it is."""
    if there.content_hash == found.content_hash:
        return None
    return Taken(
        "another record has this identity already",
        f"{item.where} differs from {there.source}; give it a name of its own with --dataset NAME",
    )
