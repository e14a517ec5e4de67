"""Jobs of the dashboard, such as exports: how they start, store progress, stop, and are drawn."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from app.dashboard import navigation
from app.dashboard.navigation import escape_markdown
from app.server import start_module_process
from ares.curation import CurationSet
from ares.errors import AresError, ReadOnlyWorkspace, RequestError
from ares.export import TaskSource
from ares.store import Stores
from ares.workspace import Workspace

Kind = Literal["export", "retry", "set"]
State = Literal["running", "finished", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, running or ended.

    Attributes:
        kind: What it does: an export of a set, another try of failed work, or an action of `ares set`.
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


def find_job_folder(stores: Stores) -> Path:
    """The folder with the files of jobs, in the workspace, or in its cache where that is on an object store."""
    return stores.folder / "jobs"


def find_job_path(stores: Stores, kind: Kind, name: str) -> Path:
    """The file of the job of a name."""
    digest = hashlib.blake2b(f"{kind} {name}".encode(errors="surrogateescape"), digest_size=8).hexdigest()
    return find_job_folder(stores) / f"{digest}.json"


def list_jobs(stores: Stores, kind: Kind, subject: str) -> list[Job]:
    """The jobs about a subject, the newest first."""
    jobs = [read_job(path) for path in sorted(find_job_folder(stores).glob("*.json"))]
    matching = (job for job in jobs if job and (job.kind, job.subject) == (kind, subject))
    return sorted(matching, key=lambda job: job.started, reverse=True)


def read_job(path: Path) -> Job | None:
    """Read a file; None where there is none, or one that cannot be read."""
    is_alive = is_job_process_alive(
        path
    )  # before the file, whose last state is written before the process ends
    try:
        job = Job(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
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


def take_job_lock(path: Path) -> int:
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


def is_job_process_alive(path: Path) -> bool:
    """Whether the process of a job lives."""
    if not path.with_suffix(".lock").exists():
        return False
    try:
        os.close(take_job_lock(path))
    except BlockingIOError:
        return True
    return False


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
    path = find_job_path(stores, kind, name)
    _forget_oldest(find_job_folder(stores))
    lock = _wait_for_job_lock(path)
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
        if not is_job_process_alive(path):
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
            path.with_suffix(".csv").unlink(missing_ok=True)


def _wait_for_job_lock(path: Path) -> int:
    began = time.monotonic()
    while True:
        try:
            return take_job_lock(path)
        except BlockingIOError:
            job = read_job(path)
            limit = _END_SECONDS if job and job.ended else _LOCK_SECONDS
            if time.monotonic() - began > limit:
                raise RequestError("the same job is running", "wait for its end, or stop it") from None
        time.sleep(_LOCK_SECONDS / 4)


def stop_job(stores: Stores, job: Job) -> None:
    """Ask the process of a job to end as Ctrl+C would: an export has no folder of its name then."""
    path = find_job_path(stores, job.kind, job.name)
    current = read_job(path)
    if current and current.pid and is_job_process_alive(path):
        os.kill(current.pid, signal.SIGINT)


def _start_process(stores: Stores, path: Path, lock: int) -> None:
    # The settings may hold a password: they are passed by a pipe.
    message = (stores.location, stores.settings)
    process = start_module_process(
        "app.dashboard.job_process", [str(path), str(lock)], message, inherited=[lock]
    )
    assert process.stdin
    process.stdin.close()
    threading.Thread(target=process.wait, daemon=True).start()


# Jobs of a subject that are shown, and how often their progress is read.
_MAX_JOBS, _REFRESH_SECONDS = 5, 0.5


def draw_jobs(
    stores: Stores,
    kind: Kind,
    subject: str,
    progress_text: Callable[[Job], str],
    draw_end: Callable[[Job], None],
    *,
    on_end: Callable[[], None] = lambda: None,
    most: int = _MAX_JOBS,
) -> None:
    """Draw the jobs about a subject, the newest first, also those that an earlier server started.

    Args:
        stores: Stores of the workspace.
        kind: Kind of the jobs.
        subject: What they are about.
        progress_text: Markdown beside the bar of a running one.
        draw_end: Draws one that has ended.
        on_end: Called when one has ended while the page was open, before the page is drawn again.
        most: Number of jobs to draw.
    """
    is_running = any(not job.ended for job in list_jobs(stores, kind, subject))

    @st.fragment(run_every=_REFRESH_SECONDS if is_running else None)
    def draw() -> None:
        navigation.accept_next_message()
        jobs = list_jobs(stores, kind, subject)
        if is_running and all(job.ended for job in jobs):
            on_end()
            st.rerun()
        for job in jobs[:most]:
            if job.ended:
                draw_end(job)
            else:
                _draw_running(stores, job, progress_text(job))

    draw()


def _draw_running(stores: Stores, job: Job, text: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, job.done / max(1, job.total)), text=text)
        st.button(
            "Stop", key=f"jobs.stop.{job.kind}.{job.name}", icon=":material/stop:",
            on_click=stop_job, args=(stores, job),
        )  # fmt: skip


def start_export(stores: Stores, episode_set: CurationSet, format: str, dest: Path, task: TaskSource) -> Job:
    """Start an export.

    Args:
        stores: Stores of the workspace.
        episode_set: The set.
        format: Name of the exporter.
        dest: Folder to write.
        task: What the task of every episode is.

    Raises:
        RequestError: An export into the same folder runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_job(
        stores, "export", subject=episode_set.label, name=str(dest), total=episode_set.num_members,
        arguments={"format": format, "task": task},
    )  # fmt: skip


def run_export_job(workspace: Workspace, job: Job, progress: Callable[[int], None]) -> dict[str, Any]:
    """Write the export of a job, in its process; returns the report."""
    from ares.export import ExportRequest, export_set

    request = ExportRequest(set=workspace.sets[job.subject], destination=Path(job.name), **job.arguments)
    return export_set(request, workspace.stores, progress).to_json()


def start_set_command(stores: Stores, label: str, words: Sequence[str]) -> Job:
    """Start what `ares set WORDS` does.

    Args:
        stores: Stores of the workspace.
        label: The set that it is about.
        words: The words behind `ares set`.

    Raises:
        RequestError: The same command runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_job(
        stores, "set", subject=label, name=shlex.join(words), total=1, arguments={"words": list(words)}
    )


def run_set_job(stores: Stores, job: Job) -> dict[str, Any]:
    """Run the command of a job, and return what `--json` prints. The reasons of a composition wait beside the job.

    Raises:
        RequestError: The command refuses, with its reason.
    """
    words = list(job.arguments["words"])
    if words[0] == "create":
        words += ["--reasons", str(find_reasons_path(stores, job))]
    command = [sys.executable, "-m", "ares", "set", *words, "--workspace", stores.location, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True)
    document: dict[str, Any] = json.loads(ended.stdout) if ended.stdout else {}
    if ended.returncode:
        error = document.get("error") or {"reason": "the command failed", "detail": ended.stderr[-500:]}
        raise RequestError(error["reason"], error["detail"])
    return document


def find_reasons_path(stores: Stores, job: Job) -> Path:
    """The file in which a composition says why each episode is kept or left out."""
    return find_job_path(stores, job.kind, job.name).with_suffix(".csv")


def draw_exports(stores: Stores, label: str) -> None:
    """Draw the exports of a set, the newest first, also those that an earlier server started."""
    draw_jobs(stores, "export", label, _progress_text, _draw_end)


def _progress_text(job: Job) -> str:
    return f"{job.done:,} of {job.total:,} episodes to {escape_markdown(job.name)}"


def _draw_end(job: Job) -> None:
    dest = escape_markdown(job.name)
    if job.report is not None:
        st.success(f"Exported to {dest}", icon=":material/check_circle:")
        if failed := job.report.get("failed"):
            st.warning(f"{failed:,} episodes of the set failed and are not in the export")
        st.json(job.report, expanded=False)
    elif job.state == "failed":
        navigation.show_error(AresError(job.reason, f"{job.name}: {job.detail}"))
    elif job.state == "stopped":
        st.info(f"Stopped: {dest} was not written", icon=":material/stop_circle:")
    else:
        st.warning(f"The process of the export to {dest} was killed; start it again", icon=":material/error:")
