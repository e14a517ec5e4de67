"""Pace: batches as large as can be done in a given time, by how long the ones before took."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


class Pace:
    """Begins with single items and at most doubles.

    Args:
        seconds: How long a batch should take.
        most: Most items of a batch.
    """

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._size = 1
        self._lock = threading.Lock()

    def batches(self, items: Iterable[T]) -> Iterator[list[T]]:
        """The items, in batches of the size that is right when each is made."""
        left = iter(items)
        while batch := list(islice(left, self._size)):
            yield batch

    def took(self, items: int, seconds: float) -> None:
        """Tell how long a batch took."""
        if items:
            fitting = int(self._seconds * items / max(seconds, 1e-9))
            with self._lock:
                self._size = max(1, min(fitting, 2 * self._size, self._most))
