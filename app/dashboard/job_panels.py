"""Jobs on the pages: how those that run and those that have ended are drawn."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

import streamlit as st

from ares.episode import describe_seconds
from ares.errors import AresError
from ares_app.dashboard import cached_reads, navigation
from ares_app.dashboard.column_words import document_words
from ares_app.dashboard.components import draw_table
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.fields import draw_refusal, guard_field
from ares_app.dashboard.markdown_text import escape_markdown
from ares_app.dashboard.selection_bar import read_person_name
from ares_app.server import (
    PLAN,
    Job,
    describe_plan,
    last_lines_of,
    resume_job,
    stop_job,
)

READ_ONLY = "The workspace is read-only for the user of this server."
# Jobs that are shown of one subject, and how often their progress is read.
_MOST_JOBS, _REFRESH_SECONDS = 5, 0.5
_ICONS = {
    "running": ":material/hourglass_top:",
    "finished": ":material/check_circle:",
    "failed": ":material/error:",
    "stopped": ":material/stop_circle:",
    "lost": ":material/error:",
}


def draw_command_line(words: Sequence[str]) -> None:
    """Draw what a person types in a terminal for what a button of the page starts."""
    st.caption("The same on the command line:")
    draw_command(words)


def draw_command(words: Sequence[str]) -> None:
    """Draw a command for the workspace of the page, as it is typed."""
    line = shlex.join(["ares", *words, "--workspace", cached_reads.workspace().path])
    # Not by `st.code`, for which the browser loads 1.5 MB and is busy for a third of a second.
    st.html(f"<code>{escape(line)}</code>")


def draw_jobs(
    read: Callable[[], list[Job]],
    *,
    summarise: Callable[[Job], str] = lambda job: "",
    draw_more: Callable[[Job], None] = lambda job: None,
    nothing: str = "",
    most: int = _MOST_JOBS,
) -> None:
    """Draw jobs, also those that an earlier server started. The page is drawn again when one begins or the last ends.

    Args:
        read: Reads the jobs, the newest first.
        summarise: One sentence on one that has finished; called where it printed a document.
        draw_more: Draws more of one that has finished.
        nothing: What is said where there are none.
        most: Number of jobs to draw.
    """
    is_running = any(not job.ended for job in read())

    @st.fragment(run_every=_REFRESH_SECONDS if is_running else None)
    def draw() -> None:
        navigation.accept_next_message()
        jobs = read()
        if is_running != any(not job.ended for job in jobs):
            cached_reads.clear_caches()
            st.rerun()
        if not jobs and nothing:
            st.caption(nothing)
        for job in jobs[:most]:
            _draw_job(job, summarise)
            if job.report is not None:
                draw_more(job)

    draw()


def _draw_job(job: Job, summarise: Callable[[Job], str]) -> None:
    """Draw the state of a job, what it found, and what stops it or starts it again."""
    with st.container(border=True, key=f"jobs.{job.started}.{job.name}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            name = job.name.removesuffix(f" {PLAN}")
            title = f"{'plan of ' if name != job.name else ''}{name}"
            st.markdown(f"{_ICONS[job.state]} **{escape_markdown(title)}**", width="content")
            st.caption(_describe_state(job), width="content")
            st.space("stretch")
            _draw_button(job)
        draw_refusal(f"jobs.again.{job.name}")
        if job.reason:
            show_error(AresError(job.reason, job.detail))
        summary = summarise(job) if job.document else ""
        if job.report and summary:
            (st.warning if job.report["status"] else st.success)(escape_markdown(summary))
        _draw_outcome(job)


def _draw_button(job: Job) -> None:
    """What stops a job that runs, or starts an ended one once more: what is whole is never done twice."""
    if not job.ended:
        arguments = (cached_reads.workspace().stores, job, read_person_name())
        st.button(
            "Stop", key=f"jobs.stop.{job.name}", icon=":material/stop:", on_click=stop_job, args=arguments
        )
        return
    label = "Start it" if PLAN in job.words else ""
    label = "Resume" if job.state in ("stopped", "lost", "failed") else label
    if label:
        key = f"jobs.again.{job.name}"
        resume = guard_field(key, _resume_job)
        st.button(label, key=key, icon=":material/replay:", on_click=resume, args=(job,))


def _resume_job(job: Job) -> None:
    resume_job(cached_reads.workspace().stores, job, read_person_name())


def _describe_state(job: Job) -> str:
    started = datetime.fromisoformat(job.started).strftime("%Y-%m-%d %H:%M UTC")
    states = {"lost": "its process was killed", "finished": "done"}
    state = states.get(job.state, job.state)
    if job.state == "finished" and (job.report or {}).get("status"):
        state = "done, with losses"
    state += f" by {escape_markdown(job.stopped_by)}" if job.stopped_by else ""
    by = f" by {escape_markdown(job.person)}" if job.person else ""
    return f"{state}, started {started}{by}"


def _draw_outcome(job: Job) -> None:
    """Draw how far a job is, the plan or the report, and the lines that the command has printed last."""
    if not job.ended:
        left = "time left not known yet"
        if job.left_seconds:
            rate = (job.total - job.done) / job.left_seconds
            left = f"{rate:.2g} a second, {describe_seconds(job.left_seconds)} left"
        text = f"{job.step}: {job.done:,} of {job.total:,}, {left}" if job.step else "nothing is counted yet"
        st.progress(min(1.0, job.done / max(1, job.total)), text=escape_markdown(text))
    if PLAN in job.words and job.document:
        draw_table(describe_plan(job.document), f"jobs.table.{job.name}")
    elif job.document:
        with st.expander("Report"):
            pairs = document_words(job.document, {}).items()
            draw_table([{"what": label, "value": text} for label, text in pairs], f"jobs.report.{job.name}")
    if lines := last_lines_of(cached_reads.workspace().stores, job):
        with st.expander("What it printed", expanded=not job.ended):
            st.text("\n".join(lines))
