"""Pool: places for workers that may die; a batch whose worker died is done again, item by item."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ares.errors import AresError

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[Sequence[T]], Sequence[R | AresError]]


class Died(Exception):
    """The worker died under a batch; the text says of what."""


class Worker(Protocol):
    """What a place holds."""

    def ready(self) -> bool:
        """Whether it would begin at once."""

    def ask(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises Died, or whatever the work raised."""

    def close(self) -> None:
        """End it."""


class Pool(Generic[T, R]):
    """Places that take batches from as many threads as they have room for.

    Args:
        start: Makes a worker, which need not be ready at once.
        places: How many workers at the same time.
        threads: Batches that one worker takes at the same time.
        lost: Error of an item whose worker died under it twice.
        here: The work itself, done in place as long as it is not worth a worker or none is ready; None for never.
        patience_seconds: How long the work is done in place before workers are started.
    """

    def __init__(
        self,
        start: Callable[[], Worker],
        places: int,
        threads: int,
        lost: type[AresError],
        here: Work[T, R] | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        self._places = [_Place(start) for _ in range(places)]
        self._lost = lost
        self._here = None if here is None else _one_at_a_time(here)
        self._patience = patience_seconds
        self._began: float | None = None
        # The last that came free goes first: with little work, few workers are started.
        self._free: queue.LifoQueue[_Place] = queue.LifoQueue()
        for place in self._places * threads:
            self._free.put(place)

    def run(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the work raised."""
        try:
            return self._ask(batch, self._here)
        except Died:
            # One by one, so that an item that kills its worker takes no other with it.
            return [self._alone(item) for item in batch]

    def begin(self) -> None:
        """Start all workers now, without waiting for them: there is enough to do for each."""
        self._began = float("-inf")
        for place in self._places:
            place.worker()

    def close(self) -> None:
        """End all workers."""
        for place in self._places:
            place.close()

    def _alone(self, item: T) -> R | AresError:
        try:
            return self._ask([item], None)[0]
        except Died as error:
            return self._lost("the worker died twice", str(error))

    def _ask(self, batch: Sequence[T], here: Work[T, R] | None) -> Sequence[R | AresError]:
        place = self._free.get()
        worker = None
        try:
            if here and not self._is_worth_it():
                return here(batch)
            worker = place.worker()
            if here and not worker.ready():
                return here(batch)
            results: Sequence[R | AresError] = worker.ask(batch)
            return results
        except Died:
            place.clear(worker)
            raise
        finally:
            self._free.put(place)

    def _is_worth_it(self) -> bool:
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began >= self._patience


def _one_at_a_time(work: Work[T, R]) -> Work[T, R]:
    """Threads that keep the interpreter busy together take three times as long as one after the other."""
    lock = threading.Lock()

    def alone(batch: Sequence[T]) -> Sequence[R | AresError]:
        with lock:
            return work(batch)

    return alone


class _Place:
    """Room for one worker, that of now or the one that replaces it."""

    def __init__(self, start: Callable[[], Worker]) -> None:
        self._start = start
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def worker(self) -> Worker:
        with self._lock:
            if self._worker is None:
                self._worker = self._start()
            return self._worker

    def clear(self, worker: Worker | None) -> None:
        """End a worker, unless another thread has done so already."""
        with self._lock:
            if worker is not None and self._worker is worker:
                self._worker = None
                worker.close()

    def close(self) -> None:
        self.clear(self._worker)
