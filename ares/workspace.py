"""Workspace: index, annotations and cache, in a folder or on an object store; the one handle that is passed about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Episode, Trajectory
from ares.errors import RequestError, StoreError
from ares.files import is_url
from ares.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.curate.sets import Sets
    from ares.media.cache import Cache
    from ares.search.query import Hit, Query
    from ares.store.annotations import AnnotationStore
    from ares.store.mongo import MongoStore
    from ares.store.tables import Tables

# A job waits this long for a database server that went away; a page does not.
_PATIENCE_SECONDS = 120.0


class Workspace:
    """Everything that ARES keeps about some episodes.

    Args:
        path: Folder or URI, as given.
        settings: What the environment says.
        manifest: The content of workspace.json.
    """

    def __init__(self, path: str, settings: Settings, manifest: dict[str, object]) -> None:
        self.path = path
        self.settings = settings
        self.workspace_id = str(manifest["workspace_id"])
        self._keeps = str(manifest["annotations"])
        self._held = False

    def __repr__(self) -> str:
        return f"Workspace({self.path!r})"

    @property
    def location(self) -> str:
        """Where it is, for another process: the absolute folder, or the URI on an object store."""
        return self.path.rstrip("/") if self.remote else str(self.folder)

    @property
    def remote(self) -> bool:
        """Whether it is on an object store."""
        return is_url(self.path)

    @property
    def folder(self) -> Path:
        """The local folder: of the workspace, or of its caches alone when it is on an object store."""
        if self.remote:
            return Path(self.settings.cache).expanduser() / self.workspace_id
        return Path(self.path).resolve()

    @cached_property
    def tables(self) -> Tables:
        """The LanceDB index."""
        from ares.store.tables import open_tables

        return open_tables(f"{self.location}/lance")

    @cached_property
    def annotations(self) -> AnnotationStore:
        """The append-only log: MongoDB if the workspace was made with one, else the embedded SQLite file.

        Raises StoreError when the server cannot be reached.
        """
        if self._keeps == "sqlite":
            from ares.store.sqlite import SqliteStore

            return SqliteStore(self.folder / "annotations.sqlite")
        return self._mongo

    @cached_property
    def _mongo(self) -> MongoStore:
        from ares.store.mongo import MongoStore

        if not self.settings.mongo_uri:
            raise StoreError(
                "this workspace keeps its annotations in MongoDB", "set ARES_MONGO_URI to its server"
            )
        return MongoStore(self.settings.mongo_uri, self.workspace_id)

    @cached_property
    def cache(self) -> Cache:
        """Playable videos and thumbnails, bounded."""
        from ares.media.cache import Cache

        return Cache(self.folder / "cache", self.settings.media_cache_bytes)

    @property
    def sets(self) -> Sets:
        """The frozen selections, by name."""
        from ares.curate.sets import Sets

        return Sets(self.annotations)

    def episodes(self, where: str = "", limit: int | None = None) -> Iterator[Episode]:
        """Episodes that fulfil an SQL filter over the columns of the episodes table, streamed.

        Raises RequestError for a filter that cannot be read.
        """
        return self.tables.episodes.read(where=where, limit=limit)

    def episode(self, episode_id: str) -> Episode:
        """One episode. Raises RequestError for an unknown id."""
        found = self.tables.episodes.get([episode_id])
        if not found:
            raise RequestError(f"no episode {episode_id!r}", "`ares search` and the dashboard show ids")
        return found[0]

    def trajectory(self, episode_id: str) -> Trajectory:
        """The signals of an episode. Raises RequestError for an unknown id."""
        return self.tables.trajectories.get(episode_id)

    def frame(self, columns: list[str], where: str = "", limit: int | None = None) -> pa.Table:
        """Columns of the episodes table as one Arrow table. Raises RequestError for an unknown column."""
        import pyarrow as pa

        batches = list(self.tables.episodes.scan(columns, where=where, limit=limit))
        return pa.Table.from_batches(batches, schema=self.tables.episodes.schema(columns))

    def search(self, text: str = "", **asked: object) -> list[Hit]:
        """Moments that fit a text, an image or an episode; see `ares.search.query.Query` for what can be asked."""
        from ares.search.query import Query
        from ares.search.search import search

        query: Query = Query(text=text, **asked)  # type: ignore[arg-type]
        return search(self, query)

    def sync(self) -> int:
        """Apply the part of the annotation log that the index has not seen. Returns the number of facts applied.

        While another job writes, nothing is done: that job applies them all at its end.
        """
        from ares.store.hold import Busy

        if self._held:
            return self._apply()
        try:
            with self._hold("the index", wait=False):
                return self._apply()
        except Busy:
            return 0

    @contextmanager
    def writing(self, who: str) -> Iterator[None]:
        """Hold the workspace for writing; a second writer waits and says for whom.

        Args:
            who: Name of the job, told to those who wait.
        """
        with self._hold(who):
            self._held = True
            self.annotations.patience_seconds = _PATIENCE_SECONDS
            try:
                yield
            finally:
                self.annotations.patience_seconds = 0.0
                self._held = False

    def close(self) -> None:
        """Release the annotation store, if it was opened."""
        for name in ("annotations", "_mongo"):
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def _hold(self, who: str, wait: bool = True) -> AbstractContextManager[None]:
        from ares.store.hold import hold_folder

        # See docs/why/006: no lock of an object store outlives its holder as safely as a lease by one clock.
        return self._mongo.hold(who, wait) if self.remote else hold_folder(self.folder, who, wait)

    def _apply(self) -> int:
        from ares.store.index import apply_log

        return apply_log(self.tables, self.annotations)


def open_workspace(path: str, settings: Settings) -> Workspace:
    """Open a workspace, creating it when the folder is empty or not there.

    Raises:
        RequestError: Something else lies there, or an object store is to be used without MongoDB.
        StoreError: The workspace was written by a newer version, or its place cannot be reached.
    """
    from ares.manifest import read_or_create

    return Workspace(path, settings, read_or_create(path, settings))
