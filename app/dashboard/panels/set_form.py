"""Form that freezes the episodes of a view as a set, and shows the same command for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.escape import escape_markdown
from app.dashboard.limits import search_image
from app.dashboard.results import search_cut
from app.dashboard.view_state import ViewState, view_to_params, where_sql
from ares.episode import Json
from ares.errors import AresError

_CREATED = "set_form.created"


def draw_set_form(view: ViewState, episodes: int) -> None:
    """Draw the button with its form; after a submit, draw the new set with a link to it."""
    with st.popover(f"Make a set from these {episodes:,}", icon=":material/inventory_2:", type="primary"):
        with st.form("set_form", border=False, enter_to_submit=True):
            name = st.text_input("Name of the set", key="set_form.name", placeholder="spoon-v1")
            submitted = st.form_submit_button("Make the set", type="primary")
        st.caption("A set is frozen: the same name with other episodes becomes its next version.")
        line = create_command(cached_reads.workspace().path, name or "NAME", view)
        st.code(line, language=None, wrap_lines=True)
        # Inside the popover, which stays open and would cover an answer below it.
        if submitted:
            _create_set(view, name.strip())
        _draw_created(view)


def create_command(workspace: str, name: str, view: ViewState) -> str:
    """Return the command line that creates the same set."""
    where = where_sql(view, cached_reads.filter_columns())
    options = [
        ("--where", where),
        ("--search", view.text),
        ("--like", view.like),
        ("--image", _image_option(view)),
        ("--by", view.by),
        ("--min-score", f"{search_cut(view):.4g}" if view.is_search else ""),
        ("--workspace", workspace),
    ]
    parts = [part for option, value in options if value for part in (option, value)]
    return shlex.join(["ares", "set", "create", name, *parts])


def _image_option(view: ViewState) -> str:
    return search_image(cached_reads.workspace().stores, view.image)


def select_view(view: ViewState) -> tuple[Iterator[str], dict[str, Json]]:
    """Select all episodes of a view, of a search those above its cut; returns their ids and the recipe.

    Raises:
        RequestError: A filter cannot be read.
        QueryTimeout: The search took longer than the limit.
    """
    from ares.curation import select_episodes

    stores = cached_reads.workspace().stores
    where = where_sql(view, cached_reads.filter_columns())
    min_score = search_cut(view) if view.is_search else None
    image = search_image(stores, view.image)
    return select_episodes(
        stores, where=where, search=view.text, like=view.like, image=image, by=view.by, min_score=min_score
    )


def _create_set(view: ViewState, name: str) -> None:
    try:
        ids, recipe = select_view(view)
        episode_set = cached_reads.workspace().sets.create(name, ids, recipe)
    except AresError as error:
        pages.show_error(error)
        return
    st.session_state[_CREATED] = (view_to_params(view), episode_set.label, episode_set.episodes)


def _draw_created(view: ViewState) -> None:
    params, name, episodes = st.session_state.get(_CREATED) or (None, "", 0)
    if params != view_to_params(view):
        return
    st.success(
        f"Set **{escape_markdown(name)}** holds {episodes:,} episodes.", icon=":material/check_circle:"
    )
    st.button("Open it in Sets", key="set_form.open", on_click=_open_created, args=(name,))


def _open_created(name: str) -> None:
    del st.session_state[_CREATED]
    pages.open_page("sets", {"set": [name]})
