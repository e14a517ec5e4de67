"""Tidy: fragments, indexes and old versions of a Lance table kept few, at a cost that does not grow with the table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import lance

# A version is kept this long after a newer one took its place, so that whoever reads it can finish.
KEEP_VERSIONS = timedelta(hours=1)
# Fragments below their full size that a table may have; one more, and they become one.
_SMALL = 8
# Full size. Left to itself Lance makes fragments of a million rows: of signals that is fifty gigabytes rewritten.
_FRAGMENT_BYTES = 64 * 2**20
_FRAGMENT_ROWS = (1_000, 2**20)
_DELETED_SHARE = 0.1
# Rows newer than an index are searched one by one; fewer than these do not show.
_UNINDEXED_SHARE = 0.02


def tidy(dataset: lance.LanceDataset) -> None:
    """Compact and index what is due in the newest version, and drop old ones; almost free when little was written."""
    rows = _fragment_rows(dataset)
    if _scattered(dataset, rows):
        dataset.optimize.compact_files(
            target_rows_per_fragment=rows,
            materialize_deletions_threshold=_DELETED_SHARE,
            # Every thread holds fragments in memory; one keeps the end of a job as small as the rest of it.
            num_threads=1,
        )
    if _behind(dataset):
        dataset.optimize.optimize_indices()
    _drop_versions(dataset)


def _drop_versions(dataset: lance.LanceDataset) -> None:
    """Drop versions that nobody can have opened within the time they are kept."""
    now = datetime.now()
    made = [each["timestamp"] for each in dataset.versions()]
    ages = [now - each.replace(tzinfo=None) for each in made if isinstance(each, datetime)]
    settled = [age for age in ages if age >= KEEP_VERSIONS]
    # Lance goes by the age of a version, but one of last year may have been the newest a second ago.
    if len(settled) > 1:
        dataset.cleanup_old_versions(older_than=settled[-1] + timedelta(milliseconds=1))


def _fragment_rows(dataset: lance.LanceDataset) -> int:
    fragments = dataset.get_fragments()
    size = sum(file.file_size_bytes or 0 for each in fragments for file in each.metadata.files)
    rows = sum(each.physical_rows for each in fragments)
    least, most = _FRAGMENT_ROWS
    return max(least, min(most, _FRAGMENT_BYTES * rows // max(size, 1)))


def _scattered(dataset: lance.LanceDataset, full: int) -> bool:
    fragments = dataset.get_fragments()
    small = sum(each.physical_rows < full for each in fragments)
    deleted = any(each.num_deletions > _DELETED_SHARE * each.physical_rows for each in fragments)
    return small > _SMALL or deleted


def _behind(dataset: lance.LanceDataset) -> bool:
    rows = dataset.count_rows()
    stats = [dataset.stats.index_stats(index.name) for index in dataset.describe_indices()]
    return any(each["num_unindexed_rows"] > _UNINDEXED_SHARE * rows for each in stats)
