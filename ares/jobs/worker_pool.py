"""Batches go to the workers of an engine; those that die are replaced, and an item that kills them fails alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from ares.errors import AresError, RequestError
from ares.jobs.engine import BatchFunction, R, T


class WorkerDied(Exception):
    """The worker died while it worked on a batch; the text says of what.

    Attributes:
        most_deaths: How many such deaths make an item the likely cause of them.
    """

    most_deaths = 2


class WorkerKilled(WorkerDied):
    """The worker was ended from outside, or by what looks like that: a batch is the cause only if it happens often."""

    most_deaths = 5


class WorkerLimitExceeded(WorkerDied):
    """The worker was ended because a batch took too long or too much memory; the text says which."""


class WorkerLost(WorkerDied):
    """The worker is gone with its machine, or before its first batch: the items cannot have killed it."""


class WorkerNotStarted(RequestError):
    """A worker that could not start; the next one may."""


class Worker(Protocol):
    """A process or an actor that works on batches."""

    def is_ready(self) -> bool:
        """Whether it would begin at once."""

    def process(self, batch: Sequence[Any]) -> Sequence[Any]:
        """One result per item. Raises WorkerDied, WorkerLimitExceeded, or whatever the function raised."""

    def close(self) -> None:
        """End it."""


# What starts the worker of each slot.
WorkerStarts = Mapping[Hashable, Callable[[], Worker]]
# An item whose worker is lost so often is tried no more.
_MOST_LOSSES = 10
# Whoever waits looks so often whether a worker has become ready, and the pool so often where workers can be.
_READY_SECONDS, _SLOTS_SECONDS = 0.05, 5.0
# A worker that cannot start is started so often, after so long a pause: memory may be short for a moment.
_STARTS, _START_PAUSE_SECONDS = 3, 0.5


@dataclass(frozen=True, slots=True)
class InlineCalls(Generic[T, R]):
    """The function itself, which the calling threads run, one at a time.

    Attributes:
        fn: The function.
        seconds: How long it runs there alone before workers are started.
        is_worker: Whether it goes on to run there beside the workers; else only while no worker is ready.
    """

    fn: BatchFunction[T, R]
    seconds: float = 0.0
    is_worker: bool = False


@dataclass(frozen=True, slots=True)
class WorkerWaitLimit:
    """How long a batch waits while no worker is ready.

    Attributes:
        seconds: So many seconds.
        make_error: Makes the error that ends the wait.
    """

    seconds: float
    make_error: Callable[[], RequestError]


class RestartingPool(Generic[T, R]):
    """Places for workers; a batch goes to whatever is free and ready first, and a worker that dies is replaced.

    Args:
        list_slots: What starts the worker of each slot, which need not be ready at once; the last works first. It is
            called again now and then, and None then says that nothing is known: workers of slots that are gone end
            after their batch.
        on_worker_death: Error of an item whose worker crashed in two attempts, or was killed in five.
        inline: What the calling threads run themselves; None for nothing.
        patience: How long a batch waits while no worker is ready; None for ever.
        most_workers: Most workers that there can ever be; None for as many as there are slots now.
    """

    def __init__(
        self,
        list_slots: Callable[[], WorkerStarts | None],
        on_worker_death: type[AresError],
        inline: InlineCalls[T, R] | None = None,
        patience: WorkerWaitLimit | None = None,
        most_workers: int | None = None,
    ) -> None:
        self._list_slots, self._on_worker_death = list_slots, on_worker_death
        self._inline, self._patience = inline, patience
        self._slots = {name: _WorkerSlot(start) for name, start in (list_slots() or {}).items()}
        # Last in, first out: with little work, few workers are started.
        self._free_slots = list(self._slots.values())
        self._most_workers = most_workers
        self._listed_at = self._worked_at = self._next_poll_at = time.monotonic()
        self._start_at: float | None = None
        # CPU-bound threads that run together take three times as long as one by one.
        self._is_inline_free = inline is not None
        self._waiting = 0
        self._is_closed = False
        self._changed = threading.Condition()

    @property
    def max_workers(self) -> int:
        """Calls of `map` that can run at the same time now."""
        with self._changed:
            self._follow_slots()
            return len(self._slots) + bool(self._inline and self._inline.is_worker)

    @property
    def most_workers(self) -> int:
        """Calls of `map` that can ever run at the same time."""
        return self._most_workers or self.max_workers

    def map(self, batch: Sequence[T]) -> Sequence[R | AresError]:
        """One result or error per item, in order; raises what the function raised.

        Items of a batch whose worker died are tried again one by one, so that one that kills its worker costs no other.
        """
        try:
            return self._process(batch)
        except WorkerDied as error:
            if isinstance(error, WorkerLimitExceeded) and len(batch) == 1:
                return [self._on_worker_death(*error.args)]  # a second attempt would take as long
            deaths = 0 if isinstance(error, WorkerLost) else 1
            return [self._retry_item(item, deaths) for item in batch]

    def start(self) -> None:
        """Start all workers now, without waiting for them: there is enough work for each."""
        self._start_at = float("-inf")
        for slot in list(self._slots.values()):
            with suppress(WorkerNotStarted):  # its first batch starts it again
                slot.worker()

    def close(self) -> None:
        """End all workers."""
        with self._changed:
            self._is_closed = True
            slots, self._slots, self._free_slots = self._slots, {}, []
        for slot in slots.values():
            slot.close()

    def _retry_item(self, item: T, deaths: int) -> R | AresError:
        """The result of one item, which has been in a batch whose worker died so often already."""
        for _ in range(_MOST_LOSSES):
            try:
                return self._process([item], is_retry=True)[0]
            except WorkerLimitExceeded as error:
                return self._on_worker_death(*error.args)
            except WorkerLost:
                time.sleep(_START_PAUSE_SECONDS)
            except WorkerDied as error:
                deaths += 1
                if deaths >= error.most_deaths:
                    return self._on_worker_death("its worker died every time", f"{error}, {deaths} times")
        return self._on_worker_death(f"its machine was lost {_MOST_LOSSES} times", "")

    def _process(self, batch: Sequence[T], is_retry: bool = False) -> Sequence[R | AresError]:
        for _ in range(_STARTS - 1):
            with suppress(WorkerNotStarted):
                return self._process_once(batch, is_retry)
            time.sleep(_START_PAUSE_SECONDS)
        return self._process_once(batch, is_retry)

    def _process_once(self, batch: Sequence[T], is_retry: bool) -> Sequence[R | AresError]:
        slot = self._take(is_retry)
        worker, is_lost = None, False
        try:
            if slot is None:
                assert self._inline is not None
                return self._inline.fn(batch)
            worker = slot.worker()
            results: Sequence[R | AresError] = worker.process(batch)
            return results
        except (WorkerDied, WorkerNotStarted) as error:
            is_lost = isinstance(error, WorkerLost)
            if slot is not None:
                slot.discard(worker)
            raise
        finally:
            self._give_back(slot, is_lost)

    def _take(self, is_retry: bool) -> _WorkerSlot | None:
        """A slot whose worker is ready, or None for the calling thread, which works on no item that killed a worker."""
        with self._changed:
            if not self._waiting:
                self._worked_at = time.monotonic()
            self._waiting += 1
            try:
                while True:
                    if self._is_closed:
                        raise RequestError("the workers have ended")
                    self._follow_slots()
                    if self._is_due_inline() and not is_retry:
                        self._is_inline_free = False
                        return None
                    if self._is_start_due() and (slot := self._ready_slot()) is not None:
                        self._free_slots.remove(slot)
                        return slot
                    self._check_patience()
                    self._changed.wait(_READY_SECONDS)
            finally:
                self._waiting -= 1

    def _follow_slots(self) -> None:
        """Drop the slots that are gone, and take those that have come."""
        if self._is_closed or time.monotonic() - self._listed_at < _SLOTS_SECONDS:
            return
        self._listed_at = time.monotonic()
        starts = self._list_slots()
        if starts is None:
            return
        for name in self._slots.keys() - starts.keys():
            slot = self._slots.pop(name)
            if slot in self._free_slots:
                self._free_slots.remove(slot)
                slot.close()
        for name in starts.keys() - self._slots.keys():
            self._slots[name] = _WorkerSlot(starts[name])
            self._free_slots.append(self._slots[name])

    def _check_patience(self) -> None:
        """Raise the error of the wait when no worker has been ready for too long."""
        now = time.monotonic()
        if len(self._free_slots) < len(self._slots):  # some work
            self._worked_at = now
        elif self._patience is not None and now - self._worked_at > self._patience.seconds:
            raise self._patience.make_error()

    def _is_due_inline(self) -> bool:
        """Whether the calling thread works itself: as one of the workers, or because not all of them are ready."""
        if self._inline is None or not self._is_inline_free:
            return False
        if self._inline.is_worker or not self._is_start_due():
            return True
        return bool(self._free_slots) and self._ready_slot() is None

    def _ready_slot(self) -> _WorkerSlot | None:
        """A free slot with a ready worker; as many workers are started as threads wait."""
        now = time.monotonic()
        if now < self._next_poll_at:  # another thread has just looked
            return None
        for slot in self._free_slots[-self._waiting :]:
            slot.worker()
        ready = next((slot for slot in reversed(self._free_slots) if slot.is_ready()), None)
        if ready is None:
            self._next_poll_at = now + _READY_SECONDS
        return ready

    def _give_back(self, slot: _WorkerSlot | None, is_lost: bool) -> None:
        with self._changed:
            self._worked_at = self._next_poll_at = time.monotonic()
            if is_lost:
                self._listed_at = float("-inf")
            if slot is None:
                self._is_inline_free = True
            elif slot in self._slots.values():
                # The slot of a lost worker is used last.
                self._free_slots.insert(0 if is_lost else len(self._free_slots), slot)
            else:
                slot.close()
            self._changed.notify_all()

    def _is_start_due(self) -> bool:
        now = time.monotonic()
        if self._start_at is None:
            self._start_at = now + (self._inline.seconds if self._inline else 0.0)
        return now >= self._start_at


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
