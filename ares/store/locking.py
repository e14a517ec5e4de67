"""A file lock that lets one process at a time write to a workspace folder; a killed process releases it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK_FILE, _JOB_FILE = ".writing.lock", ".writing"


class WorkspaceBusy(Exception):
    """Another process has the write lock, and the caller did not want to wait."""


@contextmanager
def lock_folder(folder: Path, job_name: str, wait: bool = True) -> Iterator[None]:
    """Lock a folder for writing.

    Args:
        folder: The folder of the workspace.
        job_name: Name of the job, shown to those who wait.
        wait: Whether to wait for another writer, and print its name.

    Raises:
        WorkspaceBusy: Another process writes, and `wait` is off.
    """
    from filelock import FileLock, Timeout

    lock, job_file = FileLock(folder / _LOCK_FILE), folder / _JOB_FILE
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if not wait:
            raise WorkspaceBusy(_current_job(job_file)) from None
        print(f"waiting: {_current_job(job_file)} is writing to {folder}", file=sys.stderr)
        lock.acquire()
    try:
        job_file.write_text(job_label(job_name))
        yield
    finally:
        job_file.unlink(missing_ok=True)
        lock.release()


def job_label(job_name: str) -> str:
    """Return a job with its process and host, as shown to those who wait."""
    return f"{job_name} (process {os.getpid()} on {socket.gethostname()})"


def _current_job(job_file: Path) -> str:
    try:
        return job_file.read_text() or "another job"
    except OSError:
        return "another job"
