"""A pool that replaces workers that die; a batch whose worker died is retried item by item."""

from __future__ import annotations

import queue
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
    """A fixed number of slots for workers, which take batches from as many threads as they have room for.

    Args:
        start_workers: Each makes the worker of one slot, which need not be ready at once.
        threads_per_worker: Batches that one worker takes at the same time.
        on_worker_death: Error of an item whose worker died in two attempts.
        inline_fn: The function itself, called in the calling thread before workers are started or ready; None for
            never.
        start_after_seconds: How long the function runs in the calling thread before workers are started.
    """

    def __init__(
        self,
        start_workers: Sequence[Callable[[], Worker]],
        threads_per_worker: int,
        on_worker_death: type[AresError],
        inline_fn: BatchFunction[T, R] | None = None,
        start_after_seconds: float = 0.0,
    ) -> None:
        self.max_workers = len(start_workers) * threads_per_worker
        self._slots = [_WorkerSlot(start_worker) for start_worker in start_workers]
        self._on_worker_death = on_worker_death
        self._inline_fn = None if inline_fn is None else serialized(inline_fn)
        self._start_after_seconds = start_after_seconds
        self._started_at: float | None = None
        # Last in, first out: with little work, few workers are started.
        self._free_slots: queue.LifoQueue[_WorkerSlot] = queue.LifoQueue()
        for slot in self._slots * threads_per_worker:
            self._free_slots.put(slot)

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised."""
        retry = partial(self._process, inline_fn=None)
        return map_with_retries(
            partial(self._process, inline_fn=self._inline_fn), retry, batch, self._on_worker_death
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

    def _process(self, batch: Sequence[T], inline_fn: BatchFunction[T, R] | None) -> Sequence[R | AresError]:
        slot = self._free_slots.get()
        worker = None
        try:
            if inline_fn and not self._is_start_due():
                return inline_fn(batch)
            worker = slot.worker()
            if inline_fn and not worker.is_ready():
                return inline_fn(batch)
            results: Sequence[R | AresError] = worker.process(batch)
            return results
        except WorkerDied:
            slot.discard(worker)
            raise
        finally:
            self._free_slots.put(slot)

    def _is_start_due(self) -> bool:
        now = time.monotonic()
        if self._started_at is None:
            self._started_at = now
        return now - self._started_at >= self._start_after_seconds


def serialized(fn: BatchFunction[T, R]) -> BatchFunction[T, R]:
    """The function under a lock: CPU-bound threads that run together take three times as long as one by one."""
    lock = threading.Lock()

    def run_locked(batch: Sequence[T]) -> Sequence[R | AresError]:
        with lock:
            return fn(batch)

    return run_locked


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

    def discard(self, worker: Worker | None) -> None:
        """End a worker, unless another thread has done so already."""
        with self._lock:
            if worker is not None and self._worker is worker:
                self._worker = None
                worker.close()

    def close(self) -> None:
        self.discard(self._worker)
