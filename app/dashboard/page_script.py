"""The pages as the server gets them: the script that draws them, and what it calls beside it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.dashboard.page_list import PAGES
from app.server import ServedPages, start_background_dashboard
from ares.errors import AresError
from ares.io import local_output

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.workspace import Dashboard, Workspace


def make_served_pages(export_dirs: Sequence[str] = (), query_seconds: float | None = None) -> ServedPages:
    """The pages with the limits that the owner of the server sets.

    Args:
        export_dirs: Folders below which pages may export; by default those of the settings, else one in the workspace.
        query_seconds: Time limit of each query of a page; by default that of the settings.
    """
    return ServedPages(
        script=Path(__file__).with_name("main.py"),
        show=partial(_show_workspace, tuple(export_dirs), query_seconds),
        preload=preload,
        changes=_describe_changes,
        show_error=_show_error,
        names=tuple(PAGES),
        first="browse",
    )


def start(
    workspace: Workspace,
    *,
    host: str,
    port: int,
    open_browser: bool,
    export_dirs: Sequence[str],
    query_seconds: float | None,
    trusted_proxies: Sequence[str],
) -> Dashboard:
    """Serve a workspace in the background until it is closed or this process ends. Raises as `app.server.serve`."""
    return start_background_dashboard(
        workspace,
        make_served_pages(export_dirs, query_seconds),
        host=host,
        port=port,
        open_browser=open_browser,
        trusted_proxies=trusted_proxies,
    )


# The pages need Streamlit, which a program that starts them in another process does not: it is imported by a call.


def _show_workspace(
    export_dirs: Sequence[str], query_seconds: float | None, workspace: Workspace, needs_login: bool
) -> None:
    from app.dashboard.cached_reads import use_workspace
    from app.dashboard.user_limits import UserLimits, find_default_export_folder

    settings = workspace.settings
    folders = [local_output(folder).absolute() for folder in export_dirs or settings.export_dirs]
    limits = UserLimits(
        query_seconds=settings.query_seconds if query_seconds is None else query_seconds,
        export_folders=tuple(folders or [find_default_export_folder(workspace.stores)]),
        needs_login=needs_login,
    )
    use_workspace(workspace, limits)


def _describe_changes(workspace: Workspace) -> dict[str, Json]:
    from app.server import list_all_jobs

    running = [job for job in list_all_jobs(workspace.stores) if not job.ended]
    return {"version": workspace.stores.tables.episodes.version(), "running": len(running)}


def _show_error(error: Exception) -> bool:
    from app.dashboard.error_boxes import show_script_error
    from app.dashboard.navigation import accept_next_message

    show_script_error(error)
    accept_next_message()
    return True  # Streamlit shows nothing of its own


# What the server loads beside the pages, so that no click waits for it.


def preload() -> None:
    """Load what the first page, the first search and the first episode need: code, indexes and columns.

    Errors are ignored here: the page that needs the data reports them.
    """
    from app.dashboard import cached_reads

    cached_reads.preload_in_this_thread()

    with suppress(AresError):
        ids = _load_browse()
        # In the order in which people need it: a click on a card needs the order, for the episodes beside it.
        for load in (_load_order, _load_episode, _load_search):
            with suppress(AresError):
                load(ids)


def _load_browse() -> Sequence[str]:
    """Load the first page; its ids."""
    from app.dashboard import cached_reads
    from app.dashboard.navigation import import_view
    from app.dashboard.results import read_page
    from app.dashboard.view_state import ViewState

    if not cached_reads.count_episodes(""):
        return ()
    import_view("browse")
    cached_reads.read_facets("")
    ids = read_page(ViewState()).ids
    cached_reads.read_episodes(ids)
    cached_reads.read_captions(ids)
    return ids


def _load_search(ids: Sequence[str]) -> None:
    """Load the model of texts and the index of words, by a search for the words of one episode."""
    from app.dashboard import cached_reads
    from app.dashboard.results import read_page
    from app.dashboard.view_state import ViewState

    cached_reads.warm_up(text="any")
    for episode in cached_reads.read_episodes(ids[:1]):
        if episode.instruction.strip():
            read_page(ViewState(text=episode.instruction))


def _load_episode(ids: Sequence[str]) -> None:
    """Load what an episode shows, by the first one."""
    from app.dashboard import cached_reads
    from app.dashboard.annotation_rows import read_annotations, read_segments
    from app.dashboard.navigation import import_view
    from app.dashboard.timeline_ticks import make_timeline_ticks

    import_view("episode")
    stores = cached_reads.workspace().stores
    for episode in cached_reads.read_episodes(ids[:1]):
        annotations = read_annotations(stores, episode, read_segments(stores, episode))
        trajectory = stores.tables.trajectories.get(episode.episode_id)
        captions: list[Any] = annotations.captions
        make_timeline_ticks(stores, episode, trajectory, captions)
        cached_reads.read_health(episode.dataset)
        with suppress(AresError):
            cached_reads.find_similar_episodes(episode.episode_id, "", 6)


def _load_order(ids: Sequence[str]) -> None:
    """Make the table keep its order: a deep offset does so, and any page is then found at once."""
    from app.dashboard import cached_reads
    from ares.curation import SOURCE_ORDER
    from ares.store import DEEP_OFFSET

    if ids:
        cached_reads.read_ids("", SOURCE_ORDER, DEEP_OFFSET, 1)
