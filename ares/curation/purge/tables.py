"""Deletes the rows of purged episodes from every table, and the files that still hold them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.store.filters import batched, ids_filter, in_list
from ares.store.lance import lance_errors

if TYPE_CHECKING:
    from ares.store import Stores

_BATCH = 10_000
# Old versions of these may have rows of an episode that was removed, or captioned anew, before it was purged.
_ALWAYS = ("episodes", "removed_episodes", "segments", "trajectories")


def sources_of(stores: Stores, ids: Sequence[str]) -> set[str]:
    """The locations in their sources of some episodes, removed ones included."""
    sources: set[str] = set()
    for chunk in batched(ids, _BATCH):
        where = ids_filter(chunk)
        for batch in (
            *stores.tables.episodes.scan(["source"], where),
            *stores.tables.removed.scan(["source"], where),
        ):
            sources.update(batch["source"].to_pylist())
    return sources


def tables_to_erase(stores: Stores, ids: Sequence[str]) -> list[str]:
    """Names of the tables that have, or may have had, rows about some episodes."""
    texts = [f"texts_{space}" for space in stores.tables.text_spaces()]
    names = stores.tables.connection.table_names()
    return [name for name in names if name in _ALWAYS or name in texts or _has_rows(stores, name, ids)]


def _has_rows(stores: Stores, name: str, ids: Sequence[str]) -> bool:
    dataset = stores.tables.connection.newest_version(name)
    if "episode_id" not in dataset.schema.names:
        return False
    with lance_errors(name):
        return any(dataset.count_rows(in_list("episode_id", chunk)) for chunk in batched(ids, _BATCH))


def delete_rows_of(stores: Stores, ids: Sequence[str], names: Sequence[str]) -> int:
    """Delete the rows of episodes from some tables, and texts that nothing has any more. Returns the number of rows."""
    connection, deleted = stores.tables.connection, 0
    for name in names:
        if "episode_id" in connection.newest_version(name).schema.names:
            before = connection.newest_version(name).count_rows()
            stores.tables.delete_episodes(name, ids)
            deleted += before - connection.newest_version(name).count_rows()
    for space in stores.tables.text_spaces():
        deleted += stores.tables.texts(space).delete_unused(_removed_texts(stores))
    return int(deleted)


def _removed_texts(stores: Stores) -> list[str]:
    """Texts of removed episodes: their vectors are needed when the episodes are brought back."""
    rows = stores.tables.removed.scan(["instruction"])
    return [text for batch in rows for text in batch["instruction"].to_pylist()]


def erase_tables(stores: Stores, names: Sequence[str]) -> None:
    """Write tables anew without deleted rows, build their indexes again and delete all their older versions.

    Queries of other processes that began before may fail: what they read is deleted.
    """
    stores.tables.erase_deleted(names)
    stores.tables.optimize(names)
    stores.tables.refresh_indexes(lambda line: print(line, file=sys.stderr))
    stores.tables.drop_old_versions(names)
