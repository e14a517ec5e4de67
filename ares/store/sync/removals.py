"""Moves the rows of removed episodes out of the tables, and those that are brought back into them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ares.store.filters import ids_filter
from ares.store.lance import episode_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.store.database import Tables
    from ares.store.sync.changes import LogChanges

# Rows moved at once: a row is some kilobytes.
_ROWS = 10_000


def present_removed(tables: Tables, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids of the episodes that are still in the tables but removed.

    Args:
        tables: The tables.
        removed: (N,) ids of the episodes that the log says are removed.
    """
    import pyarrow.compute as pc

    ids = tables.episodes.arrow_ids().array
    return ids.filter(pc.is_in(ids, value_set=removed)) if len(removed) else ids.slice(0, 0)


def absent_restored(tables: Tables, removed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids of the episodes that were moved out of the tables but are not removed any more; see `present_removed`."""
    import pyarrow.compute as pc

    ids = tables.removed.ids()
    return ids.filter(pc.invert(pc.is_in(ids, value_set=removed)))


def move_out(tables: Tables, ids: pa.ChunkedArray) -> None:
    """Move the rows of episodes out of the tables; repeating it after a crash at any point completes it."""
    import pyarrow as pa

    if not len(ids):
        return
    for chunk in _chunks(ids):
        snapshot = tables.episodes.snapshot()
        columns = snapshot.arrow_schema.names
        rows = snapshot.scan(columns, ids_filter(chunk))
        tables.removed.write(pa.Table.from_batches(rows, schema=snapshot.arrow_schema))
        # The row goes last: as long as it exists, the next synchronisation finds the episode again.
        tables.segments.delete_episodes(chunk)
        tables.episodes.delete(chunk)


def move_in(tables: Tables, ids: pa.ChunkedArray) -> Iterator[list[str]]:
    """Write the source columns of removed episodes into the episodes table again, and yield their ids in batches.

    The caller fills the other columns, then calls `forget_removed`.
    """
    import pyarrow as pa

    if not len(ids):
        return
    existing = tables.removed.column_names()
    names = [name for name in episode_schema().names if name in existing]
    for chunk in _chunks(ids):
        tables.episodes.restore(pa.Table.from_batches(tables.removed.scan(names, ids_filter(chunk))))
        yield chunk


def forget_removed(tables: Tables, ids: pa.ChunkedArray) -> None:
    """Delete the rows of episodes that were brought back from the table of removed episodes."""
    if len(ids):
        tables.removed.delete(ids.to_pylist())


def leave_out_removed(changes: LogChanges, removed: pa.ChunkedArray) -> None:
    """Take the segments of removed episodes out of changes: values of theirs meet no row, segments would make some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(removed) or not changes.segment_rows:
        return
    owners = pa.array([row["episode_id"] for row in changes.segment_rows.values()], pa.string())
    hidden = pc.is_in(owners, value_set=removed).to_pylist()
    for key in [key for key, is_hidden in zip(changes.segment_rows, hidden, strict=True) if is_hidden]:
        del changes.segment_rows[key]


def _chunks(ids: pa.ChunkedArray) -> Iterator[list[str]]:
    for start in range(0, len(ids), _ROWS):
        yield ids.slice(start, _ROWS).to_pylist()
