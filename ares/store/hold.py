"""Hold: one writer of a workspace at a time, by a lock of its folder that a killed holder leaves free."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK, _HOLDER = ".writing.lock", ".writing"


class Busy(Exception):
    """Another writer holds the workspace, and the caller did not want to wait."""


@contextmanager
def hold_folder(folder: Path, who: str, wait: bool = True) -> Iterator[None]:
    """Hold a folder for writing.

    Args:
        folder: Of the workspace.
        who: Name of the job, told to those who wait.
        wait: Whether to wait for another writer, telling for whom.

    Raises:
        Busy: Another writes, and `wait` is off.
    """
    from filelock import FileLock, Timeout

    lock, holder = FileLock(folder / _LOCK), folder / _HOLDER
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise Busy(_told(holder)) from None
        print(f"waiting: {_told(holder)} is writing to {folder}", file=sys.stderr)
        lock.acquire()
    try:
        holder.write_text(signature(who))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def signature(who: str) -> str:
    """A job with the process that does it, for those who wait."""
    return f"{who} (process {os.getpid()} on {socket.gethostname()})"


def _told(holder: Path) -> str:
    try:
        return holder.read_text() or "another job"
    except OSError:
        return "another job"
