"""Views under a name: opened by a click, saved from the view on the page, and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard import cached_reads, pages
from app.dashboard.escape import escape_markdown
from app.dashboard.panels.selection_bar import current_person
from app.dashboard.url_params import write_view
from app.dashboard.view_state import ViewState, view_from_params, view_to_params
from ares.errors import AresError

if TYPE_CHECKING:
    from ares.store.actions import Action


def draw_saved_views(view: ViewState) -> None:
    """Draw the list of saved views with the form that saves this one."""
    with st.popover("Views", icon=":material/bookmark:"):
        for saved in cached_reads.list_saved_views():
            with st.container(horizontal=True):
                st.button(
                    escape_markdown(saved.name), key=f"views.open.{saved.name}", width="stretch",
                    on_click=write_view, args=(view_from_params(saved.query),),
                    help=f"saved by {escape_markdown(saved.person)}, {saved.created[:10]}",
                )  # fmt: skip
                st.button(
                    "Delete", key=f"views.delete.{saved.name}", type="tertiary",
                    on_click=_delete, args=(saved.name,),
                )  # fmt: skip
        with st.form("views.form", border=False, clear_on_submit=True):
            st.text_input("Name of this view", key="views.name", placeholder="drawers to review")
            st.form_submit_button("Save this view", on_click=lambda: _save(view))


def _save(view: ViewState) -> None:
    from ares.curation import save_view

    name, params = str(st.session_state["views.name"]), view_to_params(view)
    _change(lambda: save_view(cached_reads.workspace().stores, name, params, person=current_person()))


def _delete(name: str) -> None:
    from ares.curation import delete_view

    _change(lambda: delete_view(cached_reads.workspace().stores, name, person=current_person()))


def _change(change: Callable[[], Action]) -> None:
    try:
        change()
    except AresError as error:
        pages.show_error(error)
