"""A time limit for the queries of one caller: their loops check it, and engines that compute are interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Protocol, TypeVar

from ares.errors import QueryTimeout

T = TypeVar("T")


class AnyLock(Protocol):
    """A lock of the module `threading`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock; False when the time is over."""

    def release(self) -> None:
        """Release the lock."""


class Deadline:
    """A time limit for one query, which may run in several threads.

    Args:
        seconds: Time from now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds
        self._lock = Lock()
        self._is_cancelled = False
        self._interrupts: list[Callable[[], None]] = []

    @property
    def remaining_seconds(self) -> float:
        """Seconds that are left; 0 when the time is over or the query was cancelled."""
        return 0.0 if self._is_cancelled else max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise QueryTimeout when the time is over."""
        if not self.remaining_seconds:
            raise self.error()

    def error(self) -> QueryTimeout:
        """The error that ends the query."""
        remedy = "use a simpler filter or search; ARES_QUERY_SECONDS allows more"
        return QueryTimeout(f"the query took longer than {self.seconds:g} s", remedy)

    def cancel(self) -> None:
        """End the query at its next check, and interrupt the engines that compute for it now."""
        # Under the lock, because what computes next may be the query of somebody else.
        with self._lock:
            self._is_cancelled = True
            for interrupt in self._interrupts:
                interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call a function if the query is cancelled inside; it may be called from another thread."""
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            self.check()
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> Deadline | None:
    """Return the deadline of this thread, or None: commands have none."""
    return _current.get()


@contextmanager
def limit_time(deadline: Deadline | None) -> Iterator[None]:
    """Use a deadline for the queries inside, in this thread."""
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)


def check_deadline() -> None:
    """Raise QueryTimeout when the time of this thread's query is over; called between the batches of a query."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()


@contextmanager
def interruptible(interrupt: Callable[[], None], error: type[Exception]) -> Iterator[None]:
    """Interrupt an engine when the time of this thread's query is over.

    Args:
        interrupt: Makes the engine stop; called from another thread.
        error: What the engine then raises.

    Raises:
        QueryTimeout: In place of `error`, when the time is over.
    """
    deadline = _current.get()
    if deadline is None:
        yield
        return
    try:
        with deadline.interrupting(interrupt):
            yield
    except error:
        deadline.check()
        raise


@contextmanager
def wait_for_lock(lock: AnyLock) -> Iterator[None]:
    """Hold a lock inside. Raises QueryTimeout when another thread holds it until the time of this query is over."""
    deadline = _current.get()
    if deadline is None:
        lock.acquire()
    elif not lock.acquire(timeout=deadline.remaining_seconds):
        raise deadline.error()
    try:
        yield
    finally:
        lock.release()


def carry_deadline_to_thread(function: Callable[..., T]) -> Callable[..., T]:
    """Return the function for another thread, in which it has the deadline of this one."""
    deadline = _current.get()
    if deadline is None:
        return function

    def limited(*args: object, **kwargs: object) -> T:
        with limit_time(deadline):
            deadline.check()
            return function(*args, **kwargs)

    return limited
