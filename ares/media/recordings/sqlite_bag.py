"""Messages of a rosbag2 file in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.input import connect_sqlite, decompress_zstd
from ares.io import is_url
from ares.media.recordings.container import (
    DAMAGED_WARNING,
    TRUNCATED_WARNING,
    McapMessage,
    open_recording_file,
)
from ares.media.recordings.ros_types import ros2_definition

if TYPE_CHECKING:
    from mcap.records import Channel, Message, Schema


LOG_WARNING = "the recorder was killed; its messages in the file .db3-wal are not read"

_SIGNATURE = b"SQLite format 3\x00"

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_MAX_MESSAGE_BYTES = 2**30

_MESSAGES = "SELECT id, topic_id, timestamp, data FROM messages"


def scan_sqlite_bag(path: str, warnings: list[str]) -> Iterator[McapMessage]:
    """Yield every message in the order of recording. The location of a message is its row.

    Damage ends the messages and adds a warning. Raises SourceError when the file is missing, empty, remote, or no
    SQLite file of rosbag2.
    """
    with SqliteBag(path) as bag:
        topics = bag.topics()
        if _write_ahead_bytes(path):
            warnings.append(LOG_WARNING)
        try:
            for row, topic, time, data in bag.rows():
                if topic not in topics or not isinstance(data, bytes) or not isinstance(time, int):
                    warnings.append(DAMAGED_WARNING)
                    continue
                channel, schema = topics[topic]
                yield McapMessage(channel, schema, _make_sqlite_message(topic, time, data), row, 0)
        except sqlite3.Error:
            warnings.append(TRUNCATED_WARNING)
        except SourceError:
            warnings.append(DAMAGED_WARNING)


class SqliteBag:
    """An open SQLite file of rosbag2. It is opened read-only and without locks, and stays as it is."""

    def __init__(self, path: str) -> None:
        if is_url(path):
            raise SourceError("db3 recordings are read from local disks only", f"{path}: copy it first")
        self._path = path
        with open_recording_file(path) as file:
            start = file.read(len(_SIGNATURE))
        if start != _SIGNATURE:
            reason = "file is not an SQLite file" if start else "file is empty"
            raise SourceError(reason, f"{path}: begins with {start!r}")
        self._connection = connect_sqlite(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def topics(self) -> dict[int, tuple[Channel, Schema]]:
        """Channel and schema by topic number. Raises SourceError for a file that rosbag2 has not written."""
        with needs_extra("mcap"):
            from mcap.records import Channel, Schema

        try:
            definitions = self._definitions()
            rows = self._connection.execute(
                "SELECT id, name, type, serialization_format FROM topics"
            ).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise SourceError("SQLite file is no recording of rosbag2", f"{self._path}: {error}") from None
        topics = {}
        for number, name, kind, encoding in rows:
            if not isinstance(name, str) or not isinstance(kind, str):
                raise SourceError("SQLite file is no recording of rosbag2", f"{self._path}: topic {name!r}")
            data = (definitions.get(kind) or ros2_definition(kind)).encode()
            schema = Schema(id=number, name=kind, encoding="ros2msg", data=data)
            channel = Channel(
                id=number, topic=name, message_encoding=str(encoding), metadata={}, schema_id=number
            )
            topics[number] = (channel, schema)
        return topics

    def _definitions(self) -> dict[str, str]:
        """Message definitions by type, which recordings since ROS 2 Iron have; raises sqlite3.Error."""
        kinds = dict(self._connection.execute("SELECT name, type FROM sqlite_master").fetchall())
        for name in ("topics", "messages"):
            if kinds.get(name) != "table":
                raise sqlite3.DatabaseError(f"no table {name!r}")
        if kinds.get("message_definitions") != "table":
            return {}
        query = "SELECT topic_type, encoded_message_definition FROM message_definitions WHERE encoding = 'ros2msg'"
        return {
            kind: text for kind, text in self._connection.execute(query) if isinstance(text, str) and text
        }

    def rows(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield row, topic number, nanoseconds and bytes of each message. Raises sqlite3.Error at damage."""
        for row, topic, time, data in self._connection.execute(f"{_MESSAGES} ORDER BY id"):
            yield row, topic, time, _decompress_message(data)

    def messages(self, row: int) -> list[Message]:
        """The message of a row. Raises SourceError when it cannot be read."""
        try:
            rows = self._connection.execute(f"{_MESSAGES} WHERE id = ?", (row,)).fetchall()
        except sqlite3.Error as error:
            raise SourceError("file is cut or damaged", f"{self._path}: {error}") from None
        return [_make_sqlite_message(topic, time, _decompress_message(data)) for _, topic, time, data in rows]


def _make_sqlite_message(topic: int, time: int, data: bytes) -> Message:
    from mcap.records import Message

    return Message(channel_id=topic, log_time=time, publish_time=time, sequence=0, data=data)


def _decompress_message(data: bytes) -> bytes:
    """The bytes of a message; rosbag2's compression mode "message" packs each. Raises SourceError."""
    if not isinstance(data, bytes) or not data.startswith(_ZSTD_MAGIC):
        return data
    return decompress_zstd(data, "message", _MAX_MESSAGE_BYTES)


def _write_ahead_bytes(path: str) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.is_file() else 0
