"""Opens a workspace: an existing one, or a new one that is created."""

from __future__ import annotations

import os

from ares.errors import RequestError
from ares.settings import Settings
from ares.store import workspace_exists
from ares.workspace.paths import expanded_path
from ares.workspace.workspace import Workspace


def open_workspace(path: str | os.PathLike[str], settings: Settings, *, create: bool = True) -> Workspace:
    """Open a workspace.

    Args:
        path: Folder or URI.
        settings: Models, keys and prices.
        create: Create it when the folder is empty or does not exist.

    Raises:
        RequestError: There is no workspace, the folder holds something else, or an object store is to be used without
            MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    workspace = new_workspace(path, settings) if create else _existing_workspace(path, settings)
    assert workspace.stores  # opened, or created, now
    return workspace


def new_workspace(path: str | os.PathLike[str], settings: Settings) -> Workspace:
    """A workspace that is created, where it is missing, when it is first used."""
    return Workspace(expanded_path(path), settings)


def _existing_workspace(path: str | os.PathLike[str], settings: Settings) -> Workspace:
    location = expanded_path(path)
    if not workspace_exists(location):
        raise RequestError(
            f"there is no workspace at {location!r}",
            "`ares ingest` or ares.open(path, create=True) makes one; -w selects another",
        )
    return Workspace(location, settings)
