"""Jobs on the pages: how exports and actions of sets start, and how running and ended ones are drawn."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from app.dashboard import navigation
from app.dashboard.column_words import document_words
from app.dashboard.components import draw_pairs
from app.dashboard.navigation import escape_markdown
from app.dashboard.selection_bar import read_person_name
from app.server import Job, JobKind, find_job_path, list_jobs, start_job, stop_job
from ares.console import count_of
from ares.curation import CurationSet
from ares.episode import describe_seconds
from ares.errors import AresError
from ares.export import TaskSource
from ares.store import Stores

# Jobs of a subject that are shown, and how often their progress is read.
_MAX_JOBS, _REFRESH_SECONDS = 5, 0.5


def draw_jobs(
    stores: Stores,
    kind: JobKind,
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
            on_click=stop_job, args=(stores, job, read_person_name()),
        )  # fmt: skip


def describe_time_left(job: Job) -> str:
    """How long a job still takes, as far as its first items say it."""
    if job.left_seconds is None:
        return "time left not known yet"
    return f"{describe_seconds(job.left_seconds)} left"


def start_export(
    stores: Stores, episode_set: CurationSet, format: str, dest: Path, task: TaskSource, person: str
) -> Job:
    """Start an export.

    Args:
        stores: Stores of the workspace.
        episode_set: The set.
        format: Name of the exporter.
        dest: Folder to write.
        task: What the task of every episode is.
        person: Who starts it.

    Raises:
        RequestError: An export into the same folder runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_job(
        stores, "export", subject=episode_set.label, name=str(dest), total=episode_set.num_members,
        arguments={"format": format, "task": task}, person=person,
    )  # fmt: skip


def start_set_command(stores: Stores, label: str, words: Sequence[str], person: str) -> Job:
    """Start what `ares set WORDS` does.

    Args:
        stores: Stores of the workspace.
        label: The set that it is about.
        words: The words behind `ares set`.
        person: Who starts it.

    Raises:
        RequestError: The same command runs already.
        ReadOnlyWorkspace: The workspace cannot be written.
    """
    return start_job(
        stores, "set", subject=label, name=shlex.join(words), total=1, arguments={"words": list(words)},
        person=person,
    )  # fmt: skip


def find_reasons_path(stores: Stores, job: Job) -> Path:
    """The file in which a composition says why each episode is kept or left out."""
    return find_job_path(stores, job.kind, job.name).with_suffix(".csv")


def draw_exports(stores: Stores, label: str) -> None:
    """Draw the exports of a set, the newest first, also those that an earlier server started."""
    draw_jobs(stores, "export", label, _progress_text, _draw_end)


def _progress_text(job: Job) -> str:
    of = count_of(job.total, "episode", comma=True)
    return f"{job.done:,} of {of} to {escape_markdown(job.name)}, {describe_time_left(job)}"


def _draw_end(job: Job) -> None:
    dest = escape_markdown(job.name)
    if job.report is not None:
        st.success(f"Exported to {dest}", icon=":material/check_circle:")
        if failed := job.report.get("failed"):
            st.warning(f"{count_of(failed, 'episode', comma=True)} of the set failed: not in the export")
        with st.expander("Report"):
            draw_pairs(document_words(job.report, {}), f"export.report.{job.name}")
    elif job.state == "failed":
        navigation.show_error(AresError(job.reason, f"{job.name}: {job.detail}"))
    elif job.state == "stopped":
        st.info(f"Stopped: {dest} was not written", icon=":material/stop_circle:")
    else:
        st.warning(f"The process of the export to {dest} was killed; start it again", icon=":material/error:")
