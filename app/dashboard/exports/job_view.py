"""Draws the exports of a set: progress, a button that stops, and how each ended."""

from __future__ import annotations

import streamlit as st

from app.dashboard import pages
from app.dashboard.escape import escape_markdown
from app.dashboard.exports.job import ExportJob, list_jobs
from app.dashboard.exports.launch import stop_export
from ares.errors import AresError
from ares.store import Stores

# Exports of a set that are shown, and how often their progress is read.
_MAX_JOBS, _REFRESH_SECONDS = 5, 0.5


def draw_jobs(stores: Stores, label: str) -> None:
    """Draw the exports of a set, the newest first, also those that an earlier server started."""
    is_running = any(not job.ended for job in list_jobs(stores, label))

    @st.fragment(run_every=_REFRESH_SECONDS if is_running else None)
    def draw() -> None:
        jobs = list_jobs(stores, label)
        if is_running and all(job.ended for job in jobs):
            st.rerun()
        for job in jobs[:_MAX_JOBS]:
            _draw_job(stores, job)

    draw()


def _draw_job(stores: Stores, job: ExportJob) -> None:
    dest = escape_markdown(job.dest)
    if job.state == "running":
        _draw_running(stores, job)
    elif job.report is not None:
        st.success(f"Exported to {dest}", icon=":material/check_circle:")
        if failed := job.report.get("failed"):
            st.warning(f"{failed:,} episodes of the set failed and are not in the export")
        st.json(job.report, expanded=False)
    elif job.state == "failed":
        pages.show_error(AresError(job.reason, f"{job.dest}: {job.detail}"))
    elif job.state == "stopped":
        st.info(f"Stopped: {dest} was not written", icon=":material/stop_circle:")
    else:
        st.warning(f"The process of the export to {dest} was killed; start it again", icon=":material/error:")


def _draw_running(stores: Stores, job: ExportJob) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        share = min(1.0, job.done / max(1, job.total))
        st.progress(share, text=f"{job.done:,} of {job.total:,} episodes to {escape_markdown(job.dest)}")
        st.button(
            "Stop", key=f"sets.stop.{job.dest}", icon=":material/stop:",
            on_click=stop_export, args=(stores, job),
        )  # fmt: skip
