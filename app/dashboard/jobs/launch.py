"""Starts the process of a job, and stops it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.child_process import start_module
from app.dashboard.jobs.job import (
    Job,
    Kind,
    has_process,
    job_folder,
    job_path,
    open_lock,
    read_job,
    write_job,
)
from ares.errors import ReadOnlyWorkspace, RequestError
from ares.store import Stores

# Files of jobs that have ended are deleted beyond so many.
_MAX_KEPT = 100
# A page that asks whether the process lives has its lock for a moment; a process that has written its end, for longer.
_LOCK_SECONDS, _END_SECONDS = 0.2, 5.0


def start_job(
    stores: Stores, kind: Kind, *, subject: str, name: str, arguments: Mapping[str, Any], total: int
) -> Job:
    """Start a job in a process of its own, which goes on when the server ends; see `Job` for the arguments.

    Raises:
        RequestError: A job of the same name runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    if not stores.is_writable:
        raise ReadOnlyWorkspace("the workspace is read-only", str(stores.folder))
    path = job_path(stores, kind, name)
    _forget_oldest(job_folder(stores))
    lock = _lock(path)
    job = Job(
        kind=kind, subject=subject, name=name, arguments=arguments, total=total,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )  # fmt: skip
    try:
        write_job(path, job)
        _start_process(stores, path, lock)
    finally:
        os.close(lock)  # the process has its own
    return job


def _forget_oldest(folder: Path) -> None:
    newest_first = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest_first[_MAX_KEPT:]:
        if not has_process(path):
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)


def _lock(path: Path) -> int:
    began = time.monotonic()
    while True:
        try:
            return open_lock(path)
        except BlockingIOError:
            job = read_job(path)
            limit = _END_SECONDS if job and job.ended else _LOCK_SECONDS
            if time.monotonic() - began > limit:
                raise RequestError("the same job is running", "wait for its end, or stop it") from None
        time.sleep(_LOCK_SECONDS / 4)


def stop_job(stores: Stores, job: Job) -> None:
    """Ask the process of a job to end as Ctrl+C would: an export deletes what it has written so far."""
    path = job_path(stores, job.kind, job.name)
    current = read_job(path)
    if current and current.pid and has_process(path):
        os.kill(current.pid, signal.SIGINT)


def _start_process(stores: Stores, path: Path, lock: int) -> None:
    # The settings may hold a password: they are passed by a pipe.
    message = (stores.location, stores.settings)
    process = start_module("app.dashboard.jobs.process", [str(path), str(lock)], message, inherited=[lock])
    assert process.stdin
    process.stdin.close()
    threading.Thread(target=process.wait, daemon=True).start()
