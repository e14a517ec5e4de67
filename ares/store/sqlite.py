"""SqliteStore: the annotation log in one file (WAL), for many threads and several processes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ares.annotation import Annotation, Maker
from ares.episode import Json
from ares.errors import StoreError
from ares.store import codec
from ares.store.annotations import INDEXES, Logged

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
_FACT = "facts.sequence, facts.episode_id, facts.name, facts.maker_id, facts.subject, facts.body"


class SqliteStore:
    """An AnnotationStore in a file; one connection behind a lock, writers of other processes are waited for.

    Args:
        path: The file; made when it is not there, its folder must exist.

    Raises:
        StoreError: The file cannot be opened, is no database, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # A file does not go away; other writers are waited for in any case.
        self.patience_seconds = 0.0
        self._lock = threading.RLock()
        with self._readable():
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __repr__(self) -> str:
        return f"SqliteStore({str(self.path)!r})"

    def append(self, annotations: Sequence[Annotation | codec.Row]) -> int:
        """Store facts in one transaction, ignoring those already there; the log's last sequence number.

        Raises:
            Refused: Some can be held by no store; all others are stored.
            StoreError: The file cannot be written; nothing of this call is stored then.
        """
        rows, refused = codec.to_rows(annotations)
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO facts (annotation_id, episode_id, name, maker_id, subject, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            last = self.last_sequence()
        if refused:
            raise codec.Refused(refused)
        return last

    def read(self, after: int = 0, limit: int = 10_000) -> list[Logged]:
        """Facts with a sequence number above `after`, in order."""
        rows = self._rows(
            f"SELECT {_FACT} FROM facts WHERE sequence > ? ORDER BY sequence LIMIT ?", (after, limit)
        )
        return [_logged(row) for row in rows]

    def last_sequence(self) -> int:
        """Sequence number of the newest fact; 0 for an empty log."""
        return int(self._rows("SELECT COALESCE(MAX(sequence), 0) FROM facts")[0][0])

    def done(self, maker_id: str, subjects: Sequence[str]) -> set[str]:
        """Of these subjects, those that this maker has already done."""
        query = "SELECT subject FROM facts WHERE maker_id = ? AND subject IN (SELECT value FROM json_each(?))"
        return {row[0] for row in self._rows(query, (maker_id, codec.to_text(list(subjects))))}

    def made(self, episode_ids: Sequence[str], name: str) -> list[str]:
        """The annotation_id of each fact of that name about these episodes."""
        query = (
            "SELECT annotation_id FROM facts WHERE name = ?"
            " AND episode_id IN (SELECT value FROM json_each(?))"
        )
        return [row[0] for row in self._rows(query, (name, codec.to_text(list(episode_ids))))]

    def about(self, episode_ids: Sequence[str], names: Sequence[str] = ()) -> list[Annotation]:
        """Facts about these episodes in order of the log, of the given names only when there are any."""
        # As JSON the ids are one parameter, however many they are.
        query = (
            f"SELECT {_FACT} FROM facts WHERE episode_id IN (SELECT value FROM json_each(?))"
            " AND (? OR name IN (SELECT value FROM json_each(?))) ORDER BY sequence"
        )
        given = (codec.to_text(list(episode_ids)), not names, codec.to_text(list(names)))
        return [_logged(row).annotation for row in self._rows(query, given)]

    def counts(self) -> dict[str, int]:
        """Number of different episodes per annotation name."""
        return dict(
            self._rows("SELECT name, COUNT(DISTINCT episode_id) FROM facts GROUP BY name ORDER BY name")
        )

    def add_maker(self, maker: Maker) -> None:
        """Remember what a maker_id stands for."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO makers VALUES (?, ?)", (maker.maker_id, codec.maker_to_text(maker))
            )

    def makers(self) -> dict[str, Maker]:
        """Every maker by its id."""
        rows = self._rows("SELECT maker_id, body FROM makers ORDER BY maker_id")
        return {maker_id: codec.maker_from_text(body) for maker_id, body in rows}

    def put(self, collection: str, documents: Mapping[str, Json]) -> None:
        """Write keyed documents in one transaction; the last write of a key wins."""
        texts, refused = codec.to_texts(documents)
        rows = [(collection, key, text) for key, text in texts.items()]
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", rows)
        if refused:
            raise codec.Refused(refused)

    def claim(self, collection: str, key: str, document: Json) -> bool:
        """Write a document if its key is free; of several who try at once one is told True."""
        row = (collection, key, codec.to_text(document))
        with self._transaction() as connection:
            written = connection.execute("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)", row)
            return written.rowcount == 1

    def get(self, collection: str, key: str) -> Json:
        """One document, or None."""
        rows = self._rows("SELECT body FROM documents WHERE collection = ? AND key = ?", (collection, key))
        return codec.from_text(rows[0][0]) if rows else None

    def find(self, collection: str, prefix: str = "") -> Iterator[tuple[str, Json]]:
        """Documents whose key starts with `prefix`, in order of key, a page at a time."""
        query = "SELECT key, body FROM documents WHERE collection = ? AND key {} ? ORDER BY key LIMIT ?"
        size = 1
        rows = self._rows(query.format(">="), (collection, prefix, size))
        while rows:
            size = codec.next_page(size, sum(len(body) for _, body in rows))
            for key, body in rows:
                if not key.startswith(prefix):
                    return
                yield key, codec.from_text(body)
            rows = self._rows(query.format(">"), (collection, rows[-1][0], size))

    def drop(self, collection: str, keys: Iterable[str]) -> None:
        """Remove documents; a key that is not there is no error."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM documents WHERE collection = ? AND key = ?", [(collection, key) for key in keys]
            )

    def missing_indexes(self) -> list[str]:
        """Names of declared indexes that the file lacks."""
        there = {row[0] for row in self._rows("SELECT name FROM sqlite_schema WHERE type = 'index'")}
        return [name for name in INDEXES if name not in there]

    def make_indexes(self) -> None:
        """Make the declared indexes that the file lacks."""
        with self._transaction() as connection:
            _index(connection)

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        found = self._rows("PRAGMA user_version")[0][0]
        if found > _FORMAT:
            raise StoreError(
                f"the annotations have format {found}", f"this version of ARES reads format {_FORMAT}"
            )
        self._use_wal()
        if found < _FORMAT:
            with self._transaction() as connection:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                _index(connection)
                connection.execute(f"PRAGMA user_version = {_FORMAT}")

    def _use_wal(self) -> None:
        # SQLite does not wait for its busy timeout here when two processes make the file at once.
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            try:
                self._rows("PRAGMA journal_mode = WAL")
                return
            except StoreError as error:
                if "locked" not in error.detail or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _rows(self, query: str, given: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock, self._readable():
            return self._connection.execute(query, given).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._readable():
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
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.DatabaseError as error:
            raise StoreError(
                "the annotations file cannot be used", f"{self.path}: {error}; nothing stored before is lost"
            ) from error


def _index(connection: sqlite3.Connection) -> None:
    for name, columns in INDEXES.items():
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON facts ({', '.join(columns)})")


def _logged(row: tuple[Any, ...]) -> Logged:
    sequence, episode_id, name, maker_id, subject, body = row
    fact = codec.fact_from_text(body, episode_id=episode_id, name=name, maker_id=maker_id, subject=subject)
    return Logged(sequence, fact)
