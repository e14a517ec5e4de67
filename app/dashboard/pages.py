"""List of the pages, links between them, and the box that shows an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import streamlit as st

from app.dashboard.escape import escape_markdown
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


def build_pages() -> dict[str, Page]:
    """Return the pages by name; the module of a page is imported when the page is drawn."""
    return {
        name: st.Page(
            page_function(name), title=title, icon=_ICONS[name], url_path=name, default=name == "browse"
        )
        for name, title in _TITLES.items()
    }


def open_page(name: str, params: Mapping[str, Sequence[str]] | None = None) -> None:
    """Open another page with these query parameters."""
    st.switch_page(
        build_pages()[name], query_params={key: list(texts) for key, texts in (params or {}).items()}
    )


def show_error(error: AresError) -> None:
    """Show an error in one box, with the position in a filter that cannot be parsed."""
    detail = f"\n\n{escape_markdown(error.detail)}" if error.detail else ""
    st.error(f"**{escape_markdown(error.reason)}**{detail}", icon=":material/error:")
    if isinstance(error, FilterError) and error.pointer:
        st.code(error.pointer, language=None)


def page_function(name: str) -> Callable[[], None]:
    """Return the function that draws a page; an error of ARES becomes a box on the page."""

    def draw() -> None:
        try:
            import_module(f"app.dashboard.views.{name}").render()
        except AresError as error:
            show_error(error)

    draw.__name__ = name
    return draw
