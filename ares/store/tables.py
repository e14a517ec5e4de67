"""Tables: the LanceDB index of a workspace: episodes, trajectories, segments and one vector table per space."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ares.errors import RequestError
from ares.store import arrow, filters
from ares.store.episodes import EpisodeTable
from ares.store.stored import Stored
from ares.store.tidy import tidy
from ares.store.trajectories import TrajectoryTable
from ares.store.words import has_word_index, has_words, index_words

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lance.lance import _Session as Session
    from lancedb.db import DBConnection
    from lancedb.table import Table

    from ares.store.segments import SegmentTable
    from ares.store.texts import TextTable
    from ares.store.vectors import VectorTable

_VECTORS, _TEXTS = "vectors_", "texts_"
_SPACE = re.compile(r"[A-Za-z0-9_-]+")
# Below this many rows a scan is as fast as an index of ids.
_INDEX_ROWS = 10_000
_INDEX_CACHE, _METADATA_CACHE = 2 << 30, 128 << 20
# Writers look up ids; vectors and words are searched by the readers.
_WRITER_INDEX_CACHE, _WRITER_METADATA_CACHE = 256 << 20, 32 << 20


class Tables:
    """The tables of one workspace; each is made when it is first asked for.

    Args:
        uri: Folder or object-store URI of the tables.

    Raises:
        StoreError: The folder cannot be used.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._spaces: dict[str, VectorTable] = {}
        self._texts: dict[str, TextTable] = {}
        self._writers: dict[str, Table] = {}
        with filters.failures(uri):
            if "://" not in uri:
                Path(uri).mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"Tables({self.uri!r})"

    @cached_property
    def _db(self) -> DBConnection:
        import lancedb

        # Left to itself LanceDB keeps seven gigabytes of what it has read, of every version that was written.
        session = lancedb.Session(
            index_cache_size_bytes=_WRITER_INDEX_CACHE, metadata_cache_size_bytes=_WRITER_METADATA_CACHE
        )
        # Interval 0: what another process has written is seen at once.
        with filters.failures(self.uri):
            return lancedb.connect(self.uri, read_consistency_interval=timedelta(0), session=session)

    @cached_property
    def _session(self) -> Session:
        """What was read of indexes and file headers, shared by every reader of these tables."""
        from lance.lance import _Session as Session

        # Bounded: the index of ten million frames is about a gigabyte.
        return Session(index_cache_size_bytes=_INDEX_CACHE, metadata_cache_size_bytes=_METADATA_CACHE)

    @cached_property
    def episodes(self) -> EpisodeTable:
        """One row per episode."""
        return EpisodeTable(
            self.stored("episodes", arrow.episode_schema(), words="instruction"),
            self.trajectories,
            self.uri.rstrip("/").rpartition("/")[0],
        )

    @cached_property
    def trajectories(self) -> TrajectoryTable:
        """Signals by episode."""
        return TrajectoryTable(self.stored("trajectories", arrow.trajectory_schema()))

    @cached_property
    def segments(self) -> SegmentTable:
        """One row per caption."""
        from ares.store.segments import SegmentTable, segment_schema

        return SegmentTable(self.stored("segments", segment_schema(), words="text"))

    def vectors(self, space: str) -> VectorTable:
        """The vectors of an embedding space; its table is made by the first vectors added.

        Raises:
            RequestError: A name that no table can have.
        """
        from ares.store.vectors import VectorTable

        # One handle per space: it keeps the version that it has open, and with it what was read of the index.
        return self._spaces.setdefault(space, VectorTable(self, _named(_VECTORS, space)))

    def texts(self, space: str) -> TextTable:
        """The vectors of captions and instructions in an embedding space; made and refused like `vectors`."""
        from ares.store.texts import TextTable

        return self._texts.setdefault(space, TextTable(self, _named(_TEXTS, space)))

    def spaces(self) -> list[str]:
        """Embedding spaces that have vectors, sorted."""
        return self._after(_VECTORS)

    def text_spaces(self) -> list[str]:
        """Embedding spaces that have vectors of texts, sorted."""
        return self._after(_TEXTS)

    def _after(self, prefix: str) -> list[str]:
        return sorted(name.removeprefix(prefix) for name in self.names() if name.startswith(prefix))

    def names(self) -> list[str]:
        """Names of all tables there are, sorted."""
        if "://" not in self.uri:
            found = [folder.name.removesuffix(".lance") for folder in Path(self.uri).glob("*.lance")]
            return sorted(filter(self._is_made, found))
        with filters.failures(self.uri):
            found = []
            page = self._db.list_tables()
            while page.tables:
                found += page.tables
                if not page.page_token:
                    break
                page = self._db.list_tables(page_token=page.page_token)
        return sorted(found)

    def dataset(self, name: str) -> lance.LanceDataset | None:
        """The newest version of a table for reading, or None when it has not been made. Raises StoreError."""
        import lance

        if name not in self.names():
            return None
        with filters.failures(name):
            return lance.dataset(self._place(name), session=self._session)

    def stored(self, name: str, schema: pa.Schema, words: str = "") -> Stored:
        """A table that the first write opens for writing; made like `open` when it is not there. Raises StoreError."""
        import lance

        there = self.dataset(name)
        if there is None or (words and not has_word_index(there)):
            self._writers[name] = self.open(name, schema, words)

        def dataset() -> lance.LanceDataset:
            with filters.failures(name):
                return lance.dataset(self._place(name), session=self._session)

        def writer() -> Table:
            if name not in self._writers:
                self._writers[name] = self.open(name, schema, words)
            return self._writers[name]

        return Stored(dataset=dataset, writer=writer)

    def open(self, name: str, schema: pa.Schema, words: str = "") -> Table:
        """Open a table, making it when it is not there.

        Args:
            name: Its name.
            schema: Its columns when it has to be made.
            words: Text column that can be searched by words, or "".

        Raises:
            StoreError: It cannot be opened.
        """
        table = self.find(name)
        if table is not None and (not words or has_words(table)):
            return table
        with self._making(), filters.failures(name):
            # Another process may have made it while we waited for our turn.
            table = self.find(name)
            if table is None:
                table = self._create(name, schema)
            if words and not has_words(table):
                index_words(table, words)
            return table

    def _create(self, name: str, schema: pa.Schema) -> Table:
        # On an object store another process may make it at the same time; the store lets one of them win.
        try:
            return self._db.create_table(name, schema=schema)
        except (ValueError, OSError, RuntimeError):
            there = self.find(name) if "://" in self.uri else None
            if there is None:
                raise
            return there

    def find(self, name: str) -> Table | None:
        """A table, or None when it has not been made. Raises StoreError when it cannot be opened."""
        if name not in self.names():
            return None
        with filters.failures(name):
            return self._db.open_table(name)

    def _is_made(self, name: str) -> bool:
        # A folder without a version is a table in the making, or one whose maker was killed.
        return any(Path(self._place(name), "_versions").glob("*.manifest"))

    def _place(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}.lance"

    @contextmanager
    def _making(self) -> Iterator[None]:
        from filelock import FileLock

        if "://" in self.uri:
            yield
            return
        with filters.failures(self.uri):
            lock = FileLock(Path(self.uri) / ".making.lock")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def optimize(self, names: Sequence[str] = ()) -> None:
        """Compact every table, bring its indexes up to date and drop old versions where that is due.

        A job calls this at its end; see `ares.store.tidy`.

        Args:
            names: Only these tables; a long job may name those that it only writes to, and calls this in between.

        Raises:
            StoreError: A table cannot be written.
        """
        for name in names or self.names():
            with filters.failures(name):
                _index_columns(self._db.open_table(name), name)
                dataset = self.dataset(name)
                assert dataset is not None  # it was just opened
                tidy(dataset)


def open_tables(uri: str) -> Tables:
    """The tables in a folder or under an object-store URI. Raises StoreError when it cannot be used."""
    return Tables(uri)


def _named(prefix: str, space: str) -> str:
    if not _SPACE.fullmatch(space):
        raise RequestError(f"{space!r} is no name of a space", "use letters, digits, '_' and '-'")
    return f"{prefix}{space}"


def _index_columns(table: Table, name: str) -> None:
    """Give the columns that filters ask for most their indexes.

    At a million episodes they take a count from 20 ms to 1 ms. Numbers, bools and lists have none: a count of them
    takes less than 20 ms as it is, and an index makes a filter that keeps many episodes slower.
    """
    from lancedb.index import Bitmap, BTree

    wanted: dict[str, Bitmap | BTree] = {"episode_id": BTree()}
    if name == "episodes":
        wanted |= {"dataset": Bitmap(), "grade": Bitmap()}
    has = {column for index in table.list_indices() for column in index.columns}
    new = [column for column in wanted if column in table.schema.names and column not in has]
    if new and table.count_rows() >= _INDEX_ROWS:
        for column in new:
            table.create_index(column, config=wanted[column])
