"""A pool whose number of workers follows the size of a cluster: what is lost is replaced where there is room."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from ares.errors import AresError, RequestError
from ares.jobs.engine import R, T
from ares.jobs.worker_pool import Worker, WorkerDied, map_with_retries

_READY_SECONDS = 0.5
_COUNT_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Slot:
    """Room for one worker.

    Attributes:
        worker: The worker, or the one that starts.
        is_ready: Whether it has started.
        calls: Batches that it works on.
    """

    worker: Worker
    is_ready: bool = False
    calls: int = 0


class GrowingPool(Generic[T, R]):
    """As many workers as the cluster has room for at the moment; a machine that is lost costs only its work in hand.

    Args:
        start_worker: Starts a worker without waiting for it.
        count_room: How many workers there may be now, at least 1.
        most_workers: Most workers ever.
        threads_per_worker: Batches that one worker takes at the same time.
        on_worker_death: Error of an item whose worker died in two attempts.
        no_worker_error: The error where no worker was ready for so many seconds.
        patience_seconds: So many seconds.
        report: Called with a line where the room has changed.
    """

    def __init__(
        self,
        start_worker: Callable[[], Worker],
        count_room: Callable[[], int],
        most_workers: int,
        threads_per_worker: int,
        on_worker_death: type[AresError],
        no_worker_error: Callable[[], RequestError],
        patience_seconds: float,
        report: Callable[[str], None],
    ) -> None:
        self._start_worker = start_worker
        self._count_room = count_room
        self._threads_per_worker = threads_per_worker
        self._on_worker_death = on_worker_death
        self._no_worker_error = no_worker_error
        self._patience_seconds = patience_seconds
        self._report = report
        self._most = most_workers
        self._room = min(count_room(), most_workers)
        self._slots: list[_Slot] = []
        self._waiting = 0
        self._is_closed = False
        self._changed = threading.Condition()
        now = time.monotonic()
        self._checked_at, self._counted_at, self._worked_at = float("-inf"), now, now

    @property
    def max_workers(self) -> int:
        """Calls of `map` that can run at the same time now."""
        return self._room * self._threads_per_worker

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self._most * self._threads_per_worker

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised."""
        return map_with_retries(self._process, self._process, batch, self._on_worker_death)

    def start(self) -> None:
        """Start all workers now, without waiting for them."""
        with self._changed:
            self._open(self._room)

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            slots, self._slots, self._is_closed = self._slots, [], True
        for slot in slots:
            slot.worker.close()

    def _process(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        slot, worker = self._take()
        try:
            results: Sequence[R | AresError] = worker.process(batch)
            return results
        except WorkerDied:
            self._replace(slot, worker)
            raise
        finally:
            with self._changed:
                slot.calls -= 1
                self._worked_at = time.monotonic()
                self._changed.notify()

    def _take(self) -> tuple[_Slot, Worker]:
        """A worker that has room for a batch. Raises RequestError when there was none for too long."""
        with self._changed:
            self._waiting += 1
            try:
                while (slot := self._free_slot()) is None:
                    self._refresh()
                    if self._free_slot() is None:
                        self._check_patience()
                        self._changed.wait(_READY_SECONDS)
                slot.calls += 1
                return slot, slot.worker
            finally:
                self._waiting -= 1

    def _free_slot(self) -> _Slot | None:
        """The busiest worker with room: with little work, few are started."""
        free = [slot for slot in self._slots if slot.is_ready and slot.calls < self._threads_per_worker]
        return max(free, key=lambda slot: slot.calls, default=None)

    def _replace(self, slot: _Slot, worker: Worker) -> None:
        """Start another worker for one that died, unless another thread has done so."""
        with self._changed:
            if slot.worker is worker and not self._is_closed:
                worker.close()
                slot.worker, slot.is_ready = self._start_worker(), False

    def _refresh(self) -> None:
        """Follow the cluster: its size now and then, and which workers have started."""
        now = time.monotonic()
        if now - self._counted_at >= _COUNT_SECONDS:
            self._counted_at = now
            self._follow(min(self._count_room(), self._most))
        starting = sum(not slot.is_ready for slot in self._slots)
        needed = -(-self._waiting // self._threads_per_worker)
        self._open(min(self._room, len(self._slots) + max(0, needed - starting)))
        if now - self._checked_at >= _READY_SECONDS or starting == 0:
            self._checked_at = now
            for slot in self._slots:
                self._check_start(slot)
            self._changed.notify_all()

    def _follow(self, room: int) -> None:
        """Close slots that cannot be refilled: those whose worker has not started."""
        if room != self._room:
            self._report(f"the cluster has room for {room} workers now, and had for {self._room}")
        self._room = room
        for slot in [slot for slot in self._slots if not slot.is_ready][: max(0, len(self._slots) - room)]:
            self._slots.remove(slot)
            slot.worker.close()

    def _open(self, count: int) -> None:
        while len(self._slots) < count and not self._is_closed:
            self._slots.append(_Slot(self._start_worker()))

    def _check_start(self, slot: _Slot) -> None:
        try:
            slot.is_ready = slot.is_ready or slot.worker.is_ready()
        except WorkerDied:
            slot.worker.close()
            slot.worker = self._start_worker()

    def _check_patience(self) -> None:
        now = time.monotonic()
        if any(slot.is_ready for slot in self._slots):
            self._worked_at = now
        elif self._is_closed or now - self._worked_at > self._patience_seconds:
            raise self._no_worker_error()
