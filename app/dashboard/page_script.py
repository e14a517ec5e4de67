"""The pages as the server gets them: the script that draws them, and what it calls beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from app.server import ServedPages, start_background_dashboard

if TYPE_CHECKING:
    from ares.episode import Json
    from ares.workspace import Dashboard, Workspace


def make_served_pages(export_dirs: Sequence[str] = (), query_seconds: float | None = None) -> ServedPages:
    """The pages with the limits that the owner of the server sets.

    Args:
        export_dirs: Folders below which pages may export; by default those of the settings, else one in the workspace.
        query_seconds: Time limit of each query of a page; by default that of the settings.
    """
    folder = Path(__file__).parent
    return ServedPages(
        script=folder / "main.py",
        show=partial(_show_workspace, tuple(export_dirs), query_seconds),
        preload=_load_ahead,
        changes=_describe_changes,
        show_error=_show_error,
        # `app.dashboard.navigation` has the same names, and imports Streamlit.
        names=tuple(path.stem for path in (folder / "views").glob("[a-z]*.py")),
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
    folders = [Path(folder).expanduser().absolute() for folder in export_dirs or settings.export_dirs]
    limits = UserLimits(
        query_seconds=settings.query_seconds if query_seconds is None else query_seconds,
        export_folders=tuple(folders or [find_default_export_folder(workspace.stores)]),
        needs_login=needs_login,
    )
    use_workspace(workspace, limits)


def _load_ahead() -> None:
    from app.dashboard.preloading import preload

    preload()


def _describe_changes(workspace: Workspace) -> dict[str, Json]:
    from app.server import list_all_jobs

    running = [job for job in list_all_jobs(workspace.stores) if not job.ended]
    return {"version": workspace.stores.tables.episodes.version(), "running": len(running)}


def _show_error(error: Exception) -> bool:
    from app.dashboard.navigation import show_script_error

    return show_script_error(error)
