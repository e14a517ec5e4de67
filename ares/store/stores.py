"""The storage of one workspace: LanceDB tables, annotation log, media cache and write lock."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import ReadOnlyWorkspace, StoreError
from ares.io import is_url
from ares.settings import Settings

if TYPE_CHECKING:
    from ares.media import FileCache
    from ares.store.database import Tables
    from ares.store.log.mongo import MongoAnnotationStore
    from ares.store.log.protocol import AnnotationStore


# A job waits this long for a database server that went away; a page does not.
_JOB_RETRY_SECONDS = 120.0


class Stores:
    """Everything that a workspace keeps, in a folder or on an object store; each store is opened on first use.

    Args:
        path: Folder or URI, as the user wrote it.
        settings: Settings from the environment.
        manifest: The content of workspace.json.
    """

    def __init__(self, path: str, settings: Settings, manifest: dict[str, object]) -> None:
        self.path = path
        self.settings = settings
        self.workspace_id = str(manifest["workspace_id"])
        self._annotation_backend = str(manifest["annotations"])
        self._has_write_lock = False
        self.is_closed = False

    def __repr__(self) -> str:
        return f"Stores({self.path!r})"

    @property
    def location(self) -> str:
        """The absolute folder, or the URI on an object store; another process can open the workspace by it."""
        return self.path.rstrip("/") if self.is_remote else str(self.folder)

    @property
    def is_remote(self) -> bool:
        """Whether the workspace is on an object store."""
        return is_url(self.path)

    @property
    def is_writable(self) -> bool:
        """Whether this user may write to the folder; an object store tells only when it is written to."""
        return self.is_remote or os.access(self.folder, os.W_OK)

    @property
    def folder(self) -> Path:
        """The local folder: of the workspace, or only of its caches when it is on an object store."""
        if self.is_remote:
            return Path(self.settings.cache).expanduser() / self.workspace_id
        return Path(self.path).resolve()

    @cached_property
    def tables(self) -> Tables:
        """The LanceDB tables: episodes, trajectories, segments and vectors."""
        from ares.store.database import open_tables

        return open_tables(f"{self.location}/lance")

    @cached_property
    def annotations(self) -> AnnotationStore:
        """The append-only log: MongoDB if the workspace was created with it, else the embedded SQLite file.

        Raises:
            StoreError: The server cannot be reached.
        """
        if self._annotation_backend == "sqlite":
            from ares.store.log.sqlite import SqliteAnnotationStore

            return SqliteAnnotationStore(self.folder / "annotations.sqlite")
        return self._mongo

    @cached_property
    def _mongo(self) -> MongoAnnotationStore:
        from ares.store.log.mongo import MongoAnnotationStore

        if not self.settings.mongo_uri:
            raise StoreError(
                "this workspace keeps its annotations in MongoDB", "set ARES_MONGO_URI to its server"
            )
        return MongoAnnotationStore(self.settings.mongo_uri, self.workspace_id)

    @cached_property
    def media_cache(self) -> FileCache:
        """Playable videos and thumbnails, in a folder of bounded size."""
        from ares.media import FileCache

        return FileCache(self.folder / "cache", self.settings.media_cache_bytes)

    def sync(self) -> int:
        """Apply the annotations that the tables lack. Returns the number of annotations applied.

        While another job writes, nothing is done: that job applies them at its end. Nor is it in a read-only workspace.
        """
        from ares.store.folder import WorkspaceBusy

        if self._has_write_lock:
            return self._apply_log()
        try:
            with self._acquire_lock("the index", wait=False):
                return self._apply_log()
        except (WorkspaceBusy, ReadOnlyWorkspace):
            return 0

    @contextmanager
    def write_lock(self, job_name: str) -> Iterator[None]:
        """Lock the workspace for one writer; a second writer waits and reports for whom.

        Args:
            job_name: Name of the job, shown to those who wait.
        """
        with self._acquire_lock(job_name):
            self._has_write_lock = True
            self.annotations.retry_seconds = _JOB_RETRY_SECONDS
            try:
                yield
            finally:
                self.annotations.retry_seconds = 0.0
                self._has_write_lock = False

    def close(self) -> None:
        """Close the annotation store, if it was opened."""
        for name in ("annotations", "_mongo"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def _acquire_lock(self, job_name: str, wait: bool = True) -> AbstractContextManager[None]:
        from ares.store.folder import lock_folder

        # See docs/why/006: a lock on an object store can outlive its owner; a lease by the clock of one server expires.
        if self.is_remote:
            return self._mongo.write_lease(job_name, wait)
        return lock_folder(self.folder, job_name, wait)

    def _apply_log(self) -> int:
        from ares.store.sync.apply import apply_log

        return apply_log(self.tables, self.annotations)
