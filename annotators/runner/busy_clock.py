"""The time that one annotator works, of a run in which several work at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class BusyClock:
    """Wall-clock seconds during which at least one call runs; calls at the same time count once.

    Safe to use from threads.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._running = 0
        self._started_at = 0.0
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Seconds so far, of calls that have ended."""
        with self._lock:
            return self._seconds

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure one call."""
        self._start()
        try:
            yield
        finally:
            self._stop()

    def _start(self) -> None:
        with self._lock:
            if not self._running:
                self._started_at = time.monotonic()
            self._running += 1

    def _stop(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seconds += time.monotonic() - self._started_at
