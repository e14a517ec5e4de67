"""Answers the signals that ask a process to end, also while its main thread is in compiled code."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ares.console import write_stderr

# Shells give a process that a signal has ended this status and the number of the signal.
SIGNAL_STATUS = 128
# Signals that come together are one request, such as those of a terminal that closes.
_TOGETHER_SECONDS = 0.2
# From a signal to the end of the process; Slurm kills after 30 s.
_END_SECONDS = 10.0


def signal_cause(number: int) -> str:
    """What a person calls a signal: "Ctrl-C", or its name."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def end_process(status: int) -> None:
    """End this process now, also while threads are in compiled code, which would abort an interpreter that ends."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


class SignalWatch:
    """Answers signals in a separate thread, and ends a process that does not end by itself.

    Handlers of Python run when the main thread comes back from compiled code, which may take minutes.

    Args:
        name: How its lines begin, such as "ares ingest".
        kept: What became of the work of a process that is ended before it could say so itself.

    Attributes:
        received: Number of the first signal, or None.
        has_reported_end: Whether the process has printed how it ends, so that no line repeats it.
        before_end: Called before the process is ended.
    """

    def __init__(self, name: str, kept: str) -> None:
        self.received: int | None = None
        self.has_reported_end = False
        self.before_end: Callable[[], object] = lambda: None
        self._name, self._kept = name, kept
        self._read_end = -1

    @contextmanager
    def watching(self, numbers: Sequence[int]) -> Iterator[None]:
        """Answer these signals, which need handlers of Python; in the main thread only."""
        self._read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(numbers,), name="signals", daemon=True).start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            os.close(write_end)

    def _watch(self, numbers: Sequence[int]) -> None:
        first = self._next(numbers, None)
        if first:
            self.received = first
            began = time.monotonic()
            again: int | None = first
            while again:
                again = self._next(numbers, began + _TOGETHER_SECONDS)
            if again is not None:
                text = f"{signal_cause(first)} received, ending within {_END_SECONDS:.0f} s"
                self._print(f"{text}; a second signal ends it at once")
                self._end_process(first, self._next(numbers, began + _END_SECONDS))
        os.close(self._read_end)

    def _next(self, numbers: Sequence[int], deadline: float | None) -> int | None:
        """The next of these signals; 0 at the deadline, and None when no more is to be answered."""
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._read_end], [], [], left)[0]:
                return 0
            received = os.read(self._read_end, 1)
            if not received:
                return None
            if received[0] in numbers:
                return received[0]

    def _end_process(self, first: int, second: int | None) -> None:
        if second is None:
            return
        end = f"by a second {signal_cause(second)}, at once" if second else f"by {signal_cause(first)}"
        self._print(f"stopped {end}, without waiting for what still ran; {self._kept}")
        _call_within_a_second(self.before_end)
        os._exit(SIGNAL_STATUS + (second or first))

    def _print(self, text: str) -> None:
        if not self.has_reported_end:
            _call_within_a_second(lambda: write_stderr(f"{self._name}: {text}"))


def _call_within_a_second(act: Callable[[], object]) -> None:
    """Call a function, and wait for it a second at most."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(1.0)  # a terminal that takes nothing must not keep the process
