"""Messages to the person at the terminal, at a level, and what is running when none was printed for long."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import Any, TextIO

_LOGGER = logging.getLogger("ares")
# A wait shorter than this needs no explanation.
_PATIENCE_SECONDS = 1.0
# After so long without a line a person wonders whether anything happens.
LINE_SECONDS = 10.0


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


class _Running:
    """Since when no line was printed, what is being done, and how many progress lines show that themselves."""

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


def count_of(number: int, noun: str, plural: str = "", *, comma: bool = False) -> str:
    """A number and what it counts: "1 episode", "2 episodes"; with `comma` "2,000 episodes"."""
    return f"{format(number, ',' if comma else '')} {noun if number == 1 else plural or noun + 's'}"


def count_are(number: int, noun: str, of: str = "") -> str:
    """A number, what it counts and of what, with a verb: "1 episode is", "2 episodes of lids are"."""
    return f"{count_of(number, noun)}{of and f' of {of}'} {'is' if number == 1 else 'are'}"


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
    _Running.steps = (*_Running.steps, text)
    try:
        yield
    finally:
        timer.cancel()
        _Running.steps = _Running.steps[:-1]


@contextmanager
def report_long_steps(step: str) -> Iterator[None]:
    """Write what is being done whenever ten seconds have passed without a line, and for how long already.

    Args:
        step: What is being done where no `announce_if_slow` says so.
    """
    started_at, ended = time.monotonic(), threading.Event()
    _Running.since = started_at

    def report() -> None:
        pause = LINE_SECONDS
        while not ended.wait(pause):
            now = time.monotonic()
            pause = LINE_SECONDS if _Running.progresses else _Running.since + LINE_SECONDS - now
            if pause <= 0:
                print_message(f"{(step, *_Running.steps)[-1]}: {now - started_at:.0f} s so far")
                pause = LINE_SECONDS

    threading.Thread(target=report, name="long steps", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def showing_progress() -> Iterator[None]:
    """Let `report_long_steps` print nothing: what runs in the block shows how far it is, or has nothing to show."""
    _Running.progresses += 1
    try:
        yield
    finally:
        _Running.progresses -= 1
        _Running.since = time.monotonic()


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Write how long a step took, on a line with the time of day, with `-v` only."""
    started_at = time.monotonic()
    yield
    _LOGGER.info(f"{step}: {time.monotonic() - started_at:.2f} s")


def write_stderr(*lines: str) -> None:
    """Write lines on standard error; one that is closed or full is ignored, as nobody could read of it."""
    _Running.since = time.monotonic()
    with ignoring_lost_stderr():
        # In one write: between a line and its end another thread could write one.
        sys.stderr.write("".join(f"{visible(line)}\n" for line in lines))
        sys.stderr.flush()


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
