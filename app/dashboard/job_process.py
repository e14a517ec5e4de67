"""The process of a job, whose command line is JOB_FILE LOCK; `app.server.jobs.start_job` starts it."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from app.server import Job, JobProgress, read_job, run_command_job, write_job
from app.stop_signals import SignalWatch
from ares.console import escape_logs
from ares.errors import AresError
from ares.jobs import watch_progress
from ares.settings import Settings

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
    from app.dashboard.job_panels import run_export_job, run_set_job
    from ares.workspace import open_workspace

    workspace = open_workspace(location, settings, create=False)
    if job.kind == "export":
        return run_export_job(workspace, job)
    return run_set_job(workspace.stores, job) if job.kind == "set" else run_retry(workspace, job)


if __name__ == "__main__":
    main()
