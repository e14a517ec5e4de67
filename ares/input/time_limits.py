"""Ends calls that read foreign data for too long."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ares.errors import SourceError

T = TypeVar("T")

_POLL_SECONDS = 0.2


class _TimeExceeded(BaseException):
    """Raised in the thread of a call that takes too long; no `except Exception` of a reader catches it."""


@dataclass(slots=True)
class _Watch:
    """A thread that ends calls of other threads at their deadlines; it is started by the first call."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _deadlines: dict[int, float] = field(default_factory=dict)
    _seconds_per_file: dict[int, float] = field(default_factory=dict)
    _is_running: bool = False

    def begin(self, seconds: float, *, per_file: bool) -> float | None:
        """Give the thread that calls this a deadline, which `renew` moves where it is one for each file.

        Returns the seconds per file of the call that this one is nested in; None where there is none.
        """
        thread = threading.get_ident()
        with self._lock:
            outer = self._seconds_per_file.pop(thread, None)
            self._deadlines[thread] = time.monotonic() + seconds
            if per_file:
                self._seconds_per_file[thread] = seconds
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="ares-time-limit", daemon=True).start()
            return outer

    def end(self, outer: float | None) -> None:
        """Take the deadline away again; an exception that has not been raised yet is not raised any more.

        Args:
            outer: Seconds per file of the call that this one was nested in, which gets all of its time again.
        """
        thread = threading.get_ident()
        with self._lock:
            self._seconds_per_file.pop(thread, None)
            if self._deadlines.pop(thread, None) is None:
                _raise_in(thread, None)
            if outer is not None:
                self._seconds_per_file[thread] = outer
                self._deadlines[thread] = time.monotonic() + outer

    def renew(self) -> None:
        """Move the deadline of the thread that calls this, where it is one for each file and has not passed."""
        thread = threading.get_ident()
        seconds = self._seconds_per_file.get(thread)
        if seconds is None:
            return
        with self._lock:
            if thread in self._deadlines:
                self._deadlines[thread] = time.monotonic() + seconds

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


def call_with_time_limit(seconds: float, call: Callable[[], T]) -> T:
    """What a function returns; it is ended at a deadline, at the next step of its Python code.

    A call of a library that does not come back to Python cannot be ended: sources of such libraries are fragile.
    Calls may be nested in one of `call_with_file_time_limit`, whose time begins again after them.

    Args:
        seconds: Time that it may take.
        call: The function.

    Raises:
        SourceError: It took longer.
    """
    reason = "the record took too long to read"
    return _call_with_limit(call, seconds, SourceError(reason, f"more than {seconds:g} s"), per_file=False)


def call_with_file_time_limit(seconds: float, call: Callable[[], T]) -> T:
    """As `call_with_time_limit`, for opening or listing a dataset: each file that is opened begins the time again.

    Args:
        seconds: Time that it may take from one file to the next.
        call: The function.

    Raises:
        SourceError: It took longer.
    """
    detail = f"more than {seconds:g} s at one file or between two"
    error = SourceError("the dataset took too long to open and list", detail)
    return _call_with_limit(call, seconds, error, per_file=True)


def restart_file_time_limit() -> None:
    """Give a call of `call_with_file_time_limit` its full time again: the next file is opened."""
    _watch.renew()


def _call_with_limit(call: Callable[[], T], seconds: float, error: SourceError, *, per_file: bool) -> T:
    try:
        outer = _watch.begin(seconds, per_file=per_file)
        try:
            return call()
        finally:
            _watch.end(outer)
    except _TimeExceeded:
        raise error from None


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise an exception at its next step, or none."""
    target = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target)
