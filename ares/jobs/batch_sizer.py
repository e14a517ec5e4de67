"""Batch sizes that fit a target duration, from the durations of earlier batches."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


class BatchSizer:
    """Splits items into batches; begins with single items and at most doubles the size. Safe to use from threads.

    Args:
        target_seconds: How long a batch should take.
        max_size: Most items of a batch.
    """

    def __init__(self, target_seconds: float, max_size: int) -> None:
        self._target_seconds = target_seconds
        self._max_size = max_size
        self._size = 1
        self._lock = threading.Lock()

    def batches(self, items: Iterable[T]) -> Iterator[list[T]]:
        """The items in batches; each has the size that is right when it is requested."""
        iterator = iter(items)
        while batch := list(islice(iterator, self._size)):
            yield batch

    def record_duration(self, items: int, seconds: float) -> None:
        """Adjust the size to a batch of `items` items that took `seconds`."""
        if items:
            fitting_size = int(self._target_seconds * items / max(seconds, 1e-9))
            with self._lock:
                self._size = max(1, min(fitting_size, 2 * self._size, self._max_size))
