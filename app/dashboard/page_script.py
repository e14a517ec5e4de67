"""The pages as the server gets them: the script that draws them, and what it calls beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import AresError
from ares.io import local_output
from ares_app.dashboard.page_list import PAGES
from ares_app.server import ServedPages, start_background_dashboard

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.workspace import Dashboard, Workspace


def make_served_pages() -> ServedPages:
    """The pages with the limits of the settings."""
    return ServedPages(
        script=Path(__file__).with_name("main.py"),
        show=_show_workspace,
        preload=preload,
        changes=_describe_changes,
        show_error=_show_error,
        addresses={"names": tuple(PAGES), "first": "browse"},
    )


def start(workspace: Workspace, *, host: str, port: int, open_browser: bool) -> Dashboard:
    """Serve a workspace in the background until it is closed or the process ends. Raises as `ares_app.server.serve`."""
    return start_background_dashboard(
        workspace, make_served_pages(), host=host, port=port, open_browser=open_browser
    )


# The pages need Streamlit, which a program that starts them in another process does not: it is imported by a call.


def _show_workspace(workspace: Workspace, needs_login: bool) -> None:
    from ares_app.dashboard.cached_reads import use_workspace
    from ares_app.dashboard.user_limits import UserLimits, find_default_export_folder

    settings = workspace.settings
    folders = [local_output(folder).absolute() for folder in settings.export_dirs]
    limits = UserLimits(
        query_seconds=settings.query_seconds,
        export_folders=tuple(folders or [find_default_export_folder(workspace.stores)]),
        needs_login=needs_login,
    )
    use_workspace(workspace, limits)


def _describe_changes(workspace: Workspace) -> dict[str, Json]:
    from ares_app.server import list_all_jobs

    running = [job for job in list_all_jobs(workspace.stores) if not job.ended]
    return {"version": workspace.stores.tables.episodes.version(), "running": len(running)}


def _show_error(error: Exception) -> bool:
    from ares_app.dashboard.error_boxes import show_script_error
    from ares_app.dashboard.navigation import accept_next_message

    show_script_error(error)
    accept_next_message()
    return True  # Streamlit shows nothing of its own


# What the server loads beside the pages, so that no click waits for it.


def preload() -> None:
    """Load what the first page, the first search and the first episode need: code, indexes and columns.

    Errors are ignored here: the page that needs the data reports them.
    """
    from ares_app.dashboard import cached_reads

    cached_reads.preload_in_this_thread()

    with suppress(AresError):
        ids = _load_browse()
        # In the order in which people need it: a click on a card needs the order, for the episodes beside it.
        for load in (_load_order, _load_episode, _load_search):
            with suppress(AresError):
                load(ids)


def _load_browse() -> Sequence[str]:
    """Load the first page; its ids."""
    from ares_app.dashboard import cached_reads
    from ares_app.dashboard.browse_panels import read_usual_facets
    from ares_app.dashboard.navigation import import_view
    from ares_app.dashboard.results import read_page
    from ares_app.dashboard.view_state import ViewState

    if not cached_reads.count_episodes(""):
        return ()
    import_view("browse")
    read_usual_facets(ViewState())
    ids = read_page(ViewState()).ids
    cached_reads.read_episodes(ids)
    cached_reads.read_captions(ids)
    return ids


def _load_search(ids: Sequence[str]) -> None:
    """Load the model of texts and the index of words, by a search for the words of one episode."""
    from ares_app.dashboard import cached_reads
    from ares_app.dashboard.results import read_page
    from ares_app.dashboard.view_state import ViewState

    cached_reads.warm_up({"text": "any"})
    for episode in cached_reads.read_episodes(ids[:1]):
        if episode.instruction.strip():
            read_page(ViewState(text=episode.instruction))


def _load_episode(ids: Sequence[str]) -> None:
    """Load what an episode shows, by the first one."""
    from ares_app.dashboard import cached_reads
    from ares_app.dashboard.annotation_rows import read_annotations, read_segments
    from ares_app.dashboard.navigation import import_view
    from ares_app.dashboard.timeline_ticks import make_timeline_ticks

    import_view("episode")
    stores = cached_reads.workspace().stores
    for episode in cached_reads.read_episodes(ids[:1]):
        segments = read_segments(stores, episode)
        annotations = read_annotations(stores, episode, segments)
        trajectory = stores.tables.trajectories.get(episode.episode_id)
        make_timeline_ticks(stores, episode, trajectory, segments, annotations.judged)
        cached_reads.read_health(episode.dataset)
        with suppress(AresError):
            cached_reads.find_similar_episodes(episode.episode_id, "", 6)


def _load_order(ids: Sequence[str]) -> None:
    """Make the table keep its order: a deep offset does so, and any page is then found at once."""
    from ares.curation import SOURCE_ORDER
    from ares.store import DEEP_OFFSET
    from ares_app.dashboard import cached_reads

    if ids:
        cached_reads.read_ids("", SOURCE_ORDER, DEEP_OFFSET, 1)
