"""A limit of time on reading a record in the process at hand; a process of its own is ended by its parent."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ares.errors import SourceError

T = TypeVar("T")

_POLL_SECONDS = 0.2


class _TimeExceeded(BaseException):
    """Raised in the thread of a call that takes too long; no `except Exception` of a reader catches it."""


class _Watch:
    """A thread that ends calls of other threads at their deadlines; it is started by the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[int, float] = {}
        self._is_running = False

    def begin(self, seconds: float) -> None:
        """Give the thread that calls this a deadline."""
        with self._lock:
            self._deadlines[threading.get_ident()] = time.monotonic() + seconds
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="ares-time-limit", daemon=True).start()

    def end(self) -> None:
        """Take the deadline away again; an exception that has not been raised yet is not raised any more."""
        thread = threading.get_ident()
        with self._lock:
            if self._deadlines.pop(thread, None) is None:
                _raise_in(thread, None)

    def _run(self) -> None:
        while True:
            time.sleep(_POLL_SECONDS)
            with self._lock:
                now = time.monotonic()
                late = [thread for thread, deadline in self._deadlines.items() if now > deadline]
                for thread in late:
                    del self._deadlines[thread]
                    _raise_in(thread, _TimeExceeded)
                if not self._deadlines:
                    self._is_running = False
                    return


_watch = _Watch()


def call_within(seconds: float, call: Callable[[], T]) -> T:
    """What a function returns; it is ended at a deadline, at the next step of its Python code.

    A call of a library that does not come back to Python cannot be ended: sources of such libraries are fragile.
    Calls must not be nested in one thread.

    Args:
        seconds: Time that it may take.
        call: The function.

    Raises:
        SourceError: It took longer.
    """
    try:
        try:
            _watch.begin(seconds)
            return call()
        finally:
            _watch.end()
    except _TimeExceeded:
        raise SourceError("the record took too long to read", f"more than {seconds:g} s") from None


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise an exception at its next step, or none."""
    target = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target)
