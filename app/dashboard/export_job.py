"""Exports in background threads, which go on when the user leaves the page."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.curation import CurationSet
from ares.episode import Json
from ares.errors import AresError
from ares.export import TaskSource, load_exporter
from ares.store import Stores

_jobs: dict[str, ExportJob] = {}


@dataclass(slots=True, kw_only=True)
class ExportJob:
    """One export, running or finished.

    Attributes:
        dest: Folder to write.
        total: Episodes to write.
        done: Episodes written.
        report: Report of the exporter, once it has finished.
        error: Why the export failed, or None.
        shown: Whether the page has been drawn again since the export ended.
    """

    dest: Path
    total: int
    done: int = 0
    report: dict[str, Json] | None = None
    error: AresError | None = None
    shown: bool = False

    @property
    def ended(self) -> bool:
        """Whether the export has finished or failed."""
        return self.report is not None or self.error is not None

    def advance(self, episodes: int = 1) -> None:
        """Add to the number of episodes written."""
        self.done += episodes


def current_job(label: str) -> ExportJob | None:
    """Return the last export of a set in this process, or None."""
    return _jobs.get(label)


def start_export(
    stores: Stores, episode_set: CurationSet, format: str, dest: Path, task: TaskSource
) -> ExportJob:
    """Start an export in the background, or return the one of this set that is still running."""
    running = _jobs.get(episode_set.label)
    if running and not running.ended:
        return running
    job = ExportJob(dest=dest, total=episode_set.episodes)
    _jobs[episode_set.label] = job
    thread_name = f"export-{episode_set.label}"
    arguments = (job, stores, episode_set, format, task)
    threading.Thread(target=_run, args=arguments, name=thread_name, daemon=True).start()
    return job


def _run(job: ExportJob, stores: Stores, episode_set: CurationSet, format: str, task: TaskSource) -> None:
    # Exporters of other packages may not know the option.
    options: dict[str, Any] = {} if task == "instruction" else {"task": task}
    try:
        report = load_exporter(format)(stores, episode_set, job.dest, job.advance, **options)
        job.report = report.to_json()
    except AresError as error:
        job.error = error
    except BaseException as error:
        job.error = AresError("the export failed because of a bug", repr(error))
        raise
