"""Compaction of a Lance table: few fragments, current indexes, few old versions, at a cost independent of its size."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ares.store.lance import create_fulltext_index, data_bytes, max_unindexed_rows, whole_files

if TYPE_CHECKING:
    import lance

    from ares.store.lance import TableWriter

# A version is kept this long after a newer one replaced it, so that its readers can finish.
KEEP_VERSIONS = timedelta(hours=1)
# Fragments below their full size that a table may have; with more of them they are merged.
_MAX_SMALL_FRAGMENTS = 8
# Full size. By default Lance merges into fragments of a million rows, which are fifty gigabytes of signals.
_FRAGMENT_BYTES = 64 * 2**20
_FRAGMENT_ROWS_RANGE = (1_000, 2**20)
_DELETED_SHARE = 0.1
# Rows newer than an index are searched one by one; fewer than this share take no noticeable time.
_UNINDEXED_SHARE = 0.02
# No version is so old: what is cleaned up then are files that belong to none.
_EVERY_VERSION = timedelta(days=36_500)


def compact(dataset: lance.LanceDataset) -> None:
    """Compact and index the newest version where that is due, and drop old versions; fast when little was written."""
    rows = _fragment_rows(dataset)
    if _needs_compaction(dataset, rows):
        with whole_files(dataset):
            dataset.optimize.compact_files(
                target_rows_per_fragment=rows,
                materialize_deletions_threshold=_DELETED_SHARE,
                # Every thread has fragments in memory; with one, the end of a job needs no more memory than the rest.
                num_threads=1,
            )
    if _indexes_lag(dataset):
        dataset.optimize.optimize_indices()
    _drop_versions(dataset)


def erase_deleted(table: TableWriter, text_column: str) -> None:
    """Write the fragments anew that have deleted rows; indexes, which hold deleted values too, are dropped before.

    The full-text index is created again at once: a search without it returns nothing.

    Args:
        table: The table, open for writing.
        text_column: Column with a full-text index, or "".
    """
    for name in table.indexed_columns():
        table.drop_index(name)
    dataset = table.newest()
    with whole_files(dataset):
        dataset.optimize.compact_files(
            target_rows_per_fragment=_fragment_rows(dataset),
            materialize_deletions=True,
            materialize_deletions_threshold=0.0,
            num_threads=1,
        )
    # A version tells what led to it: the condition of a deletion, with its ids, must not be that of the newest one.
    table.newest().update_config({"ares:erased": uuid.uuid4().hex})
    if text_column:
        create_fulltext_index(table, text_column)


def drop_old_versions(dataset: lance.LanceDataset) -> None:
    """Delete all versions but the newest, and every file that belongs to none."""
    dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)


def count_unused_files(dataset: lance.LanceDataset) -> int:
    """Data files of a table that belong to no version of it."""
    unused = dataset.explain_cleanup_old_versions(older_than=_EVERY_VERSION, delete_unverified=True)
    return int(unused.stats.data_files_removed)


def delete_unused_files(dataset: lance.LanceDataset) -> None:
    """Delete the files that belong to no version; nobody may be writing the table."""
    dataset.cleanup_old_versions(older_than=_EVERY_VERSION, delete_unverified=True)


def _drop_versions(dataset: lance.LanceDataset) -> None:
    """Drop versions that nobody can have opened within `KEEP_VERSIONS`."""
    now = datetime.now()
    old = [version for version in dataset.versions() if _age(version, now) >= KEEP_VERSIONS]
    # A version of last year may have been the newest a second ago, so the last of the old ones stays. They are named
    # one by one: Lance reckons ages by a clock of its own, a moment later.
    if len(old) > 1:
        dataset.cleanup_old_versions(versions=[version["version"] for version in old[:-1]])


def _age(version: lance.Version, now: datetime) -> timedelta:
    created: datetime | int = version["timestamp"]
    assert isinstance(created, datetime)
    return now - created.replace(tzinfo=None)


def _fragment_rows(dataset: lance.LanceDataset) -> int:
    fragments = dataset.get_fragments()
    rows = sum(fragment.physical_rows for fragment in fragments)
    low, high = _FRAGMENT_ROWS_RANGE
    return max(low, min(high, _FRAGMENT_BYTES * rows // max(data_bytes(dataset), 1)))


def _needs_compaction(dataset: lance.LanceDataset, full_rows: int) -> bool:
    fragments = dataset.get_fragments()
    num_small = sum(fragment.physical_rows < full_rows for fragment in fragments)
    has_deletions = any(
        fragment.num_deletions > _DELETED_SHARE * fragment.physical_rows for fragment in fragments
    )
    return num_small > _MAX_SMALL_FRAGMENTS or has_deletions


def _indexes_lag(dataset: lance.LanceDataset) -> bool:
    return max_unindexed_rows(dataset) > _UNINDEXED_SHARE * dataset.count_rows()
