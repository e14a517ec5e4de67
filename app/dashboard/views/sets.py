"""Page "Sets": the frozen selections, their episodes, and their export."""

from __future__ import annotations

import json
import shlex
from itertools import islice
from pathlib import Path

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.cards import build_cards, episode_params
from app.dashboard.components.grid import draw_grid
from app.dashboard.escape import escape_markdown
from app.dashboard.export_job import ExportJob, current_job, start_export
from app.dashboard.limits import default_export_folder, export_destination
from app.dashboard.url_params import read_parameter, write_parameter
from ares.curation import CurationSet
from ares.errors import AresError
from ares.export import TASK_SOURCES, TaskSource
from ares.registry import exporters

_MAX_CARDS = 24
_TASK_HELP = "The instruction; or the caption where it is acceptable, and the instruction elsewhere."


def render() -> None:
    """Draw the list of sets, and the set that the URL names."""
    sets = cached_reads.list_sets()
    if not sets:
        st.header("No sets yet")
        st.write("Filter or search in Browse, then choose “Make a set from these”.")
        return
    selected = _draw_list(sets)
    st.divider()
    _draw_set(selected)


def _draw_list(sets: list[CurationSet]) -> CurationSet:
    """Draw a table of all sets and a list to select from; returns the selected set."""
    st.header("Sets")
    rows = [
        {
            "set": episode_set.name,
            "version": episode_set.version,
            "episodes": episode_set.episodes,
            "created": episode_set.created,
            "recipe": _recipe_text(episode_set),
        }
        for episode_set in sets
    ]
    st.dataframe(rows, hide_index=True, key="sets.list")
    labels = [episode_set.label for episode_set in sets]
    requested = read_parameter("set")
    st.session_state["sets.selected"] = requested if requested in labels else labels[0]
    label = st.selectbox("Show", labels, key="sets.selected", width=420, on_change=_put_selection_in_url)
    return sets[labels.index(label)]


def _put_selection_in_url() -> None:
    write_parameter("set", str(st.session_state["sets.selected"]))


def _recipe_text(episode_set: CurationSet) -> str:
    return ", ".join(f"{name}: {value}" for name, value in episode_set.recipe.items() if value)


def _draw_set(episode_set: CurationSet) -> None:
    st.subheader(escape_markdown(episode_set.label))
    recipe = _recipe_text(episode_set) or "every episode"
    counts = f"{episode_set.episodes:,} episodes, frozen {episode_set.created}"
    st.caption(escape_markdown(f"{counts}, hash {episode_set.ids_hash}; {recipe}"))
    left_column, right_column = st.columns([1, 1], gap="large")
    with left_column:
        _draw_export(episode_set)
    with right_column, st.expander("Recipe"):
        document = json.dumps(episode_set.to_json(), indent=1, ensure_ascii=False)
        st.code(document, language="json", wrap_lines=True)
    _draw_members(episode_set)


def _draw_export(episode_set: CurationSet) -> None:
    st.markdown("**Export**")
    format = str(st.selectbox("Format", exporters.names(), key="sets.format"))
    task: TaskSource = st.selectbox("Task of every episode", TASK_SOURCES, key="sets.task", help=_TASK_HELP)
    workspace = cached_reads.workspace()
    folder = _select_export_folder()
    name = st.text_input(
        "Name of the new folder",
        value=f"{episode_set.name}-v{episode_set.version}-{format}",
        key=f"sets.dest.{episode_set.label}.{format}",
        help=f"Below {escape_markdown(folder)} on the server; `ares app --export-dir` allows other folders.",
    ).strip()
    job = current_job(episode_set.label)
    disabled = not name or bool(job and not job.ended)
    if st.button("Export", type="primary", key="sets.export", disabled=disabled):
        job = start_export(workspace.stores, episode_set, format, export_destination(folder, name), task)
    st.caption("The same on the command line:")
    command = ["ares", "export", episode_set.label, str(folder / (name or "NAME")), "--format", format]
    command += [] if task == "instruction" else ["--task", task]
    line = shlex.join([*command, "--workspace", workspace.path])
    st.code(line, language="bash", wrap_lines=True)
    if job:
        _draw_progress(job)


def _select_export_folder() -> Path:
    """Draw a list of the folders that the owner of the server allows, if there are several; returns one of them."""
    folders = cached_reads.page_limits().export_folders
    folders = folders or (default_export_folder(cached_reads.workspace().stores),)
    if len(folders) == 1:
        return folders[0]
    labels = [str(folder) for folder in folders]
    return folders[labels.index(str(st.selectbox("Folder on the server", labels, key="sets.folder")))]


def _draw_progress(job: ExportJob) -> None:
    @st.fragment(run_every=None if job.ended else 0.5)
    def draw() -> None:
        if job.ended and not job.shown:
            job.shown = True
            st.rerun()
        if job.error:
            pages.show_error(job.error)
        elif job.report is not None:
            st.success(f"Exported to {escape_markdown(job.dest)}", icon=":material/check_circle:")
            if failed := job.report.get("failed"):
                st.warning(f"{failed:,} episodes of the set failed and are not in the export")
            st.json(job.report)
        else:
            st.progress(
                min(1.0, job.done / max(1, job.total)), text=f"{job.done:,} of {job.total:,} episodes"
            )

    draw()


def _draw_members(episode_set: CurationSet) -> None:
    workspace = cached_reads.workspace()
    ids = cached_reads.limited(lambda: list(islice(workspace.sets.ids(episode_set), _MAX_CARDS)))
    episodes = cached_reads.read_episodes(ids)
    total = episode_set.episodes
    more = f", the first {len(ids)} of {total:,}" if total > len(ids) else ""
    st.markdown(f"**Episodes**{more}")
    if len(episodes) < len(ids):
        missing = f"{len(ids) - len(episodes)} of {len(ids)}"
        pages.show_error(AresError("episodes of this set are not in the workspace", missing))
    cards = build_cards(episodes, cached_reads.read_captions(ids), {}, {})
    draw_grid(cards, "sets.grid", _open_member, compact=True)


def _open_member(episode_id: str, position: int, second: float) -> None:
    pages.open_page("episode", episode_params({}, episode_id, None, 0.0))
