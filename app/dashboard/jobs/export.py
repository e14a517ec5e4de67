"""Exports of sets as jobs: started, run in their process, and drawn on the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from app.dashboard import pages
from app.dashboard.escape import escape_markdown
from app.dashboard.jobs.job import Job
from app.dashboard.jobs.job_view import draw_jobs
from app.dashboard.jobs.launch import start_job
from ares.curation import CurationSet
from ares.errors import AresError
from ares.export import TaskSource
from ares.store import Stores
from ares.workspace import Workspace


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
        stores, "export", subject=episode_set.label, name=str(dest), total=episode_set.episodes,
        arguments={"format": format, "task": task},
    )  # fmt: skip


def export_set(workspace: Workspace, job: Job, progress: Callable[[int], None]) -> dict[str, Any]:
    """Write the export of a job, in its process; returns the report."""
    from ares.export import load_exporter

    # Exporters of other packages may not know the option.
    task = job.arguments["task"]
    options: dict[str, Any] = {} if task == "instruction" else {"task": task}
    exporter, members = load_exporter(job.arguments["format"]), workspace.sets[job.subject]
    return exporter(workspace.stores, members, Path(job.name), progress, **options).to_json()


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
        pages.show_error(AresError(job.reason, f"{job.name}: {job.detail}"))
    elif job.state == "stopped":
        st.info(f"Stopped: {dest} was not written", icon=":material/stop_circle:")
    else:
        st.warning(f"The process of the export to {dest} was killed; start it again", icon=":material/error:")
