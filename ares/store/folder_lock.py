"""The lock of the job that writes to the folder of a workspace."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ares.console import print_message
from ares.errors import DiskFull, ReadOnlyWorkspace, storage_error

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
        ReadOnlyWorkspace: The folder cannot be written.
        DiskFull: There is no room for the lock.
        StoreError: The folder cannot be reached, such as one of a network that does not answer.
    """
    from filelock import FileLock, Timeout

    lock, job_file = FileLock(folder / _LOCK_FILE), folder / _JOB_FILE
    with _write_errors(folder):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise WorkspaceBusy(_current_job(job_file)) from None
            print_message(f"waiting: {_current_job(job_file)} is writing to {folder}")
            lock.acquire()
    try:
        with suppress(DiskFull), _write_errors(folder):  # the name is for those who wait
            job_file.write_text(job_label(job_name))
        yield
    finally:
        lock.release()  # the name stays: it is read while the lock is held


@contextmanager
def _write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise storage_error(error) from error
        raise ReadOnlyWorkspace(
            "the workspace is read-only",
            f"{folder}: {error.strerror}; make it writable for this user, or work on a copy of it",
        ) from None


def job_label(job_name: str) -> str:
    """Return a job with its process and host, as shown to those who wait."""
    return f"{job_name} (process {os.getpid()} on {socket.gethostname()})"


def _current_job(job_file: Path) -> str:
    try:
        return job_file.read_text() or "another job"
    except OSError:
        return "another job"
