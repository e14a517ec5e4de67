"""Pages: which there are, how one leads to another, and the one place where an error becomes a box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard.words import plain
from ares.errors import AresError, FilterError

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

_TITLES = {"browse": "Browse", "map": "Map", "episode": "Episode", "sets": "Sets", "status": "Status"}
_ICONS = {
    "browse": ":material/grid_view:",
    "map": ":material/scatter_plot:",
    "episode": ":material/play_circle:",
    "sets": ":material/inventory_2:",
    "status": ":material/monitoring:",
}


def pages() -> dict[str, Page]:
    """The pages by name; a view is imported when it is drawn."""
    return {
        name: st.Page(_drawing(name), title=title, icon=_ICONS[name], url_path=name, default=name == "browse")
        for name, title in _TITLES.items()
    }


def go(name: str, params: Mapping[str, Sequence[str]] | None = None) -> None:
    """Leave for another page with these query parameters."""
    st.switch_page(pages()[name], query_params={key: list(texts) for key, texts in (params or {}).items()})


def say(error: AresError) -> None:
    """Show an error in one box."""
    detail = f"\n\n{plain(error.detail)}" if error.detail else ""
    st.error(f"**{plain(error.reason)}**{detail}", icon=":material/error:")
    if isinstance(error, FilterError) and error.pointer:
        st.code(error.pointer, language=None)


def _drawing(name: str) -> Callable[[], None]:
    def draw() -> None:
        try:
            import_module(f"app.dashboard.views.{name}").render()
        except AresError as error:
            say(error)

    draw.__name__ = name
    return draw
