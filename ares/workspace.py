"""Workspace: a folder with its index, its annotations and its cache; the one handle that is passed about."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ares.episode import Episode, Trajectory
from ares.errors import RequestError, StoreError
from ares.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.curate.sets import Sets
    from ares.media.cache import Cache
    from ares.search.query import Hit, Query
    from ares.store.annotations import AnnotationStore
    from ares.store.tables import Tables

_FORMAT = 1
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
    def folder(self) -> Path:
        """The local folder (of the workspace, or of its caches when it is on an object store)."""
        return Path(self.path).resolve()

    @cached_property
    def tables(self) -> Tables:
        """The LanceDB index."""
        from ares.store.tables import open_tables

        return open_tables(str(self.folder / "lance"))

    @cached_property
    def annotations(self) -> AnnotationStore:
        """The append-only log: MongoDB if the workspace was made with one, else the embedded SQLite file.

        Raises StoreError when the server cannot be reached.
        """
        if self._keeps == "sqlite":
            from ares.store.sqlite import SqliteStore

            return SqliteStore(self.folder / "annotations.sqlite")
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
        if "annotations" in self.__dict__:
            self.annotations.close()

    def _hold(self, who: str, wait: bool = True) -> AbstractContextManager[None]:
        from ares.store.hold import hold_folder

        return hold_folder(self.folder, who, wait)

    def _apply(self) -> int:
        from ares.store.index import apply_log

        return apply_log(self.tables, self.annotations)


def open_workspace(path: str, settings: Settings) -> Workspace:
    """Open a workspace, creating it when the folder is empty or not there.

    Raises:
        RequestError: The folder holds something else.
        StoreError: The workspace was written by a newer version.
    """
    if "://" in path:
        raise RequestError(
            "a workspace on an object store cannot be opened", f"{path!r}; give a local folder"
        )
    folder = Path(path)
    manifest = folder / "workspace.json"
    if not manifest.exists():
        _create(folder, manifest, settings)
    return Workspace(path, settings, _read(manifest))


def _create(folder: Path, manifest: Path, settings: Settings) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise RequestError(
            f"{str(folder)!r} is no workspace", "give an empty or a new folder, or a workspace"
        )
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "format": _FORMAT,
        "workspace_id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "annotations": "mongo" if settings.mongo_uri else "sqlite",
    }
    partial = manifest.with_suffix(".json.tmp")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.rename(manifest)


def _read(manifest: Path) -> dict[str, object]:
    try:
        document = json.loads(manifest.read_text())
    except (OSError, ValueError) as error:
        raise StoreError(f"{str(manifest)!r} cannot be read", str(error)) from None
    if document.get("format") != _FORMAT:
        raise StoreError(
            f"the workspace has format {document.get('format')!r}",
            f"this version of ARES reads format {_FORMAT}",
        )
    return dict(document)
