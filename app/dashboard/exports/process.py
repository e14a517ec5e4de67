"""The process of an export: `python -m app.dashboard.exports.process JOB_FILE LOCK`, started by the dashboard."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any

from app.dashboard.exports.job import ExportJob, read_job, write_job
from ares.errors import AresError
from ares.settings import Settings

_WRITE_SECONDS = 0.5


def main() -> None:
    """Export what the job file says, and write into it how far the export is and how it ends."""
    path, lock = Path(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # only this process holds it
    location, settings = pickle.load(sys.stdin.buffer)
    job = read_job(path)
    assert job
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    _run(path, write_job(path, job, pid=os.getpid()), location, settings)


def _run(path: Path, job: ExportJob, location: str, settings: Settings) -> None:
    progress = _Progress(path, job)
    try:
        report = _export(job, location, settings, progress)
    except AresError as error:
        write_job(path, progress.job, state="failed", reason=error.reason, detail=error.detail)
    except KeyboardInterrupt:
        write_job(path, progress.job, state="stopped")
    except BaseException as error:
        write_job(
            path,
            progress.job,
            state="failed",
            reason="the export failed because of a bug",
            detail=repr(error),
        )
        logging.getLogger("ares.dashboard").exception("an export failed because of a bug")
    else:
        write_job(path, progress.job, state="finished", report=report)


def _export(job: ExportJob, location: str, settings: Settings, progress: _Progress) -> dict[str, Any]:
    from ares.export import load_exporter
    from ares.workspace import open_workspace

    workspace = open_workspace(location, settings, create=False)
    # Exporters of other packages may not know the option.
    options: dict[str, Any] = {} if job.task == "instruction" else {"task": job.task}
    exporter, members = load_exporter(job.format), workspace.sets[job.set]
    return exporter(workspace.stores, members, Path(job.dest), progress.advance, **options).to_json()


class _Progress:
    """Counts episodes, and writes the count into the file of the job twice a second at most."""

    def __init__(self, path: Path, job: ExportJob) -> None:
        self._path, self.job, self._done = path, job, 0
        self._written_at = time.monotonic()

    def advance(self, episodes: int = 1) -> None:
        """Add to the number of episodes written."""
        self._done += episodes
        if time.monotonic() - self._written_at >= _WRITE_SECONDS:
            self.job = write_job(self._path, self.job, done=self._done)
            self._written_at = time.monotonic()


if __name__ == "__main__":
    main()
