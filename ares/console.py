"""Messages to the person at the terminal: at a level, in long silence, and in answer to a signal."""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, TextIO

_LOGGER = logging.getLogger("ares")
# A wait shorter than this needs no explanation.
_PATIENCE_SECONDS = 1.0
# After so long without a line a person wonders whether anything happens.
LINE_SECONDS = 10.0
# Signals that come together are one request, such as those of a terminal that closes.
_TOGETHER_SECONDS = 0.2
# From a signal to the end of the process; Slurm kills after 30 s.
_END_SECONDS = 10.0
# The last words must not wait for a terminal that takes nothing.
_LAST_WORDS_SECONDS = 1.0
# Shells give a process that a signal has ended this status and the number of the signal.
_SIGNAL_STATUS = 128


class Verbosity(IntEnum):
    """How much is written on standard error."""

    QUIET = 0
    """Errors only."""
    NORMAL = 1
    """Progress, and what a person waits for."""
    VERBOSE = 2
    """Also each step with its duration, and the log of the libraries."""


class _Level:
    current = Verbosity.NORMAL


class _Silence:
    """Since when nothing was written, what is being done, and how many bars and counts show that themselves."""

    since = time.monotonic()
    steps: tuple[str, ...] = ()
    progresses = 0


def is_quiet() -> bool:
    """Whether only errors are to be written."""
    return _Level.current is Verbosity.QUIET


def is_verbose() -> bool:
    """Whether steps and their durations are to be written."""
    return _Level.current is Verbosity.VERBOSE


def visible(text: str) -> str:
    """The text as one line, with control characters as escapes: what data name must not control a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def visible_lines(text: str) -> str:
    """The same lines with all other control characters as escapes."""
    return "\n".join(map(visible, text.split("\n")))


def print_message(*lines: str) -> None:
    """Write lines on standard error, unless only errors are to be written; above a progress bar if one is drawn."""
    if not is_quiet():
        write_stderr(*lines)


@contextmanager
def announce_if_slow(text: str) -> Iterator[None]:
    """Print a message about what the block does, once it has taken more than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, print_message, [text])
    timer.daemon = True
    timer.start()
    _Silence.steps = (*_Silence.steps, text)
    try:
        yield
    finally:
        timer.cancel()
        _Silence.steps = _Silence.steps[:-1]


@contextmanager
def breaking_silence(step: str) -> Iterator[None]:
    """Write what is being done whenever ten seconds have passed without a line, and for how long already.

    Args:
        step: What is being done where no `announce_if_slow` says so.
    """
    started_at, ended = time.monotonic(), threading.Event()
    _Silence.since = started_at

    def speak() -> None:
        pause = LINE_SECONDS
        while not ended.wait(pause):
            now = time.monotonic()
            pause = LINE_SECONDS if _Silence.progresses else _Silence.since + LINE_SECONDS - now
            if pause <= 0:
                print_message(f"{(step, *_Silence.steps)[-1]}: {now - started_at:.0f} s so far")
                pause = LINE_SECONDS

    threading.Thread(target=speak, name="silence", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def showing_progress() -> Iterator[None]:
    """Leave silence as it is: what runs in the block shows how far it is, or has nothing to show."""
    _Silence.progresses += 1
    try:
        yield
    finally:
        _Silence.progresses -= 1
        _Silence.since = time.monotonic()


def print_detail(text: str) -> None:
    """Write a line with the time of day on standard error, with `-v` only."""
    _LOGGER.info(text)


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Write how long a step took, with `-v` only."""
    started_at = time.monotonic()
    yield
    print_detail(f"{step}: {time.monotonic() - started_at:.2f} s")


def write_stderr(*lines: str) -> None:
    """Write lines on standard error; one that is closed or full is ignored, as nobody could read of it."""
    _Silence.since = time.monotonic()
    with ignoring_lost_stderr():
        print(*map(visible, lines), sep="\n", file=sys.stderr, flush=True)


@contextmanager
def ignoring_lost_stderr() -> Iterator[None]:
    """Ignore that standard error cannot be written; from then on it is nowhere, so that Python can end."""
    try:
        yield
    except (OSError, ValueError):
        discard(sys.stderr)


def discard(stream: TextIO | None) -> None:
    """Send what a stream has buffered, and what is written to it later, nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]
        os.close(null)


@contextmanager
def verbosity(level: Verbosity) -> Iterator[None]:
    """Set the level for the calls inside, in all threads."""
    previous, _Level.current = _Level.current, level
    records, warning = logging.getLogRecordFactory(), warnings.formatwarning
    escape_logs()
    try:
        if level is Verbosity.VERBOSE:
            with _log_lines():
                yield
        else:
            yield
    finally:
        _Level.current = previous
        logging.setLogRecordFactory(records)
        warnings.formatwarning = warning


class _VisibleRecord(logging.LogRecord):
    """A record of any library, whose message and traceback have control characters of data as escapes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.exc_info and self.exc_info[0]:
            self.exc_text = visible_lines("".join(traceback.format_exception(*self.exc_info)).rstrip())

    def getMessage(self) -> str:  # the name of logging
        return visible_lines(super().getMessage())


_format_warning = warnings.formatwarning


def _format_visible_warning(*args: Any, **options: Any) -> str:
    return visible_lines(_format_warning(*args, **options))


def escape_logs() -> None:
    """Let what libraries log or warn of reach the terminal as `visible_lines`, in this process from now on."""
    logging.setLogRecordFactory(_VisibleRecord)
    warnings.formatwarning = _format_visible_warning


@contextmanager
def _log_lines() -> Iterator[None]:
    """Write what ARES and its libraries log from INFO on, as lines of standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", datefmt="%H:%M:%S"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


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
    """Answers signals in a thread of its own, and ends a process that does not end by itself.

    Handlers of Python run when the main thread comes back from compiled code, which may take minutes.

    Args:
        name: How its lines begin, such as "ares ingest".
        kept: What became of the work of a process that is ended before it could say so itself.

    Attributes:
        received: Number of the first signal, or None.
        has_spoken: Whether the process has said how it ends, so that no line says it again.
        last_act: Called before the process is ended.
    """

    def __init__(self, name: str, kept: str) -> None:
        self.received: int | None = None
        self.has_spoken = False
        self.last_act: Callable[[], object] = bool
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
                self._say(f"{text}; a second signal ends it at once")
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
        self._say(f"stopped {end}, without waiting for what still ran; {self._kept}")
        _call_briefly(self.last_act)
        os._exit(_SIGNAL_STATUS + (second or first))

    def _say(self, text: str) -> None:
        if not self.has_spoken:
            _call_briefly(lambda: write_stderr(f"{self._name}: {text}"))


def _call_briefly(act: Callable[[], object]) -> None:
    """Call a function, and wait for it a second at most."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(_LAST_WORDS_SECONDS)
