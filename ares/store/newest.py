"""Newest: what was read of the newest version of a table, read once for each version, whatever threads ask."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import lance

_T = TypeVar("_T")


class Newest(Generic[_T]):
    """What a function reads of one version of a table; that of the version before is let go.

    Args:
        read: Reads it.
    """

    def __init__(self, read: Callable[[lance.LanceDataset], _T]) -> None:
        self._read = read
        self._lock = Lock()
        self._there: tuple[int, _T] | None = None

    def of(self, dataset: lance.LanceDataset) -> _T:
        """What was read of this very version."""
        version = int(dataset.version)
        # Threads that meet here wait for one reading instead of each doing its own.
        with self._lock:
            if self._there is None or self._there[0] != version:
                self._there = (version, self._read(dataset))
            return self._there[1]
