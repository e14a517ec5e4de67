"""Messages to the person at the terminal: lines on standard error, at the level that `-v` and `-q` set."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from typing import TextIO

_LOGGER = logging.getLogger("ares")
# A wait shorter than this needs no explanation.
_PATIENCE_SECONDS = 1.0


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


def is_quiet() -> bool:
    """Whether only errors are to be written."""
    return _Level.current is Verbosity.QUIET


def is_verbose() -> bool:
    """Whether steps and their durations are to be written."""
    return _Level.current is Verbosity.VERBOSE


def print_message(text: str) -> None:
    """Write a line on standard error, unless only errors are to be written; above a progress bar if one is drawn."""
    if not is_quiet():
        write_stderr(text)


@contextmanager
def announce_if_slow(text: str) -> Iterator[None]:
    """Print a message about what the block does, once it has taken more than a second."""
    timer = threading.Timer(_PATIENCE_SECONDS, print_message, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_detail(text: str) -> None:
    """Write a line with the time of day on standard error, with `-v` only."""
    _LOGGER.info(text)


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Write how long a step took, with `-v` only."""
    started_at = time.monotonic()
    yield
    print_detail(f"{step}: {time.monotonic() - started_at:.2f} s")


def write_stderr(text: str) -> None:
    """Write a line on standard error; one that is closed or full is ignored, as nobody could read of it."""
    with ignoring_lost_stderr():
        print(text, file=sys.stderr, flush=True)


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
    try:
        if level is Verbosity.VERBOSE:
            with _log_lines():
                yield
        else:
            yield
    finally:
        _Level.current = previous


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
