"""A pool whose number of workers follows the size of a cluster: what is lost is replaced where there is room."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol

from ares.console import count_of
from ares.errors import AresError, RequestError
from ares.jobs.engine import DEFAULT_NEEDS, R, T, WorkerNeeds
from ares.jobs.worker_pool import Worker, WorkerDied, map_with_retries

_READY_SECONDS = 0.5


class ClusterWorker(Worker, Protocol):
    """A worker on a machine of a cluster."""

    @property
    def machine(self) -> str:
        """Id of its machine, or "" until it has started."""


@dataclass(frozen=True, slots=True)
class PoolResources:
    """What a cluster has for the workers of one pool.

    Attributes:
        workers: Most workers, at least 1.
        needs: What each of them takes.
        machines: Ids of the machines that are there.
    """

    workers: int
    needs: WorkerNeeds = DEFAULT_NEEDS
    machines: frozenset[str] = frozenset()


class WorkerWaitLimit(NamedTuple):
    """How long a batch waits while no worker is ready.

    Attributes:
        seconds: So many seconds.
        make_error: Makes the error that ends the wait.
    """

    seconds: float
    make_error: Callable[[], RequestError]


@dataclass(slots=True, eq=False)
class _Slot:
    """Room for one worker.

    Attributes:
        worker: The worker, or the one that starts.
        needs: What it takes of the cluster.
        is_ready: Whether it has started.
        calls: Batches that it works on.
        is_leaving: Whether it ends after these.
    """

    worker: ClusterWorker
    needs: WorkerNeeds
    is_ready: bool = False
    calls: int = 0
    is_leaving: bool = False


class ElasticWorkerPool(Generic[T, R]):
    """As many workers as the cluster has room for at the moment; a machine that is lost costs only its work in hand.

    Args:
        start_worker: Starts a worker that takes so much, without waiting for it.
        measure_room: What the cluster has for the pool now.
        most_workers: Most workers ever.
        threads_per_worker: Batches that one worker takes at the same time.
        on_worker_death: Error of an item whose worker died in two attempts.
        patience: How long a batch waits for a worker.
        report: Called with a line where the room has changed.
    """

    def __init__(
        self,
        start_worker: Callable[[WorkerNeeds], ClusterWorker],
        measure_room: Callable[[], PoolResources],
        most_workers: int,
        threads_per_worker: int,
        on_worker_death: type[AresError],
        patience: WorkerWaitLimit,
        report: Callable[[str], None],
    ) -> None:
        self._start_worker = start_worker
        self._measure_room = measure_room
        self._threads_per_worker = threads_per_worker
        self._on_worker_death = on_worker_death
        self._patience = patience
        self._report = report
        self._most = most_workers
        self._room = measure_room()
        self._slots: list[_Slot] = []
        self._leaving: list[_Slot] = []
        self._waiting = 0
        self._is_closed = False
        self._changed = threading.Condition()
        self._checked_at, self._worked_at = float("-inf"), time.monotonic()

    @property
    def max_workers(self) -> int:
        """Calls of `map` that can run at the same time now."""
        return self._workers * self._threads_per_worker

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self._most * self._threads_per_worker

    @property
    def _workers(self) -> int:
        return min(self._room.workers, self._most)

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised."""
        return map_with_retries(self._process, self._process, batch, self._on_worker_death)

    def start(self) -> None:
        """Start all workers now, without waiting for them."""
        with self._changed:
            self._open(self._workers)

    def follow(self) -> None:
        """Follow the size of the cluster; workers without room end after their call, so that other pools fit beside.

        Whoever has the pool calls this now and then, also while it has no work: its workers keep their room.
        """
        room = self._measure_room()
        with self._changed:
            before, self._room = self._workers, room
            if self._workers != before:
                self._report(
                    f"the cluster has room for {count_of(self._workers, 'worker')} now, and had for {before}"
                )
            for slot in self._without_room():
                self._end(slot)
            self._changed.notify_all()

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            slots, self._slots, self._leaving = [*self._slots, *self._leaving], [], []
            self._is_closed = True
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
                self._close_left(slot)
                self._worked_at = time.monotonic()
                self._changed.notify()

    def _take(self) -> tuple[_Slot, ClusterWorker]:
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

    def _replace(self, slot: _Slot, worker: ClusterWorker) -> None:
        """Start another worker for one that died, unless another thread has done so."""
        with self._changed:
            if slot.worker is worker and not self._is_closed and not slot.is_leaving:
                worker.close()
                self._restart(slot)

    def _restart(self, slot: _Slot) -> None:
        slot.worker, slot.needs, slot.is_ready = self._start_worker(self._room.needs), self._room.needs, False

    def _refresh(self) -> None:
        """Start workers for those who wait, and see which have started."""
        starting = sum(not slot.is_ready for slot in self._slots)
        needed = -(-self._waiting // self._threads_per_worker)
        self._open(min(self._workers, len(self._slots) + max(0, needed - starting)))
        now = time.monotonic()
        if now - self._checked_at >= _READY_SECONDS or starting == 0:
            self._checked_at = now
            for slot in self._slots:
                self._check_start(slot)
            self._changed.notify_all()

    def _without_room(self) -> list[_Slot]:
        """Workers that take more than there is for one now, and those beyond the number: lost and idle ones first."""
        fitting = [slot for slot in self._slots if _is_within(slot.needs, self._room.needs)]
        fitting.sort(key=lambda slot: (not self._is_lost(slot), slot.is_ready, slot.calls), reverse=True)
        kept = fitting[: self._workers]
        return [slot for slot in self._slots if slot not in kept]

    def _is_lost(self, slot: _Slot) -> bool:
        return bool(slot.worker.machine) and slot.worker.machine not in self._room.machines

    def _end(self, slot: _Slot) -> None:
        slot.is_leaving = True
        self._slots.remove(slot)
        self._leaving.append(slot)
        self._close_left(slot)

    def _close_left(self, slot: _Slot) -> None:
        if slot in self._leaving and not slot.calls:
            self._leaving.remove(slot)
            slot.worker.close()

    def _open(self, count: int) -> None:
        while len(self._slots) < count and not self._is_closed:
            self._slots.append(_Slot(self._start_worker(self._room.needs), self._room.needs))

    def _check_start(self, slot: _Slot) -> None:
        try:
            slot.is_ready = slot.is_ready or slot.worker.is_ready()
        except WorkerDied:
            slot.worker.close()
            self._restart(slot)

    def _check_patience(self) -> None:
        now = time.monotonic()
        if any(slot.is_ready for slot in self._slots):
            self._worked_at = now
        elif self._is_closed or now - self._worked_at > self._patience.seconds:
            raise self._patience.make_error()


def _is_within(needs: WorkerNeeds, limit: WorkerNeeds) -> bool:
    return needs.cpus <= limit.cpus and needs.memory_bytes <= limit.memory_bytes and needs.gpus <= limit.gpus
