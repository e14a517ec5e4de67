"""How pages are reached: the functions that draw them, their header, and the links between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import streamlit as st

from ares.errors import AresError
from ares_app.dashboard import cached_reads
from ares_app.dashboard.address import (
    check_parameters,
    drop_parameter,
    forget_left_address,
    read_values,
    restore_parameters,
    save_parameters,
)
from ares_app.dashboard.error_boxes import show_error
from ares_app.dashboard.fields import forget_refusals
from ares_app.dashboard.page_list import PAGES
from ares_app.dashboard.view_state import AddressError
from ares_app.server import CONNECTION_HEADER, release_next_message

if TYPE_CHECKING:
    from streamlit.navigation.page import Page


# Session key of the page that was drawn last.
_PAGE = "url.page"
# Session key of the page that a click opens: its name and its query parameters.
_NEXT_PAGE = "pages.next"
# Session key of whether a click has changed what the header shows, too.
_REDRAW = "pages.redraw"
# Pages whose clicks draw the page again without its header.
_PARTS = frozenset(("browse",))


def build_pages() -> dict[str, Page]:
    """Return the pages by name; the module of a page is imported when the page is drawn."""
    return {
        name: st.Page(
            make_page_function(name),
            title=page.title,
            icon=page.icon,
            url_path=name,
            default=name == "browse",
            visibility="visible" if page.icon else "hidden",
        )
        for name, page in PAGES.items()
    }


def draw_header(title: str) -> None:
    """Draw into the header what opens things by name, what runs, what others have changed, and what is shown.

    Args:
        title: Name of the page, which the title of the tab begins with.
    """
    from ares_app.dashboard.components import load_component

    st.session_state.pop(_REDRAW, None)
    # The dataset that the address names, by itself or by an episode.
    datasets = read_values("f.dataset")
    if episode_ids := read_values("episode")[:1]:
        with suppress(AresError):
            datasets = [episode.dataset for episode in cached_reads.read_episodes(episode_ids)]
    named = [datasets[0][:60]] if len(datasets) == 1 and not datasets[0].startswith("~") else []
    shown = [*named, cached_reads.workspace().path.rstrip("/").rpartition("/")[2]]
    st.set_page_config(page_title=" · ".join((title, *shown, "ARES")))
    pages = [{"name": "" if name == "browse" else name, "title": page.title} for name, page in PAGES.items()]
    with st.container(key="find"):
        load_component("find")(data={"pages": pages}, key="find.dialog")
    version = cached_reads.newest_version()
    load_component("changes")(
        data={"version": version, "shown": " · ".join(reversed(shown))},
        key="changes",
        on_shown_change=cached_reads.clear_caches,
    )


def open_page(name: str, params: Mapping[str, Sequence[str]] | None = None) -> None:
    """Open another page with these query parameters; called by a reaction to a click.

    The page that was clicked is not drawn again: `switch_page` comes before it.
    """
    st.session_state[_NEXT_PAGE] = (name, {key: list(texts) for key, texts in (params or {}).items()})


def draw_job_button(label: str, kind: str, names: Sequence[str] = (), key: str = "") -> None:
    """Draw a button that opens the form of a job, beside what says that nothing is there yet.

    Args:
        label: Text of the button.
        kind: "ingest", "annotate" or "check".
        names: Annotators that the form has selected.
        key: What tells the button from others on the page.
    """
    params = {"job": [kind], **({"names": [",".join(names)]} if names else {})}
    st.button(
        label, key=f"jobs.open.{key or kind}", icon=":material/conveyor_belt:", on_click=open_page,
        args=("jobs", params),
    )  # fmt: skip


def switch_page(page_list: Mapping[str, Page]) -> None:
    """Go to the page that a click has opened, if any; called before the current page is drawn."""
    name, params = st.session_state.pop(_NEXT_PAGE, ("", {}))
    if name:
        st.switch_page(page_list[name], query_params=params)


def accept_next_message() -> None:
    """Let the next click of the tab come, as the reactions to the last one have run; the server holds it back so long.

    Any access to the session, as here, ends a script that a newer click has overtaken: it must not speak for that one.
    """
    st.session_state.get(_PAGE)
    if connection := st.context.headers.get(CONNECTION_HEADER):
        release_next_message(connection)


def draw_all_again() -> None:
    """Let the reaction to a click draw the header, too: what it shows of the data has changed."""
    st.session_state[_REDRAW] = True


def draw_part(key: str, draw: Callable[..., None], *arguments: Any) -> None:
    """Draw a part of a page: a click in it draws this part again, and not what is around it."""

    def run(*drawn: Any) -> None:
        accept_next_message()
        if st.session_state.pop(_REDRAW, False):
            st.rerun()
        switch_page(build_pages())
        try:
            draw(*drawn)
        except AresError as error:
            show_error(error)

    st.fragment(run, key=key)(*arguments)


def import_view(name: str) -> Any:
    """Return the module of a page."""
    return import_module(f"ares_app.dashboard.views.{name}")


def make_page_function(name: str) -> Callable[[], None]:
    """Return the function that draws a page; an error of ARES becomes a box on the page."""

    def draw() -> None:
        try:
            _open_tab(name)
            check_parameters(name)
            import_view(name).render()
        except AresError as error:
            show_error(error)
            if isinstance(error, AddressError):
                st.button(
                    "Open the page without it",
                    key="address.without",
                    on_click=drop_parameter,
                    args=(error.parameter,),
                )

    def draw_in_part() -> None:
        draw_part(f"page.{name}", draw)

    page_function = draw_in_part if name in _PARTS else draw
    page_function.__name__ = name
    return page_function


def _open_tab(page: str) -> None:
    """Let the tab show a page; one that follows another has its own parameters and no errors of the other's fields."""
    forget_left_address()
    if st.session_state.get(_PAGE) not in (None, page):
        forget_refusals()
        restore_parameters(page)
    st.session_state[_PAGE] = page
    save_parameters(page)
