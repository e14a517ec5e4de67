"""Starts the process of an export, and stops it."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from app.dashboard.exports.job import ExportJob, has_process, job_path, open_lock, read_job, write_job
from ares.curation import CurationSet
from ares.errors import RequestError
from ares.export import TaskSource
from ares.store import Stores

# A page that looks whether the process lives has its lock for a moment.
_ATTEMPTS, _ATTEMPT_SECONDS = 4, 0.05


def start_export(
    stores: Stores, episode_set: CurationSet, format: str, dest: Path, task: TaskSource
) -> ExportJob:
    """Start an export in a process of its own, which goes on when the server ends.

    Raises:
        RequestError: An export into the same folder runs already.
    """
    path = job_path(stores, dest)
    lock = _lock(path)
    job = ExportJob(
        set=episode_set.label, dest=str(dest), format=format, task=task, total=episode_set.episodes,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )  # fmt: skip
    try:
        write_job(path, job)
        _start_process(stores, path, lock)
    finally:
        os.close(lock)  # the process has its own
    return job


def _lock(path: Path) -> int:
    for _ in range(_ATTEMPTS):
        try:
            return open_lock(path)
        except BlockingIOError:
            time.sleep(_ATTEMPT_SECONDS)
    raise RequestError("an export into this folder is running", "wait for its end, or stop it")


def stop_export(stores: Stores, job: ExportJob) -> None:
    """Ask the process of an export to end as Ctrl+C would: it deletes what it has written so far."""
    path = job_path(stores, Path(job.dest))
    current = read_job(path)
    if current and current.pid and has_process(path):
        os.kill(current.pid, signal.SIGINT)


def _start_process(stores: Stores, path: Path, lock: int) -> None:
    # The settings may hold a password: they are passed by a pipe.
    process = subprocess.Popen(
        [sys.executable, "-m", "app.dashboard.exports.process", str(path), str(lock)],
        stdin=subprocess.PIPE, pass_fds=[lock], start_new_session=True,
    )  # fmt: skip
    assert process.stdin
    with process.stdin:
        pickle.dump((stores.location, stores.settings), process.stdin)
    threading.Thread(target=process.wait, daemon=True).start()
