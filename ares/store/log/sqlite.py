"""The annotation log in one SQLite file (WAL mode), for many threads and several processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ares.annotation import Annotation, Producer
from ares.deadline import interruptible, wait_for_lock
from ares.episode import Json
from ares.errors import DiskFull, ReadOnlyWorkspace, StoreError
from ares.store.log.protocol import (
    ACTIONS,
    INDEXES,
    PINS,
    PURGES,
    AnnotationRow,
    LogEntry,
    LogPosition,
    UnstorableError,
    annotation_from_text,
    annotations_to_rows,
    decode_json,
    encode_json,
    find_outdated_subjects,
    next_page_size,
    producer_from_text,
    producer_to_text,
    serialize_documents,
)

_FORMAT = 1
_BUSY_SECONDS = 60.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    annotation_id TEXT NOT NULL UNIQUE,
    episode_id TEXT NOT NULL,
    name TEXT NOT NULL,
    maker_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS makers (maker_id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS documents (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (collection, key)
) WITHOUT ROWID;
"""
# Errors of a disk without room: for a page, and for the index of the journal.
_FULL = {"SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMOPEN"}
# Those with which a file is opened that is there: the journal cannot be created either.
_NO_ROOM = {*_FULL, "SQLITE_CANTOPEN"}
# The document that holds the last sequence number at the time of the last deletion.
_DELETED_UP_TO = ("log", "deleted_up_to")
_COLUMNS = "facts.sequence, facts.episode_id, facts.name, facts.maker_id, facts.subject, facts.body"


class SqliteAnnotationStore:
    """An AnnotationStore in a file: one connection behind a lock; writers of other processes are waited for.

    Args:
        path: The file; created when it does not exist, its folder must exist.

    Raises:
        StoreError: The file cannot be opened, is not a database, or was written by a newer version.

    A file that cannot be written is read as it is; then every method that writes raises ReadOnlyWorkspace, or DiskFull
    where there was no room for its journal and still is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Unused: a file does not go away, and other writers are waited for in any case.
        self.retry_seconds = 0.0
        self._lock = threading.RLock()
        self._is_read_only, self._is_full = _is_read_only(path), False
        try:
            self._connect()
        except StoreError as error:
            if not path.exists() or getattr(error.__cause__, "sqlite_errorname", "") not in _NO_ROOM:
                raise
            self._is_full = True
            self._connect()

    def __repr__(self) -> str:
        return f"SqliteAnnotationStore({str(self.path)!r})"

    def append(self, annotations: Sequence[Annotation | AnnotationRow]) -> int:
        """Append annotations in one transaction, ignoring existing ones. Returns the last sequence number.

        Raises:
            UnstorableError: Some cannot be stored; all others are stored.
            StoreError: The file cannot be written; then nothing of this call is stored.
        """
        rows, errors = annotations_to_rows(annotations)
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO facts (annotation_id, episode_id, name, maker_id, subject, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            last_sequence = self.last_sequence()
        if errors:
            raise UnstorableError(errors)
        return last_sequence

    def read(self, after: int = 0, limit: int = 10_000) -> list[LogEntry]:
        """Return annotations with a sequence number above `after`, in order."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM facts WHERE sequence > ? ORDER BY sequence LIMIT ?", (after, limit)
        )
        return [_log_entry(row) for row in rows]

    def last_sequence(self) -> int:
        """Return the sequence number of the newest annotation, deleted ones included; 0 for an empty log."""
        newest = self._rows("SELECT COALESCE(MAX(sequence), 0) FROM facts")[0][0]
        deleted = self._rows("SELECT body FROM documents WHERE collection = ? AND key = ?", _DELETED_UP_TO)
        return max(int(newest), int(deleted[0][0]) if deleted else 0)

    def position(self) -> LogPosition:
        """Return how far the log has come, whatever its size, in a few reads by key."""
        action = self._rows("SELECT MAX(key) FROM documents WHERE collection = ?", (ACTIONS,))[0][0]
        pins = self._rows("SELECT key, body FROM documents WHERE collection = ?", (PINS,))
        purges = self._rows("SELECT 1 FROM documents WHERE collection = ? LIMIT 1", (PURGES,))
        return LogPosition(
            sequence=self.last_sequence(),
            action=int(action or 0),
            pins={annotator: str(decode_json(body)) for annotator, body in pins},
            has_purge=bool(purges),
        )

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Store what the block writes in one transaction, or nothing of it; other threads wait meanwhile."""
        with self._transaction():
            yield

    def find_done_subjects(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Return those of the subjects that this producer has annotated, and is not to annotate again."""
        query = "SELECT subject FROM facts WHERE maker_id = ? AND subject IN (SELECT value FROM json_each(?))"
        done = {row[0] for row in self._rows(query, (maker_id, encode_json(list(subjects))))}
        return done - find_outdated_subjects(self, maker_id, done) if done else done

    def find_annotations(
        self, episode_ids: Sequence[str], names: Sequence[str] = (), *, maker_ids: Sequence[str] = ()
    ) -> list[Annotation]:
        """Return the annotations of these episodes, in order of the log; with names or producers only those."""
        # As JSON the ids are one parameter, whatever their number.
        query = (
            f"SELECT {_COLUMNS} FROM facts WHERE episode_id IN (SELECT value FROM json_each(?))"
            " AND (? OR name IN (SELECT value FROM json_each(?)))"
            " AND (? OR maker_id IN (SELECT value FROM json_each(?))) ORDER BY sequence"
        )
        ids, name_list, producer_list = (
            encode_json(list(values)) for values in (episode_ids, names, maker_ids)
        )
        rows = self._rows(query, (ids, not names, name_list, not maker_ids, producer_list))
        return [_log_entry(row).annotation for row in rows]

    def get_annotation(self, annotation_id: str) -> Annotation | None:
        """Return the annotation of an id, or None."""
        rows = self._rows(f"SELECT {_COLUMNS} FROM facts WHERE annotation_id = ?", (annotation_id,))
        return next((_log_entry(row).annotation for row in rows), None)

    def find_episodes(self, name: str, maker_id: str = "") -> list[str]:
        """Return the episodes with an annotation of that name, sorted; with a producer, those with one by it."""
        by_producer = " AND maker_id = ?" if maker_id else ""
        query = f"SELECT DISTINCT episode_id FROM facts WHERE name = ?{by_producer} ORDER BY episode_id"
        return [row[0] for row in self._rows(query, (name, maker_id) if maker_id else (name,))]

    def count_episodes(self, episode_ids: Sequence[str] | None = None) -> dict[str, int]:
        """Return the number of different episodes per annotation name; with ids, of these."""
        where = "" if episode_ids is None else "WHERE episode_id IN (SELECT value FROM json_each(?))"
        parameters = () if episode_ids is None else (encode_json(list(episode_ids)),)
        query = f"SELECT name, COUNT(DISTINCT episode_id) FROM facts {where} GROUP BY name ORDER BY name"
        return dict(self._rows(query, parameters))

    def count_annotations(self, maker_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of annotations by maker_id; a producer without annotations is left out."""
        query = (
            "SELECT maker_id, COUNT(*) FROM facts WHERE maker_id IN (SELECT value FROM json_each(?))"
            " GROUP BY maker_id"
        )
        return dict(self._rows(query, (encode_json(list(maker_ids)),)))

    def add_producer(self, producer: Producer) -> None:
        """Store a producer under its maker_id."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO makers VALUES (?, ?)",
                (producer.maker_id, producer_to_text(producer)),
            )

    def producers(self) -> dict[str, Producer]:
        """Return every producer by its id."""
        rows = self._rows("SELECT maker_id, body FROM makers ORDER BY maker_id")
        return {maker_id: producer_from_text(body) for maker_id, body in rows}

    def put_documents(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents in one transaction; the last write of a key wins."""
        texts, errors = serialize_documents(documents)
        rows = [(collection, key, text) for key, text in texts.items()]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        if errors:
            raise UnstorableError(errors)

    def claim_document(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several concurrent callers exactly one gets True."""
        row = (collection, key, encode_json(document))
        with self._transaction() as connection:
            cursor = connection.execute("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)", row)
            return cursor.rowcount == 1

    def get_document(self, collection: str, key: str) -> Json:
        """Return one document, or None."""
        rows = self._rows("SELECT body FROM documents WHERE collection = ? AND key = ?", (collection, key))
        return decode_json(rows[0][0]) if rows else None

    def get_documents(self, collection: str, keys: Sequence[str]) -> Iterator[Json]:
        """Yield the documents of some keys in order of key; a key that does not exist is left out."""
        query = (
            "SELECT body FROM documents WHERE collection = ?"
            " AND key IN (SELECT value FROM json_each(?)) ORDER BY key"
        )
        for (body,) in self._rows(query, (collection, encode_json(list(keys)))):
            yield decode_json(body)

    def find_documents(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Stream the documents whose key starts with `prefix`, in order of key, page by page."""
        query = "SELECT key, body FROM documents WHERE collection = ? AND key {} ? ORDER BY key LIMIT ?"
        page_size = 1
        rows = self._rows(query.format(">="), (collection, prefix, page_size))
        while rows:
            page_size = next_page_size(page_size, sum(len(body) for _, body in rows))
            for key, body in rows:
                if not key.startswith(prefix):
                    return
                yield key, decode_json(body)
            rows = self._rows(query.format(">"), (collection, rows[-1][0], page_size))

    def drop_documents(self, collection: str, keys: Iterable[str]) -> None:
        """Delete documents; a key that does not exist is ignored."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM documents WHERE collection = ? AND key = ?", [(collection, key) for key in keys]
            )

    def collections(self) -> list[str]:
        """Return the names of all collections that have documents, sorted."""
        return [row[0] for row in self._rows("SELECT DISTINCT collection FROM documents ORDER BY collection")]

    def delete_episodes(self, episode_ids: Sequence[str]) -> int:
        """Delete every annotation of some episodes in one transaction. Returns their number."""
        return self._delete_where("episode_id", episode_ids)

    def delete_annotations(self, annotation_ids: Sequence[str]) -> None:
        """Delete some annotations in one transaction."""
        self._delete_where("annotation_id", annotation_ids)

    def _delete_where(self, column: str, values: Sequence[str]) -> int:
        texts = encode_json(list(values))
        # Freed pages are overwritten with zeros.
        self._rows("PRAGMA secure_delete = ON")
        with self._transaction() as connection:
            end = str(self.last_sequence())
            connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (*_DELETED_UP_TO, end))
            cursor = connection.execute(
                f"DELETE FROM facts WHERE {column} IN (SELECT value FROM json_each(?))", (texts,)
            )
            return cursor.rowcount

    def erase_deleted(self) -> None:
        """Write the file again without free pages, and empty its write-ahead log."""
        self._rows("PRAGMA secure_delete = ON")
        self._rows("VACUUM")
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._journal = 0
            self._connection.close()

    def _connect(self) -> None:
        """Open the file, to be read alone where it cannot be written. Raises StoreError."""
        # The inode of the journal once it is in use; see `_store_errors`.
        self._journal = 0
        # Without room for the index of the journal SQLite keeps it in memory, if no other process uses the file.
        in_memory = self._is_full and _has_journal(self.path)
        reads_only = (self._is_read_only or self._is_full) and not in_memory
        with self._store_errors():
            self._connection = sqlite3.connect(
                _read_only_uri(self.path) if reads_only else self.path,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                uri=reads_only,
            )
        try:
            if in_memory:
                self._rows("PRAGMA locking_mode = EXCLUSIVE")
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _require_room(self) -> None:
        """Open a file for writing that was opened on a full disk. Raises DiskFull while there is no room."""
        self._connection.close()
        self._is_full = False
        try:
            self._connect()
        except StoreError:
            self._is_full = True
            self._connect()
            raise

    def _prepare(self) -> None:
        """Create the tables of a new file. Raises StoreError when a newer version wrote it."""
        stored_format = self._rows("PRAGMA user_version")[0][0]
        if stored_format > _FORMAT:
            raise StoreError(
                f"the annotations have format {stored_format}", f"this version of ARES reads format {_FORMAT}"
            )
        if self._is_read_only or self._is_full:
            return
        # SQLite ignores its busy timeout here when two processes create the file at once.
        deadline, mode = time.monotonic() + _BUSY_SECONDS, ""
        while not mode:
            try:
                mode = self._rows("PRAGMA journal_mode = WAL")[0][0]
            except StoreError as error:
                if "locked" not in error.detail or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        if stored_format < _FORMAT:
            with self._transaction() as connection:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        # An earlier version may have had fewer.
        for name, columns in INDEXES.items():
            self._rows(f"CREATE INDEX IF NOT EXISTS {name} ON facts ({', '.join(columns)})")
        with suppress(FileNotFoundError):
            self._journal = os.stat(f"{self.path}-wal").st_ino  # noqa: PTH116

    def _rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        interrupting = interruptible(self._connection.interrupt, sqlite3.OperationalError)
        with wait_for_lock(self._lock), self._store_errors(), interrupting:
            return self._connection.execute(query, parameters).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._is_read_only:
            raise ReadOnlyWorkspace(
                "the annotations are read-only", f"{self.path} cannot be written by this user"
            )
        with self._lock, self._store_errors():
            if self._is_full:
                self._require_room()
            if self._connection.in_transaction:  # of the same thread: a part of what is stored together
                yield self._connection
                return
            # IMMEDIATE takes the write lock at once: a later upgrade could fail instead of waiting.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn errors of the database into a StoreError; errors of ARES pass unchanged.

        Nobody would ever read what is written to a journal that another process has deleted. One that ends does so
        where it sees no lock; this process has none any more once it opens and closes the file itself, as for a copy
        of the folder (https://sqlite.org/howtocorrupt.html, 2.2).
        """
        try:
            is_deleted = self._journal and os.stat(f"{self.path}-wal").st_ino != self._journal  # noqa: PTH116
        except FileNotFoundError:
            is_deleted = self.path.exists()
        if is_deleted:
            raise StoreError(
                "another process has deleted the journal of the annotations",
                f"{self.path}-wal, as this one has read that file by other means, such as a copy of the folder; open "
                "the workspace again: what was stored before is not lost",
            )
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname in _FULL:
                raise DiskFull(
                    "the disk is full", f"{self.path}; free some space and run the same command again"
                ) from error
            raise StoreError(
                "the annotations file cannot be used",
                f"{self.path}: {error}; what was stored before is not lost",
            ) from error


def _is_read_only(path: Path) -> bool:
    """Whether an existing file, or its folder, where SQLite keeps its journal, cannot be written."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def _read_only_uri(path: Path) -> str:
    """The URI by which SQLite reads a file in a folder that it cannot write to.

    Beside a journal of a writer SQLite reads both; without one it must be promised that nobody writes, as it could not
    create the journal.
    """
    return f"{path.resolve().as_uri()}?mode=ro{'' if _has_journal(path) else '&immutable=1'}"


def _has_journal(path: Path) -> bool:
    journal = path.with_name(f"{path.name}-wal")
    return journal.exists() and journal.stat().st_size > 0


def _log_entry(row: tuple[Any, ...]) -> LogEntry:
    sequence, episode_id, name, maker_id, subject, body = row
    annotation = annotation_from_text(
        body, episode_id=episode_id, name=name, maker_id=maker_id, subject=subject
    )
    return LogEntry(sequence, annotation)
