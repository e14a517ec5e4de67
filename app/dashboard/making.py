"""Making: freeze what a view shows as a set, from a form that says what it will hold."""

from __future__ import annotations

import shlex

import streamlit as st

from app.dashboard import handles, pages
from app.dashboard.results import RANKED
from app.dashboard.state import View, to_params, where_sql
from app.dashboard.words import plain
from ares.errors import AresError


def make_set(view: View, episodes: int) -> None:
    """Draw the button with its form; says what was made and leads to it."""
    with st.popover(f"Make a set from these {episodes:,}", icon=":material/inventory_2:", type="primary"):
        with st.form("making.form", border=False, enter_to_submit=True):
            name = st.text_input("Name of the set", key="making.name", placeholder="spoon-v1")
            made = st.form_submit_button("Make the set", type="primary")
        st.caption("A set is frozen: the same name with other episodes becomes its next version.")
        st.code(command(handles.workspace().path, name or "NAME", view), language="bash", wrap_lines=True)
    if made:
        _make(view, name.strip())
    _made(view)


def command(workspace: str, name: str, view: View) -> str:
    """The same on the command line."""
    where = where_sql(view, handles.columns())
    parts = ["ares", "set", "create", name]
    parts += ["--where", where] if where else []
    named = [("--search", view.text), ("--like", view.like), ("--image", view.image), ("--by", view.by)]
    parts += [part for option, text in named if text for part in (option, text)]
    parts += ["--limit", str(RANKED)] if view.ranked else []
    return shlex.join([*parts, "--workspace", workspace])


def _make(view: View, name: str) -> None:
    from ares.curate.choose import choose

    ws = handles.workspace()
    where = where_sql(view, handles.columns())
    try:
        asked = {"search": view.text, "like": view.like, "image": view.image, "by": view.by}
        chosen, recipe = choose(ws, where=where, **asked, limit=RANKED if view.ranked else None)
        made = ws.sets.create(name, chosen, recipe)
    except AresError as error:
        pages.say(error)
        return
    st.session_state["making.made"] = (to_params(view), made.label, made.episodes)


def _made(view: View) -> None:
    params, name, episodes = st.session_state.get("making.made") or (None, "", 0)
    if params != to_params(view):
        return
    st.success(f"Set **{plain(name)}** holds {episodes:,} episodes.", icon=":material/check_circle:")
    if st.button("Open it in Sets", key="making.open"):
        del st.session_state["making.made"]
        pages.go("sets", {"set": [name]})
