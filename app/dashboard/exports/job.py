"""The file of an export: what it writes where, how far it is, and how it ended."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ares.export import TaskSource
from ares.store import Stores

State = Literal["running", "finished", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportJob:
    """One export, running or ended.

    Attributes:
        set: Label of the set, "name@version".
        dest: Folder to write.
        format: Name of the exporter.
        task: What the task of every episode is.
        total: Episodes to write.
        started: ISO 8601 time in UTC.
        done: Episodes written.
        pid: Number of its process; 0 until the process has begun.
        state: "lost" is a process that ended without saying how, such as a killed one.
        report: Report of the exporter, once it has finished.
        reason: Why the export failed, or "".
        detail: The value and the location of the failure.
    """

    set: str
    dest: str
    format: str
    task: TaskSource
    total: int
    started: str
    done: int = 0
    pid: int = 0
    state: State = "running"
    report: Mapping[str, Any] | None = None
    reason: str = ""
    detail: str = ""

    @property
    def ended(self) -> bool:
        """Whether no process works on it any more."""
        return self.state != "running"


def job_folder(stores: Stores) -> Path:
    """The folder with the files of exports, in the workspace, or in its cache where that is on an object store."""
    return stores.folder / "export-jobs"


def job_path(stores: Stores, dest: Path) -> Path:
    """The file of the export into a folder; another export into the same folder replaces it."""
    name = hashlib.blake2b(os.fsencode(dest), digest_size=8).hexdigest()
    return job_folder(stores) / f"{name}.json"


def list_jobs(stores: Stores, label: str) -> list[ExportJob]:
    """The exports of a set, the newest first."""
    jobs = [read_job(path) for path in sorted(job_folder(stores).glob("*.json"))]
    return sorted(
        (job for job in jobs if job and job.set == label), key=lambda job: job.started, reverse=True
    )


def read_job(path: Path) -> ExportJob | None:
    """Read a file; None where there is none, or one that cannot be read."""
    is_alive = has_process(path)  # before the file, whose last state is written before the process ends
    try:
        job = ExportJob(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return job if job.ended or is_alive else replace(job, state="lost")


def write_job(path: Path, job: ExportJob, **changes: object) -> ExportJob:
    """Write a job with some fields changed, in one step; returns it."""
    job = replace(job, **changes)  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(asdict(job)))
    partial.replace(path)
    return job


def open_lock(path: Path) -> int:
    """Take the lock that the process of a job holds while it lives.

    Returns:
        Its file descriptor, to be passed to the process.

    Raises:
        BlockingIOError: A process has it, or somebody looks for one at this moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def has_process(path: Path) -> bool:
    """Whether the process of a job lives."""
    if not path.with_suffix(".lock").exists():
        return False
    try:
        os.close(open_lock(path))
    except BlockingIOError:
        return True
    return False
