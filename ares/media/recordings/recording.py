"""Reads the messages of any recording (MCAP, ROS 1 bag, rosbag2 in SQLite) by one interface."""

from __future__ import annotations

import bz2
import io
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.input import connect_sqlite, decompress_zstd
from ares.io import is_url
from ares.media.recordings.container import (
    DAMAGED_WARNING,
    TRUNCATED_WARNING,
    McapMessage,
    open_recording_file,
    read_mcap_messages,
    ros2_definition,
    scan_mcap,
)

if TYPE_CHECKING:
    from mcap.records import Channel, Message, Schema


_MAGIC = b"#ROSBAG V2.0\n"
_MESSAGE, _CHUNK, _CONNECTION = 2, 5, 7
_LENGTH = struct.Struct("<I")
# Headers hold a few short fields; only damage gives longer ones.
_MAX_HEADER_BYTES = 2**20
_MAX_CHUNK_BYTES = 2**30


class _BagRecord(NamedTuple):
    """A record: its first byte in the file, the fields of its header, and its data."""

    offset: int
    header: Any
    data: bytes

    @property
    def kind(self) -> int:
        kind: int = self.header.get_uint8("op")
        return kind


def scan_ros1_bag(path: str, warnings: list[str]) -> Iterator[McapMessage]:
    """Yield every message in file order, without the index that a bag of a killed recorder lacks.

    Unreadable parts are skipped and add TRUNCATED_WARNING or DAMAGED_WARNING to `warnings`. Raises SourceError when
    the file is missing, empty or no ROS 1 bag.
    """
    channels: dict[int, tuple[Channel, Schema]] = {}
    with open_recording_file(path) as file:
        _check_magic(file, path)
        for record in _read_bag_records(file, warnings):
            try:
                parts = _chunk_records(record, warnings) if record.kind == _CHUNK else [record]
                yield from _chunk_messages(parts, record.offset, channels, warnings)
            except SourceError:
                warnings.append(DAMAGED_WARNING)


class Ros1Bag:
    """An open ROS 1 bag, whose messages are read by the chunk that holds them."""

    def __init__(self, path: str) -> None:
        self._file = open_recording_file(path)
        try:
            _check_magic(self._file, path)
        except SourceError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def messages(self, offset: int) -> list[Message]:
        """The messages, in order, of the chunk (or the single message) that begins at a byte.

        Raises SourceError when they cannot be read.
        """
        self._file.seek(offset)
        record = next(_read_bag_records(self._file, []), None)
        if record is None:
            raise SourceError("file is cut", f"byte {offset}")
        parts = _chunk_records(record, []) if record.kind == _CHUNK else [record]
        return [_parse_bag_message(part) for part in parts if part.kind == _MESSAGE]


def _check_magic(file: Any, path: str) -> None:
    magic = file.read(len(_MAGIC))
    if magic != _MAGIC:
        reason = "file is not a ROS 1 bag" if magic else "file is empty"
        raise SourceError(reason, f"{path}: begins with {magic!r}")


def _chunk_messages(
    records: list[_BagRecord],
    offset: int,
    channels: dict[int, tuple[Channel, Schema]],
    warnings: list[str],
) -> Iterator[McapMessage]:
    """Yield the messages of a chunk, or of a single record, and collect its connections."""
    number = 0
    for record in records:
        if record.kind == _CONNECTION:
            channel, schema = _parse_bag_connection(record)
            channels[channel.id] = (channel, schema)
        elif record.kind == _MESSAGE:
            message = _parse_bag_message(record)
            if message.channel_id in channels:
                yield McapMessage(*channels[message.channel_id], message, offset, number)
            else:
                warnings.append(DAMAGED_WARNING)
            number += 1


def _read_bag_records(file: Any, warnings: list[str]) -> Iterator[_BagRecord]:
    """Yield the records of an open file, or of a chunk, from where it stands."""
    with needs_extra("rosbag"):
        from rosbags.rosbag1.reader import Header, ReaderError

    start = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(start)
    while (offset := file.tell()) < size:
        try:
            if _read_length(file) > _MAX_HEADER_BYTES:
                warnings.append(TRUNCATED_WARNING)
                return
            file.seek(offset)
            header = Header.read(file)
            kind, length = header.get_uint8("op"), _read_length(file)
        except (ReaderError, struct.error, UnicodeDecodeError):
            warnings.append(TRUNCATED_WARNING)
            return
        if file.tell() + length > size:
            warnings.append(TRUNCATED_WARNING)
            return
        if kind in (_MESSAGE, _CHUNK, _CONNECTION):
            yield _BagRecord(offset, header, file.read(length))
        else:
            file.seek(length, io.SEEK_CUR)


def _read_length(file: Any) -> int:
    length: int = _LENGTH.unpack(file.read(_LENGTH.size))[0]
    return length


def _chunk_records(record: _BagRecord, warnings: list[str]) -> list[_BagRecord]:
    """The records of a chunk. Raises SourceError when it is damaged."""
    with _translate_bag_errors():
        compression, size = record.header.get_string("compression"), record.header.get_uint32("size")
        if size > _MAX_CHUNK_BYTES:
            raise SourceError("chunk is too large", f"{size} bytes, at most {_MAX_CHUNK_BYTES}")
        data = _decompress_chunk(compression, record.data, size)
    if len(data) != size:
        raise SourceError("chunk is damaged", f"{len(data)} bytes, not {size}")
    return list(_read_bag_records(io.BytesIO(data), warnings))


def _decompress_chunk(compression: str, data: bytes, size: int) -> bytes:
    """The bytes of a chunk, no more than its header states."""
    if compression == "none":
        return data
    if compression == "bz2":
        return bz2.BZ2Decompressor().decompress(data, size)
    if compression == "lz4":
        with needs_extra("rosbag"):
            import lz4.frame  # type: ignore[import-untyped]

        decompressed: bytes = lz4.frame.LZ4FrameDecompressor().decompress(data, size)
        return decompressed
    raise SourceError("chunk is of an unknown compression", repr(compression))


def _parse_bag_connection(record: _BagRecord) -> tuple[Channel, Schema]:
    """The topic and type of a connection record. Raises SourceError when it is damaged."""
    with needs_extra("rosbag"):
        from rosbags.rosbag1.reader import Header
    with needs_extra("mcap"):
        from mcap.records import Channel, Schema

    with _translate_bag_errors():
        fields = Header.read(io.BytesIO(_LENGTH.pack(len(record.data)) + record.data))
        number = record.header.get_uint32("conn")
        definition = fields["message_definition"]
        channel = Channel(
            id=number,
            topic=record.header.get_string("topic"),
            message_encoding="ros1",
            metadata={"md5sum": fields.get_string("md5sum")},
            schema_id=number,
        )
        schema = Schema(id=number, name=fields.get_string("type"), encoding="ros1msg", data=definition)
    return channel, schema


def _parse_bag_message(record: _BagRecord) -> Message:
    """The message of a record; its time is that at which the recorder received it. Raises SourceError."""
    from mcap.records import Message

    with _translate_bag_errors():
        time, number = record.header.get_time("time"), record.header.get_uint32("conn")
    return Message(channel_id=number, log_time=time, publish_time=time, sequence=0, data=record.data)


@contextmanager
def _translate_bag_errors() -> Iterator[None]:
    """Turn what damaged headers and chunks raise into a SourceError."""
    with needs_extra("rosbag"):
        from rosbags.rosbag1.reader import ReaderError

    try:
        yield
    except (ReaderError, KeyError, OSError, RuntimeError, ValueError, EOFError, MemoryError) as error:
        raise SourceError("chunk is damaged", str(error)) from None


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


_SQLITE_SUFFIX = ".db3"
_ROS1_SUFFIXES = (".bag", ".bag.active")


class OpenRecording(Protocol):
    """A file of a recording that is open for reading."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def messages(self, offset: int) -> list[Message]:
        """The messages at a location that `scan_messages` gave. Raises SourceError."""


def scan_messages(path: str, warnings: list[str]) -> Iterator[McapMessage]:
    """Yield every message of a file in file order; unreadable parts are skipped and add a warning.

    Raises SourceError when the file is missing, empty or not what its suffix says; RequestError where its format
    needs a library that is not installed.
    """
    name = path.lower()
    if name.endswith(_SQLITE_SUFFIX):
        return scan_sqlite_bag(path, warnings)
    return scan_ros1_bag(path, warnings) if name.endswith(_ROS1_SUFFIXES) else scan_mcap(path, warnings)


def open_recording(path: str) -> OpenRecording:
    """Open a file of a recording for reading messages by their location. Raises SourceError."""
    name = path.lower()
    if name.endswith(_SQLITE_SUFFIX):
        return SqliteBag(path)
    return Ros1Bag(path) if name.endswith(_ROS1_SUFFIXES) else _McapFile(path)


class _McapFile:
    """An open MCAP file."""

    def __init__(self, path: str) -> None:
        self._file: Any = open_recording_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def messages(self, offset: int) -> list[Message]:
        """The messages of the chunk that begins at a byte."""
        return read_mcap_messages(self._file, offset)
