"""The newest version of a vector table, reopened when another process has written one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import StoreError
from ares.store.vectors.knn import VectorSnapshot
from ares.store.vectors.tuning import IndexTuning

if TYPE_CHECKING:
    import lance


class VectorTableState(NamedTuple):
    """What `ares status` reports of a vector table.

    Attributes:
        rows: Number of vectors.
        indexed: Number of vectors that the index covers; all others are compared exactly.
        tuning: The measured index parameters; None for a table too small for an index.
    """

    rows: int
    indexed: int
    tuning: IndexTuning | None


class VectorSnapshots:
    """Snapshots of a vector table, one per version, cached until the version changes.

    Args:
        open_dataset: Opens the newest version; returns None while the table does not exist.
        make_snapshot: Makes a snapshot of an opened version.
    """

    def __init__(
        self,
        open_dataset: Callable[[], lance.LanceDataset | None],
        make_snapshot: Callable[[lance.LanceDataset], VectorSnapshot],
    ) -> None:
        self._open_dataset = open_dataset
        self._make_snapshot = make_snapshot
        self._current: VectorSnapshot | None = None

    def current(self) -> VectorSnapshot | None:
        """The newest version, or None when the table does not exist."""
        if self._current is not None:
            with suppress(OSError, ValueError):
                version, latest = self._current.version, self._current.dataset.latest_version
                if latest > version:
                    self._current = self._make_snapshot(self._current.dataset.checkout_version(latest))
                if latest >= version:
                    return self._current
        dataset = self._open_dataset()
        self._current = None if dataset is None else self._make_snapshot(dataset)
        return self._current

    def require(self) -> VectorSnapshot:
        """The newest version of a table that exists. Raises StoreError when the table was removed."""
        snapshot = self.current()
        if snapshot is None:
            raise StoreError("a vector table does not exist any more", "another process removed it")
        return snapshot


def table_state(snapshot: VectorSnapshot | None) -> VectorTableState:
    """Count the rows of a snapshot and those that its index covers; zeros for None."""
    if snapshot is None:
        return VectorTableState(0, 0, None)
    fragments = snapshot.unindexed_fragments(snapshot.segments)
    unindexed = sum(fragment.count_rows() for fragment in fragments)
    return VectorTableState(snapshot.row_count, snapshot.row_count - unindexed, snapshot.tuning)


def dimension_error(name: str, stored: int, actual: int) -> StoreError:
    """The error for vectors or queries whose dimension is not that of the table."""
    return StoreError("vectors have another dimension", f"{name} stores {stored}, but got {actual}")
