"""Page "Jobs": plan, start, watch, stop and resume what `ares ingest`, `annotate`, `check` and `review import` do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from datetime import datetime

import streamlit as st

from app.dashboard import cached_reads, navigation
from app.dashboard.column_words import document_words
from app.dashboard.components import draw_pairs, draw_table
from app.dashboard.job_panels import describe_time_left
from app.dashboard.navigation import entered_text, escape_markdown, read_parameter
from app.dashboard.selection_bar import read_person_name
from app.server import (
    PLAN,
    Job,
    describe_plan,
    keep_upload,
    last_lines_of,
    list_all_jobs,
    make_annotate_words,
    make_check_words,
    make_ingest_words,
    resume_job,
    start_command,
    stop_job,
)
from ares.errors import AresError
from ares.registry import annotators, ingesters

_REFRESH_SECONDS, _MOST_SHOWN = 1.0, 20
_KINDS = {
    "ingest": "Ingest a dataset",
    "annotate": "Annotate episodes",
    "check": "Check episodes",
    "review": "Import answers of people",
}
_READ_ONLY = "The workspace is read-only for the user of this server."
_ICONS = {
    "running": ":material/hourglass_top:",
    "finished": ":material/check_circle:",
    "failed": ":material/error:",
    "stopped": ":material/stop_circle:",
    "lost": ":material/error:",
}


def render() -> None:
    """Draw the form of a new job, and all jobs."""
    st.header("Jobs")
    _draw_form()
    st.subheader("All jobs")
    _draw_jobs()


def _draw_form() -> None:
    kinds = list(_KINDS)
    requested = read_parameter("job", kinds[0])
    navigation.show_value("jobs.kind", requested if requested in kinds else kinds[0])
    kind = st.radio(
        "New job", kinds, format_func=_KINDS.__getitem__, key="jobs.kind", horizontal=True,
        on_change=_put_kind_in_address,
    )  # fmt: skip
    fields: dict[str, Callable[[], list[str]]] = {
        "ingest": _draw_ingest,
        "annotate": _draw_annotate,
        "check": _draw_check,
        "review": _draw_review,
    }
    try:
        words = fields[str(kind)]()
    except AresError as error:
        navigation.show_error(error)
        return
    _draw_buttons(words)


def _put_kind_in_address() -> None:
    navigation.write_parameter("job", entered_text("jobs.kind", "ingest"))


def _draw_ingest() -> list[str]:
    folders = cached_reads.workspace().settings.source_dirs
    if not folders:
        st.info(
            "Pages may read no folder yet: start the server with `ARES_SOURCE_DIRS=/data`, or use "
            f"`ares ingest PATH --workspace {escape_markdown(cached_reads.workspace().path)}`.",
            icon=":material/folder_off:",
        )
        return []
    names = ", ".join(folders)
    typed = st.text_input("File or folder on the server", key="jobs.source", help=f"Below {names}").strip()
    name, format = st.columns(2)
    dataset = name.text_input("Name of the dataset", key="jobs.dataset", help="Empty: the name of its folder")
    formats = ["", *sorted(ingesters.names())]
    selected = format.selectbox(
        "Format", formats, format_func=lambda text: text or "as its files say", key="jobs.format"
    )
    if not typed:
        return []
    return make_ingest_words(cached_reads.workspace().settings, typed, dataset.strip(), selected)


def _draw_annotate() -> list[str]:
    known = sorted(annotators.names())
    requested = [name for name in read_parameter("names").split(",") if name in known]
    if requested and not st.session_state.get("jobs.names"):
        navigation.show_value("jobs.names", requested)
    names = st.multiselect("Annotators, in this order", known, key="jobs.names")
    where, limit = st.columns([3, 1])
    condition = where.text_input(
        "Only episodes of this filter", key="jobs.where", placeholder="num_steps > 50"
    )
    most = limit.number_input("At most so many episodes", value=None, min_value=1, step=1, key="jobs.limit")
    again = st.checkbox("Only what has failed before", key="jobs.again")
    if not names:
        return []
    cached_reads.count_episodes(condition.strip())  # raises for a filter that cannot be read
    return make_annotate_words(names, condition.strip(), most, again)


def _draw_check() -> list[str]:
    instructions = st.checkbox(
        "Compare instructions with frames", key="jobs.instructions", help="Needs `embed` and its model"
    )
    return make_check_words(instructions)


def _draw_review() -> list[str]:
    file = st.file_uploader(
        "File of answers, as `ares review export` writes it", ["csv", "jsonl"], key="jobs.answers"
    )
    if file is None:
        return []
    name = f"answers-{file.file_id}{'.jsonl' if file.name.endswith('.jsonl') else '.csv'}"
    path = keep_upload(cached_reads.workspace().stores, name, file.getvalue())
    return ["review", "import", str(path)]


def _draw_buttons(words: Sequence[str]) -> None:
    is_writable = cached_reads.workspace().stores.is_writable
    can_plan = words[:1] in (["ingest"], ["annotate"])
    start = navigation.guard_field("jobs.start", _start_job)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Plan", key="jobs.plan", icon=":material/calculate:", disabled=not (words and can_plan and is_writable),
            on_click=start, args=([*words, PLAN],), help="What would be done, and what it costs",
        )  # fmt: skip
        st.button(
            "Start", key="jobs.start", type="primary", icon=":material/play_arrow:",
            disabled=not (words and is_writable), on_click=start, args=(list(words),),
            help=None if is_writable else _READ_ONLY,
        )  # fmt: skip
    navigation.draw_refusal("jobs.start")
    if words:
        line = shlex.join(["ares", *words, "--workspace", cached_reads.workspace().path])
        st.caption("The same on the command line:")
        st.code(line, language=None, wrap_lines=True)


def _start_job(words: Sequence[str]) -> None:
    start_command(cached_reads.workspace().stores, words, read_person_name())


def _draw_jobs() -> None:
    stores = cached_reads.workspace().stores
    is_running = any(not job.ended for job in list_all_jobs(stores))

    @st.fragment(run_every=_REFRESH_SECONDS if is_running else None)
    def draw() -> None:
        navigation.accept_next_message()
        jobs = list_all_jobs(stores)
        if is_running != any(not job.ended for job in jobs):  # one has begun here, or the last one has ended
            cached_reads.clear_caches()
            st.rerun()
        if not jobs:
            st.caption("No job has been started from a page yet.")
        for job in jobs[:_MOST_SHOWN]:
            _draw_job(job)

    draw()


def _draw_job(job: Job) -> None:
    stores = cached_reads.workspace().stores
    with st.container(border=True, key=f"jobs.{job.started}.{job.kind}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"{_ICONS[job.state]} **{escape_markdown(_title_of(job))}**", width="content")
            st.caption(_describe_state(job), width="content")
            st.space("stretch")
            key = f"{job.kind}.{job.name}"
            if not job.ended:
                st.button(
                    "Stop",
                    key=f"jobs.stop.{key}",
                    icon=":material/stop:",
                    on_click=stop_job,
                    args=(stores, job, read_person_name()),
                )
            elif label := _again_label(job):
                st.button(
                    label,
                    key=f"jobs.again.{key}",
                    icon=":material/replay:",
                    on_click=navigation.guard_field(f"jobs.again.{key}", _resume_job),
                    args=(job,),
                )
        navigation.draw_refusal(f"jobs.again.{key}")
        if job.reason:
            navigation.show_error(AresError(job.reason, job.detail))
        _draw_outcome(job)


def _title_of(job: Job) -> str:
    if job.kind == "export":
        return f"export {job.subject} to {job.name}"
    if job.kind == "retry":
        return f"try {job.name} again"
    name = job.name.removesuffix(f" {PLAN}")
    return f"{'set ' * (job.kind == 'set')}{'plan of ' * (name != job.name)}{name}"


def _describe_state(job: Job) -> str:
    started = datetime.fromisoformat(job.started).strftime("%Y-%m-%d %H:%M UTC")
    states = {"lost": "its process was killed", "finished": "done"}
    state = states.get(job.state, job.state)
    if job.state == "finished" and (job.report or {}).get("status"):
        state = "done, with losses"
    state += f" by {escape_markdown(job.stopped_by)}" if job.stopped_by else ""
    by = f" by {escape_markdown(job.person)}" if job.person else ""
    return f"{state}, started {started}{by}"


def _again_label(job: Job) -> str:
    """What starts an ended job once more, or "": what is whole is never done twice."""
    if job.state in ("stopped", "lost", "failed"):
        return "Resume"
    return "Start it" if PLAN in job.arguments.get("words", ()) else ""


def _resume_job(job: Job) -> None:
    """Start a job again: it goes on with what is open. Of a plan, start what was planned."""
    resume_job(cached_reads.workspace().stores, job, read_person_name())


def _draw_outcome(job: Job) -> None:
    """Draw the plan, the report, or the lines that the command has printed last."""
    stores = cached_reads.workspace().stores
    if not job.ended and job.step:
        text = f"{job.step}: {job.done:,} of {job.total:,}, {describe_time_left(job)}"
        st.progress(min(1.0, job.done / max(1, job.total)), text=escape_markdown(text))
    if job.kind != "command":
        if job.report is not None:
            with st.expander("Report"):
                draw_pairs(document_words(job.report, {}), f"jobs.report.{job.kind}.{job.name}")
        return
    document = (job.report or {}).get("document")
    if PLAN in job.arguments["words"] and document:
        draw_table(describe_plan(document), f"jobs.table.{job.name}")
    elif document:
        with st.expander("Report"):
            draw_pairs(document_words(document, {}), f"jobs.report.{job.name}")
    if lines := last_lines_of(stores, job):
        with st.expander("What it printed", expanded=not job.ended):
            st.code("\n".join(lines), language=None, wrap_lines=True)
