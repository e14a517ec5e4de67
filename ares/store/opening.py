"""Opens the stores of a workspace: creates those of a new one, migrates those of an old one."""

from __future__ import annotations

from ares.settings import Settings
from ares.store.manifest import FORMAT, read_or_create
from ares.store.stores import Stores


def open_stores(path: str, settings: Settings) -> Stores:
    """Open the stores of a workspace, creating them when the folder is empty or does not exist.

    A workspace of an older layout is migrated first.

    Raises:
        RequestError: The folder holds something else, or an object store is to be used without MongoDB.
        StoreError: A newer version wrote the workspace, or its location cannot be reached.
    """
    manifest = read_or_create(path, settings)
    stores = Stores(path, settings, manifest)
    if manifest["format"] != FORMAT:
        from ares.store.migrations import migrate

        migrate(stores)
    return stores
