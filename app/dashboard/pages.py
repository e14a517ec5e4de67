"""List of the pages, links between them, and the box that shows an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.dashboard import cached_reads
from app.dashboard.escape import escape_markdown
from app.dashboard.url_params import restore_parameters
from ares.errors import AresError, FilterError

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

_TITLES = {
    "browse": "Browse",
    "map": "Map",
    "episode": "Episode",
    "sets": "Sets",
    "health": "Health",
    "status": "Status",
}
_ICONS = {
    "browse": ":material/grid_view:",
    "map": ":material/scatter_plot:",
    "episode": ":material/play_circle:",
    "sets": ":material/inventory_2:",
    "health": ":material/health_metrics:",
    "status": ":material/monitoring:",
}

# Session key of the page that a click opens: its name and its query parameters.
_NEXT_PAGE = "pages.next"


def build_pages() -> dict[str, Page]:
    """Return the pages by name; the module of a page is imported when the page is drawn."""
    return {
        name: st.Page(
            page_function(name), title=title, icon=_ICONS[name], url_path=name, default=name == "browse"
        )
        for name, title in _TITLES.items()
    }


def open_page(name: str, params: Mapping[str, Sequence[str]] | None = None) -> None:
    """Open another page with these query parameters; called by a reaction to a click.

    The page that was clicked is not drawn again: `switch_page` comes before it.
    """
    st.session_state[_NEXT_PAGE] = (name, {key: list(texts) for key, texts in (params or {}).items()})


def switch_page(page_list: Mapping[str, Page]) -> None:
    """Go to the page that a click has opened, if any; called before the current page is drawn."""
    name, params = st.session_state.pop(_NEXT_PAGE, ("", {}))
    if name:
        st.switch_page(page_list[name], query_params=params)


def show_error(error: AresError) -> None:
    """Show an error in one box, with the position in a filter that cannot be parsed."""
    detail = f"\n\n{escape_markdown(error.detail)}" if error.detail else ""
    st.error(f"**{escape_markdown(error.reason)}**{detail}", icon=":material/error:")
    if isinstance(error, FilterError) and error.pointer:
        st.code(error.pointer, language=None)


def draw_log_out_link() -> None:
    """Draw a link that ends the session of the user, where users log in."""
    if cached_reads.page_limits().needs_login:
        # In the same tab, unlike links in Markdown.
        st.sidebar.html('<a href="/api/logout" target="_self">Log out</a>')


def show_script_error(error: Exception) -> bool:
    """Show what a page or a reaction to a click raised; the traceback of a bug goes to the log of the server only.

    Returns:
        True: Streamlit shows nothing of its own.
    """
    if isinstance(error, AresError):
        show_error(error)
        return True
    logging.getLogger("ares.dashboard").error("a page failed because of a bug", exc_info=error)
    st.error(
        "**This page failed because of a bug.** The log of the server has the details.",
        icon=":material/error:",
    )
    return True


def import_view(name: str) -> Any:
    """Return the module of a page."""
    return import_module(f"app.dashboard.views.{name}")


def page_function(name: str) -> Callable[[], None]:
    """Return the function that draws a page; an error of ARES becomes a box on the page."""

    def draw() -> None:
        try:
            restore_parameters(name)
            import_view(name).render()
        except AresError as error:
            show_error(error)

    draw.__name__ = name
    return draw
