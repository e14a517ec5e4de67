"""Sets: the frozen selections, what is in them, and their export."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import streamlit as st

from app.dashboard import handles, pages
from app.dashboard.cards import cards, episode_params
from app.dashboard.components.grid import grid
from app.dashboard.exporting import Export, running, start
from app.dashboard.words import plain
from ares.curate.sets import CurationSet
from ares.errors import AresError
from ares.registry import exporters

_SHOWN = 24


def render() -> None:
    """Draw the list and the set of the URL."""
    kept = handles.sets()
    if not kept:
        st.header("No sets yet")
        st.write("Filter or search in Browse, then choose “Make a set from these”.")
        return
    chosen = _list(kept)
    st.divider()
    _one(chosen)


def _list(kept: list[CurationSet]) -> CurationSet:
    st.header("Sets")
    rows = [
        {
            "set": one.name,
            "version": one.version,
            "episodes": one.episodes,
            "created": one.created,
            "recipe": _recipe(one),
        }
        for one in kept
    ]
    st.dataframe(rows, hide_index=True, key="sets.list")
    labels = [one.label for one in kept]
    asked = st.query_params.get("set", "")
    st.session_state["sets.chosen"] = asked if asked in labels else labels[0]
    label = st.selectbox("Show", labels, key="sets.chosen", width=420, on_change=_choose)
    return kept[labels.index(label)]


def _choose() -> None:
    st.query_params["set"] = str(st.session_state["sets.chosen"])


def _recipe(one: CurationSet) -> str:
    return ", ".join(f"{name}: {value}" for name, value in one.recipe.items() if value)


def _one(chosen: CurationSet) -> None:
    st.subheader(plain(chosen.label))
    recipe = _recipe(chosen) or "every episode"
    facts = f"{chosen.episodes:,} episodes, frozen {chosen.created}, hash {chosen.ids_hash}; {recipe}"
    st.caption(plain(facts))
    left, right = st.columns([1, 1], gap="large")
    with left:
        _export(chosen)
    with right, st.expander("Recipe"):
        st.code(json.dumps(chosen.to_json(), indent=1, ensure_ascii=False), language="json", wrap_lines=True)
    _members(chosen)


def _export(chosen: CurationSet) -> None:
    st.markdown("**Export**")
    form = st.selectbox("Format", exporters.names(), key="sets.format")
    ws = handles.workspace()
    folder = (Path.cwd() if ws.remote else ws.folder.parent) / f"{chosen.name}-v{chosen.version}-{form}"
    dest = st.text_input(
        "Destination folder on this server", value=str(folder), key=f"sets.dest.{chosen.label}.{form}"
    )
    workspace = handles.workspace().path
    line = shlex.join(
        ["ares", "export", chosen.label, dest or "DEST", "--format", str(form), "--workspace", workspace]
    )
    job = running(chosen.label)
    if st.button(
        "Export", type="primary", key="sets.export", disabled=not dest or bool(job and not job.ended)
    ):
        job = start(handles.workspace(), chosen, str(form), dest)
    st.caption("The same on the command line:")
    st.code(line, language="bash", wrap_lines=True)
    if job:
        _progress(job)


def _progress(job: Export) -> None:
    @st.fragment(run_every=None if job.ended else 0.5)
    def draw() -> None:
        if job.ended and not job.shown:
            job.shown = True
            st.rerun()
        if job.error:
            pages.say(job.error)
        elif job.report is not None:
            st.success(f"Exported to {plain(job.dest)}", icon=":material/check_circle:")
            if failed := job.report.get("failed"):
                st.warning(f"{failed:,} episodes of the set failed and are not in the export")
            st.json(job.report)
        else:
            st.progress(
                min(1.0, job.done / max(1, job.total)), text=f"{job.done:,} of {job.total:,} episodes"
            )

    draw()


def _members(chosen: CurationSet) -> None:
    ws = handles.workspace()
    ids = [one for _, one in zip(range(_SHOWN), ws.sets.ids(chosen), strict=False)]
    found = ws.tables.episodes.get(ids)
    more = f", the first {len(ids)} of {chosen.episodes:,}" if chosen.episodes > len(ids) else ""
    st.markdown(f"**Episodes**{more}")
    if len(found) < len(ids):
        pages.say(
            AresError(
                "episodes of this set are not in the workspace", f"{len(ids) - len(found)} of {len(ids)}"
            )
        )
    opened = grid(cards(found, handles.rows(ids), {}, {}), key="sets.grid", compact=True)
    if opened:
        pages.go("episode", episode_params({}, opened[0], None, 0.0))
