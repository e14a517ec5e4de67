"""The file of a job: what it does, how far it is, and how it ended."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ares.store import Stores

Kind = Literal["export", "retry"]
State = Literal["running", "finished", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, running or ended.

    Attributes:
        kind: What it does: an export of a set, or another try of failed work.
        subject: What it is about: the label of the set, or the failed work.
        name: What only one job can do at a time, such as the folder to write; a later job of the name replaces it.
        arguments: Arguments of the work, as JSON.
        total: Episodes to write, or subjects to annotate.
        started: ISO 8601 time in UTC.
        done: How many of them are done.
        pid: Number of its process; 0 until the process has begun.
        state: "lost" is a process that ended without saying how, such as a killed one.
        report: Report of the work, once it has finished.
        reason: Why it failed, or "".
        detail: The value and the location of the failure.
    """

    kind: Kind
    subject: str
    name: str
    arguments: Mapping[str, Any]
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
    """The folder with the files of jobs, in the workspace, or in its cache where that is on an object store."""
    return stores.folder / "jobs"


def job_path(stores: Stores, kind: Kind, name: str) -> Path:
    """The file of the job of a name."""
    digest = hashlib.blake2b(f"{kind} {name}".encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return job_folder(stores) / f"{digest}.json"


def list_jobs(stores: Stores, kind: Kind, subject: str) -> list[Job]:
    """The jobs about a subject, the newest first."""
    jobs = [read_job(path) for path in sorted(job_folder(stores).glob("*.json"))]
    matching = (job for job in jobs if job and (job.kind, job.subject) == (kind, subject))
    return sorted(matching, key=lambda job: job.started, reverse=True)


def read_job(path: Path) -> Job | None:
    """Read a file; None where there is none, or one that cannot be read."""
    is_alive = has_process(path)  # before the file, whose last state is written before the process ends
    try:
        job = Job(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return job if job.ended or is_alive else replace(job, state="lost")


def write_job(path: Path, job: Job, **changes: object) -> Job:
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
