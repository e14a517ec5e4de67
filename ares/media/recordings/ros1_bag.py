"""Messages of a ROS 1 bag file (format 2.0)."""

from __future__ import annotations

import bz2
import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.media.recordings.container import (
    DAMAGED_WARNING,
    TRUNCATED_WARNING,
    McapMessage,
    open_recording_file,
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
