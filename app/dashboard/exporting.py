"""Exporting: an export that runs on while pages come and go."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from ares.curate.sets import CurationSet
from ares.episode import Json
from ares.errors import AresError
from ares.registry import exporters
from ares.workspace import Workspace

_jobs: dict[str, Export] = {}


@dataclass(slots=True, kw_only=True)
class Export:
    """One export, running or ended.

    Attributes:
        dest: Folder that is written.
        total: Episodes to write.
        done: Episodes written.
        report: What the exporter reported, once it is done.
        error: Why it failed, or None.
        shown: Whether the page has been drawn again since it ended.
    """

    dest: str
    total: int
    done: int = 0
    report: dict[str, Json] | None = None
    error: AresError | None = None
    shown: bool = False

    @property
    def ended(self) -> bool:
        """Whether it is over, well or not."""
        return self.report is not None or self.error is not None

    def advance(self, episodes: int = 1) -> None:
        """Count episodes that were written."""
        self.done += episodes


def running(label: str) -> Export | None:
    """The last export of a set in this process."""
    return _jobs.get(label)


def start(ws: Workspace, chosen: CurationSet, form: str, dest: str) -> Export:
    """Start an export in the background; asked again while it runs, it is the same one."""
    going = _jobs.get(chosen.label)
    if going and not going.ended:
        return going
    job = Export(dest=dest, total=chosen.episodes)
    _jobs[chosen.label] = job
    threading.Thread(
        target=_run, args=(job, ws, chosen, form), name=f"export-{chosen.label}", daemon=True
    ).start()
    return job


def _run(job: Export, ws: Workspace, chosen: CurationSet, form: str) -> None:
    try:
        job.report = exporters.get(form)(ws, chosen, Path(job.dest), job.advance).to_json()
    except AresError as error:
        job.error = error
    except BaseException as error:
        job.error = AresError("the export stopped on a bug", repr(error))
        raise
