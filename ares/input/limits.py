"""What reading one record or file of a foreign dataset may cost, in size, memory and time."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from ares.errors import SourceError
from ares.settings import settings_from_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBudgets:
    """Limits for foreign data. The first four are settings of the user (`ares.toml` or the environment).

    Attributes:
        pixels: Pixels of one image or video frame, by its header (ARES_MAX_MEGAPIXELS).
        memory_bytes: Memory that reading may add to a process (ARES_READER_GB).
        record_seconds: Seconds in which one record is read, in whatever process, and those that opening and listing a
            dataset may take from one of its files to the next (ARES_RECORD_SECONDS).
        follow_links: Whether symbolic links may lead out of a dataset (ARES_FOLLOW_LINKS).
        array_bytes: Decoded bytes of one array, column or chunk that is read at once.
        elements: Numbers in one array or column that is read at once.
        text_bytes: Bytes of one JSON, YAML or other text document that is parsed as a whole.
        line_bytes: Bytes of one line of a JSON lines or CSV file.
        yaml_bytes: Bytes of one YAML document.
        depth: Nested lists and objects of a document.
        entries: Files of an archive, and nodes of a YAML document after its aliases are expanded.
        members: Episodes of a dataset, and names in one group of an HDF5 file: ten times the largest workspaces.
        ratio: Plain bytes per compressed byte of zip entries; deflate itself cannot exceed 1032.
        ratio_free_bytes: Plain bytes below which no ratio is checked: short constant arrays compress extremely well.
    """

    pixels: int = 100_000_000
    memory_bytes: int = 4 * 2**30
    record_seconds: float = 300.0
    follow_links: bool = False
    array_bytes: int = 2 * 2**30
    elements: int = 2**28
    text_bytes: int = 64 * 2**20
    line_bytes: int = 16 * 2**20
    yaml_bytes: int = 4 * 2**20
    depth: int = 100
    entries: int = 2_000_000
    members: int = 10_000_000
    ratio: float = 1100.0
    ratio_free_bytes: int = 64 * 2**20


@lru_cache(maxsize=1)
def input_budgets() -> InputBudgets:
    """The limits of this process, from its settings. Raises RequestError for a setting that cannot be read."""
    settings = settings_from_environment()
    return replace(
        InputBudgets(),
        pixels=round(settings.max_megapixels * 1e6),
        memory_bytes=round(settings.reader_gb * 2**30),
        record_seconds=settings.record_seconds,
        follow_links=settings.follow_links,
    )


_lock = threading.Lock()
_num_blocks = 0
_limit_before = (0, 0)


@contextmanager
def limited_memory() -> Iterator[None]:
    """Let the process allocate no more than the budget of memory within the block; larger requests fail.

    The limit counts memory that can be written (RLIMIT_DATA of Linux): unlike RLIMIT_AS it leaves out what allocators
    and threads only reserve. Blocks of several threads share one limit. On other systems nothing is limited.

    Raises:
        SourceError: The block ran out of memory.
    """
    _enter_limit()
    try:
        yield
    except MemoryError as error:
        text = " ".join(str(error).split())[:200]
        raise SourceError("reading takes more memory than allowed", text) from None
    finally:
        _leave_limit()


def _enter_limit() -> None:
    global _num_blocks, _limit_before
    if sys.platform != "linux":
        return
    import resource

    with _lock:
        _num_blocks += 1
        if _num_blocks > 1:
            return
        _limit_before = resource.getrlimit(resource.RLIMIT_DATA)
        soft, hard = _limit_before
        limit = _data_bytes() + input_budgets().memory_bytes
        bounds = [limit, *(bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), hard))


def _leave_limit() -> None:
    global _num_blocks
    if sys.platform != "linux":
        return
    import resource

    with _lock:
        _num_blocks -= 1
        if not _num_blocks:
            resource.setrlimit(resource.RLIMIT_DATA, _limit_before)


def _data_bytes() -> int:
    import resource

    file = os.open("/proc/self/statm", os.O_RDONLY)  # pathlib takes four times as long
    try:
        return int(os.read(file, 256).split()[5]) * resource.getpagesize()
    finally:
        os.close(file)


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
            outer: Seconds per file of the call that this one was nested in, which gets its time anew.
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
    Calls may be nested in one of `call_with_file_time_limit`, whose time begins anew after them.

    Args:
        seconds: Time that it may take.
        call: The function.

    Raises:
        SourceError: It took longer.
    """
    reason = "the record took too long to read"
    return _call_with_limit(call, seconds, SourceError(reason, f"more than {seconds:g} s"), per_file=False)


def call_with_file_time_limit(seconds: float, call: Callable[[], T]) -> T:
    """As `call_with_time_limit`, for opening or listing a dataset: each file of it that is opened gives the time anew.

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
    """Give a call of `call_with_file_time_limit` its time anew: the next file is opened."""
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
