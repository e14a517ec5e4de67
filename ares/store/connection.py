"""Opens, creates and lists the Lance tables in one folder or under one object-store URI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ares.process_tuning import put_off_package
from ares.store.lance import (
    LanceTable,
    LazyLanceTable,
    TableWriter,
    create_fulltext_index,
    has_fulltext_index,
    lance_errors,
    open_session,
)

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lance.lance import _Session as Session
    from lancedb.db import DBConnection

_INDEX_CACHE, _METADATA_CACHE = 2 << 30, 128 << 20
# Writers look up ids; vectors and texts are searched by the readers.
_WRITER_INDEX_CACHE, _WRITER_METADATA_CACHE = 256 << 20, 32 << 20
# What Lance says of a folder without a version.
_MISSING = "was not found"


class LanceConnection:
    """The tables of one folder, which LanceDB opens as a database. They are read and written through pylance.

    Args:
        uri: Folder or object-store URI of the tables.

    Raises:
        StoreError: The folder cannot be created.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        # Tables of an object store that have a version, which takes a request to know.
        self._complete_tables: set[str] = set()
        with lance_errors(uri):
            if not self.is_remote:
                Path(uri).mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"LanceConnection({self.uri!r})"

    @property
    def is_remote(self) -> bool:
        """Whether the tables are on an object store."""
        return "://" in self.uri

    @cached_property
    def _db(self) -> DBConnection:
        """The database, to list the tables of an object store. LanceDB takes a second to import."""
        # A client of a web service that we never call: more than half of the import of lancedb.
        put_off_package("lance_namespace_urllib3_client")
        import lancedb

        with lance_errors(self.uri):
            return lancedb.connect(self.uri)

    @cached_property
    def _session(self) -> Session:
        """Cache of indexes and file headers, shared by every reader of these tables."""
        # Bounded: the index of ten million frames is about a gigabyte.
        return open_session(_INDEX_CACHE, _METADATA_CACHE)

    @cached_property
    def _writer_session(self) -> Session:
        # By default Lance caches up to seven gigabytes, of every version that was written.
        return open_session(_WRITER_INDEX_CACHE, _WRITER_METADATA_CACHE)

    def table_names(self) -> list[str]:
        """Return the names of all existing tables, sorted."""
        if not self.is_remote:
            names = [folder.name.removesuffix(".lance") for folder in Path(self.uri).glob("*.lance")]
            return sorted(filter(self._has_version, names))
        with lance_errors(self.uri):
            names = []
            page = self._db.list_tables()
            while page.tables:
                names += page.tables
                if not page.page_token:
                    break
                page = self._db.list_tables(page_token=page.page_token)
        return sorted(filter(self._has_version, names))

    def open_dataset(self, name: str) -> lance.LanceDataset | None:
        """Open the newest version of a table for reading; None when it does not exist. Raises StoreError."""
        return self.newest_version(name) if name in self.table_names() else None

    def open_table(self, name: str) -> TableWriter | None:
        """The writer of a table; None when it does not exist."""
        return self._writer(name) if name in self.table_names() else None

    def drop_table(self, name: str) -> None:
        """Delete a table with all its versions. Raises StoreError when it cannot be deleted."""
        import lance

        with lance_errors(name):
            lance.LanceDataset.drop(self._table_uri(name))

    def open_or_create(self, name: str, schema: pa.Schema, text_column: str = "") -> TableWriter:
        """The writer of a table, which is created when it does not exist.

        Args:
            name: Name of the table.
            schema: Columns of a new table.
            text_column: Column that gets a full-text index, or "".

        Raises:
            StoreError: The table cannot be opened or created.
        """
        table = self.open_table(name)
        if table is not None and (not text_column or has_fulltext_index(table.newest())):
            return table
        with self._creation_lock(), lance_errors(name):
            # Another process may have created it while this one waited for the lock.
            table = self.open_table(name)
            if table is None:
                table = self._create(name, schema)
            if text_column and not has_fulltext_index(table.newest()):
                create_fulltext_index(table, text_column)
            return table

    def table(self, name: str, schema: pa.Schema, text_column: str = "") -> LanceTable:
        """Return a handle on a table, created now if it does not exist, as in `open_or_create`. Raises StoreError."""
        writer = self.open_or_create(name, schema, text_column)
        return LanceTable(dataset=partial(self.newest_version, name), writer=writer)

    def lazy_table(self, name: str) -> LazyLanceTable:
        """Return a handle on a table that its first write creates."""
        return LazyLanceTable(
            name=name,
            dataset=partial(self.open_dataset, name),
            writer=partial(self.open_table, name),
            create=partial(self.open_or_create, name),
        )

    def newest_version(self, name: str) -> lance.LanceDataset:
        """Open the newest version of an existing table for reading. Raises StoreError."""
        return self._open(name, self._session)

    def _open(self, name: str, session: Session) -> lance.LanceDataset:
        import lance

        with lance_errors(name):
            return lance.dataset(self._table_uri(name), session=session)

    def _writer(self, name: str) -> TableWriter:
        return TableWriter(name, lambda: self._open(name, self._writer_session))

    def _create(self, name: str, schema: pa.Schema) -> TableWriter:
        import lance

        # On an object store another process may create it at the same time; only one of them succeeds.
        try:
            lance.write_dataset(schema.empty_table(), self._table_uri(name), mode="create")
            return self._writer(name)
        except (ValueError, OSError, RuntimeError):
            existing = self.open_table(name) if self.is_remote else None
            if existing is None:
                raise
            return existing

    def _has_version(self, name: str) -> bool:
        # A folder without a version is a table being created, or one whose creator was killed.
        if not self.is_remote:
            return any(Path(self._table_uri(name), "_versions").glob("*.manifest"))
        if name not in self._complete_tables:
            import lance

            try:
                lance.dataset(self._table_uri(name), session=self._session)
            except (ValueError, OSError, RuntimeError) as error:
                if _MISSING in str(error):
                    return False
            else:
                self._complete_tables.add(name)
        return True

    def _table_uri(self, name: str) -> str:
        return f"{self.uri.rstrip('/')}/{name}.lance"

    @contextmanager
    def _creation_lock(self) -> Iterator[None]:
        from filelock import FileLock

        if self.is_remote:
            yield
            return
        with lance_errors(self.uri):
            lock = FileLock(Path(self.uri) / ".making.lock")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
