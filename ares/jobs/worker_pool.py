"""A pool that replaces workers that die; a batch whose worker died is retried item by item."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol

from ares.errors import AresError
from ares.jobs.engine import BatchFunction, R, T, V


def identity(value: V) -> V:
    """The value; a partial of this function can be pickled, unlike a lambda."""
    return value


class WorkerDied(Exception):
    """The worker died while it worked on a batch; the text says of what."""


class WorkerLimitExceeded(WorkerDied):
    """The worker was ended because a batch took too long or too much memory; the text says which."""


class Worker(Protocol):
    """A process or an actor that works on batches."""

    def is_ready(self) -> bool:
        """Whether it would begin at once."""

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or whatever the function raised."""

    def close(self) -> None:
        """End it."""


class WorkerLost(WorkerDied):
    """The machine of the worker is gone: the items cannot have killed it."""


# An item whose machine is lost so often is tried no more.
_MOST_LOSSES = 10
# Whoever waits looks so often whether a worker has become ready.
_READY_SECONDS = 0.05


def map_with_retries(
    process: BatchFunction[T, R],
    retry: BatchFunction[T, R],
    batch: Sequence[T],
    on_worker_death: type[AresError],
) -> Sequence[R | AresError]:
    """One result or error per item, in order; items of a batch whose worker died are tried once more, one by one.

    Args:
        process: Works on the batch.
        retry: Works on one item after that, in another worker.
        batch: The items.
        on_worker_death: Error of an item whose worker died in both attempts; lost machines do not count.
    """
    try:
        return process(batch)
    except WorkerDied as error:
        if isinstance(error, WorkerLimitExceeded) and len(batch) == 1:
            return [on_worker_death(*error.args)]  # a second attempt would take as long
        # One by one, so that an item that kills its worker costs no other item.
        return [_retried(retry, item, on_worker_death) for item in batch]


def _retried(retry: BatchFunction[T, R], item: T, on_worker_death: type[AresError]) -> R | AresError:
    for _ in range(_MOST_LOSSES):
        try:
            return retry([item])[0]
        except WorkerLimitExceeded as error:
            return on_worker_death(*error.args)
        except WorkerLost:
            continue
        except WorkerDied as error:
            return on_worker_death("the worker died twice", str(error))
    return on_worker_death(f"its machine was lost {_MOST_LOSSES} times", "")


class RestartingPool(Generic[T, R]):
    """A fixed number of slots for workers; a batch goes to whatever is free and ready first.

    Args:
        start_workers: Each makes the worker of one slot, which need not be ready at once; the last works first.
        on_worker_death: Error of an item whose worker died in two attempts.
        inline_fn: The function itself, called in the calling threads, one at a time, while workers are not ready; None
            for never.
        start_after_seconds: How long the function runs in the calling threads before workers are started.
        stays_inline: Whether it goes on to run there, beside the workers.
    """

    def __init__(
        self,
        start_workers: Sequence[Callable[[], Worker]],
        on_worker_death: type[AresError],
        inline_fn: BatchFunction[T, R] | None = None,
        start_after_seconds: float = 0.0,
        stays_inline: bool = False,
    ) -> None:
        self.max_workers = len(start_workers) + stays_inline
        self._slots = [_WorkerSlot(start_worker) for start_worker in start_workers]
        self._on_worker_death = on_worker_death
        self._inline_fn = inline_fn
        self._start_after_seconds = start_after_seconds
        self._stays_inline = stays_inline
        self._started_at: float | None = None
        # Last in, first out: with little work, few workers are started.
        self._free_slots = list(self._slots)
        # CPU-bound threads that run together take three times as long as one by one.
        self._is_inline_free = inline_fn is not None
        self._waiting = 0
        self._changed = threading.Condition()

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised."""
        return map_with_retries(
            self._process, partial(self._process, is_retry=True), batch, self._on_worker_death
        )

    def start(self) -> None:
        """Start all workers now, without waiting for them: there is enough work for each."""
        self._started_at = float("-inf")
        for slot in self._slots:
            slot.worker()

    def close(self) -> None:
        """End all workers."""
        for slot in self._slots:
            slot.close()

    def _process(self, batch: Sequence[T], is_retry: bool = False) -> Sequence[R | AresError]:
        slot = self._take(is_retry)
        worker = None
        try:
            if slot is None:
                assert self._inline_fn is not None
                return self._inline_fn(batch)
            worker = slot.worker()
            results: Sequence[R | AresError] = worker.process(batch)
            return results
        except WorkerDied:
            if slot is not None:
                slot.discard(worker)
            raise
        finally:
            self._give_back(slot)

    def _take(self, is_retry: bool) -> _WorkerSlot | None:
        """A slot whose worker is ready, or None for the calling thread, which works on no item that killed a worker."""
        with self._changed:
            self._waiting += 1
            try:
                while True:
                    if self._is_due_inline() and not is_retry:
                        self._is_inline_free = False
                        return None
                    if self._is_start_due() and (slot := self._ready_slot()) is not None:
                        self._free_slots.remove(slot)
                        return slot
                    self._changed.wait(_READY_SECONDS)
            finally:
                self._waiting -= 1

    def _is_due_inline(self) -> bool:
        """Whether the calling thread works itself: as one of the workers, or because not all of them are ready."""
        if not self._is_inline_free or self._stays_inline or not self._is_start_due():
            return self._is_inline_free
        return bool(self._free_slots) and self._ready_slot() is None

    def _ready_slot(self) -> _WorkerSlot | None:
        """A free slot with a ready worker; as many workers are started as threads wait."""
        for slot in self._free_slots[-self._waiting :]:
            slot.worker()
        return next((slot for slot in reversed(self._free_slots) if slot.is_ready()), None)

    def _give_back(self, slot: _WorkerSlot | None) -> None:
        with self._changed:
            if slot is None:
                self._is_inline_free = True
            else:
                self._free_slots.append(slot)
            self._changed.notify_all()

    def _is_start_due(self) -> bool:
        now = time.monotonic()
        if self._started_at is None:
            self._started_at = now
        return now - self._started_at >= self._start_after_seconds


class _WorkerSlot:
    """Room for one worker: the current one, or the one that replaces it."""

    def __init__(self, start_worker: Callable[[], Worker]) -> None:
        self._start_worker = start_worker
        self._worker: Worker | None = None
        self._lock = threading.Lock()

    def worker(self) -> Worker:
        with self._lock:
            if self._worker is None:
                self._worker = self._start_worker()
            return self._worker

    def is_ready(self) -> bool:
        """Whether there is a worker that would begin at once."""
        with self._lock:
            return self._worker is not None and self._worker.is_ready()

    def discard(self, worker: Worker | None) -> None:
        """End a worker, unless another thread has done so already."""
        with self._lock:
            if worker is not None and self._worker is worker:
                self._worker = None
                worker.close()

    def close(self) -> None:
        self.discard(self._worker)
