"""Deletes the rows and files of purged episodes, and writes tables again without what was deleted."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ares.console import write_stderr
from ares.media import MEDIA_FOLDER
from ares.store import (
    batched,
    ids_filter,
    in_condition,
    lance_errors,
)

if TYPE_CHECKING:
    from ares.store import Stores


_BATCH = 10_000
# Old versions of these may have rows of an episode that was removed, or captioned again, before it was purged.
_ALWAYS = ("episodes", "removed_episodes", "segments", "trajectories")


def delete_episode_files(stores: Stores, ids: Sequence[str]) -> int:
    """Delete the copied videos of episodes and the whole cache, which names no episode and is derived again.

    Returns:
        Number of folders of copied videos.
    """
    count, media = 0, stores.folder / MEDIA_FOLDER
    for episode_id in ids:
        for name in (episode_id, f"{episode_id}.tmp"):
            folder = media / episode_id[:2] / name
            if folder.is_dir():
                shutil.rmtree(folder)
                count += 1
        shard = media / episode_id[:2]
        if shard.is_dir() and not any(shard.iterdir()):
            shard.rmdir()
    shutil.rmtree(stores.folder / "cache", ignore_errors=True)
    return count


def read_source_locations(stores: Stores, ids: Sequence[str]) -> set[str]:
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
        return any(dataset.count_rows(in_condition("episode_id", chunk)) for chunk in batched(ids, _BATCH))


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


def erase_deleted_table_rows(stores: Stores, names: Sequence[str]) -> None:
    """Write tables again without deleted rows, build their indexes again and delete all their older versions.

    Queries of other processes that began before may fail: what they read is deleted.
    """
    stores.tables.erase_deleted(names)
    stores.tables.optimize(names)
    stores.tables.refresh_indexes(write_stderr)
    stores.tables.drop_old_versions(names)
