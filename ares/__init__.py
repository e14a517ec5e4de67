"""ARES curates robot-learning data: it reads episodes, annotates, searches, selects and exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ares.annotation import Annotation
    from ares.episode import Episode
    from ares.search import Hit, Query
    from ares.workspace import Workspace

__version__ = "0.1.0"
__all__ = ["Annotation", "Episode", "Hit", "Query", "Workspace", "__version__", "open"]

_MODULES = {
    "Annotation": "ares.annotation",
    "Episode": "ares.episode",
    "Hit": "ares.search.query",
    "Query": "ares.search.query",
    "Workspace": "ares.workspace",
}


def open(path: str | None = None) -> Workspace:
    """Open the workspace in a folder or at an object-store URI, creating it when it does not exist.

    Args:
        path: Folder or URI; the default is ARES_WORKSPACE, else ./ares-workspace.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    from ares.settings import settings_from_environment
    from ares.workspace import open_workspace

    settings = settings_from_environment()
    return open_workspace(path or settings.workspace, settings)


def __getattr__(name: str) -> Any:
    """Import a class on first use, so that `import ares` stays quick."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
