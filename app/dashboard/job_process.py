"""The process of a job, whose command line is JOB_FILE LOCK; `app.server.jobs.start_job` starts it."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.server import Job, JobProgress, read_job, run_command_job, write_job
from app.stop_signals import SignalWatch
from ares.console import escape_logs
from ares.errors import AresError, RequestError
from ares.jobs import watch_progress
from ares.settings import Settings

if TYPE_CHECKING:
    from ares.store import Stores
    from ares.workspace import Workspace

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Do what the job file says, and write into it how far the job is and how it ends."""
    escape_logs()
    path, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # only this process holds it
    location, settings = pickle.load(sys.stdin.buffer)
    job = read_job(path)
    assert job
    if job.kind == "command":  # it answers signals itself
        run_command_job(path, write_job(path, job, pid=os.getpid()), location)
        return
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    # Who reads the number of this process may stop it at once: that waits until the end is written down.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    watch = SignalWatch("ares.dashboard job", "the page of the job says how far it came")
    watch.before_end = lambda: write_job(path, read_job(path) or job, state="stopped")
    with watch.watching(_STOP_SIGNALS):
        _run_recorded_job(path, write_job(path, job, pid=os.getpid()), location, settings)


def _run_recorded_job(path: Path, job: Job, location: str, settings: Settings) -> None:
    progress = JobProgress(path, job)
    watch_progress(progress.tell)
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        report = _do_job(job, location, settings)
    except AresError as error:
        write_job(path, progress.job, state="failed", reason=error.reason, detail=error.detail)
    except KeyboardInterrupt:
        write_job(path, progress.job, state="stopped")
    except BaseException as error:
        reason = "the job failed because of a bug"
        write_job(path, progress.job, state="failed", reason=reason, detail=repr(error))
        logging.getLogger("ares.dashboard").exception(reason)
    else:
        write_job(path, progress.job, state="finished", report=report)


def _do_job(job: Job, location: str, settings: Settings) -> dict[str, Any]:
    from app.dashboard.failed_work import run_retry
    from ares.workspace import open_workspace

    workspace = open_workspace(location, settings, create=False)
    if job.kind == "export":
        return _run_export_job(workspace, job)
    return _run_set_job(workspace.stores, job) if job.kind == "set" else run_retry(workspace, job)


def _run_export_job(workspace: Workspace, job: Job) -> dict[str, Any]:
    """Write the export of a job, in its process; returns the report."""
    from ares.export import ExportRequest, export_set
    from ares.jobs import Progress

    request = ExportRequest(set=workspace.sets[job.subject], destination=Path(job.name), **job.arguments)
    with closing(Progress(f"export {job.subject}", job.total, None)) as progress:
        return export_set(request, workspace.stores, progress.advance).to_json()


def _run_set_job(stores: Stores, job: Job) -> dict[str, Any]:
    """Run the command of a job, and return what `--json` prints. The reasons of a composition wait beside the job.

    Raises:
        RequestError: The command refuses, with its reason.
    """
    from app.dashboard.job_panels import find_reasons_path

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


if __name__ == "__main__":
    main()
