"""Draws the jobs about a subject: progress, a button that stops, and how each ended."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app.dashboard.jobs.job import Job, Kind, list_jobs
from app.dashboard.jobs.launch import stop_job
from ares.store import Stores

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
