"""Page "Jobs": plan, start, watch, stop and resume what `ares ingest`, `annotate` and `check` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from ares.errors import AresError
from ares.registry import annotators, ingesters
from ares.store import ids_filter
from ares_app.dashboard import cached_reads
from ares_app.dashboard.address import drop_parameter, read_parameter, write_parameter
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.fields import draw_refusal, entered_text, guard_field, show_value
from ares_app.dashboard.job_panels import READ_ONLY, draw_command, draw_command_line, draw_jobs
from ares_app.dashboard.selection_bar import read_person_name
from ares_app.server import (
    PLAN,
    list_all_jobs,
    make_annotate_words,
    make_check_words,
    make_ingest_words,
    start_command,
)

_MOST_SHOWN = 20
_KINDS = {
    "ingest": "Ingest a dataset",
    "annotate": "Annotate episodes",
    "check": "Check episodes",
}


def render() -> None:
    """Draw the form of a new job, and all jobs."""
    st.header("Jobs")
    _draw_form()
    st.subheader("All jobs")
    stores = cached_reads.workspace().stores
    draw_jobs(
        lambda: list_all_jobs(stores), nothing="No job has been started from a page yet.", most=_MOST_SHOWN
    )


def _draw_form() -> None:
    kinds = list(_KINDS)
    requested = read_parameter("job", kinds[0])
    show_value("jobs.kind", requested if requested in kinds else kinds[0])
    kind = st.radio(
        "New job", kinds, format_func=_KINDS.__getitem__, key="jobs.kind", horizontal=True,
        on_change=_put_kind_in_address,
    )  # fmt: skip
    fields: dict[str, Callable[[], list[str]]] = {
        "ingest": _draw_ingest,
        "annotate": _draw_annotate,
        "check": _draw_check,
    }
    try:
        words = fields[str(kind)]()
    except AresError as error:
        show_error(error)
        return
    _draw_buttons(words)


def _put_kind_in_address() -> None:
    write_parameter("job", entered_text("jobs.kind", "ingest"))


def _draw_ingest() -> list[str]:
    folders = cached_reads.workspace().settings.source_dirs
    if not folders:
        st.info(
            "Pages may read no folder yet: start the server with `ARES_SOURCE_DIRS=/data`, or type:",
            icon=":material/folder_off:",
        )
        draw_command(["ingest", "PATH"])
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
    known, failed = sorted(annotators.names()), read_parameter("failed")
    if "jobs.names" not in st.session_state:  # the page has just been opened: the address fills the form
        show_value("jobs.names", [name for name in read_parameter("names").split(",") if name in known])
        show_value("jobs.where", ids_filter([failed]) if failed not in ("", "all") else "")
        show_value("jobs.again", bool(failed))
        for name in ("names", "failed"):  # once: what is edited is not filled in again
            drop_parameter(name)
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


def _draw_buttons(words: Sequence[str]) -> None:
    is_writable = cached_reads.workspace().stores.is_writable
    can_plan = words[:1] in (["ingest"], ["annotate"])
    start = guard_field("jobs.start", _start_job)
    with st.container(horizontal=True, vertical_alignment="center"):
        is_planned = st.button(
            "Plan", key="jobs.plan", icon=":material/calculate:", disabled=not (words and can_plan and is_writable),
            help="What would be done, and what it costs",
        )  # fmt: skip
        is_started = st.button(
            "Start", key="jobs.start", type="primary", icon=":material/play_arrow:",
            disabled=not (words and is_writable), help=None if is_writable else READ_ONLY,
        )  # fmt: skip
    # Not by `on_click`, whose arguments are of the last drawing: what is typed right before a click counts.
    if words and (is_planned or is_started):
        start([*words, PLAN] if is_planned else list(words))
    draw_refusal("jobs.start")
    if words:
        draw_command_line(words)


def _start_job(words: Sequence[str]) -> None:
    start_command(cached_reads.workspace().stores, words, read_person_name())
