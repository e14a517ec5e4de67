"""Messages of MCAP files, read past damage."""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.input import decompress_lz4, decompress_zstd, input_budgets, open_input
from ares.io import describe_os_error

if TYPE_CHECKING:
    from mcap.records import Channel, Chunk, McapRecord, Message, Schema


TRUNCATED_WARNING = "file is truncated; the messages before the cut were read"
DAMAGED_WARNING = "a chunk is damaged; its messages are lost"

_MAGIC = b"\x89MCAP0\r\n"
# Opcode (uint8) and length (uint64) before each record.
_HEADER_BYTES = 9


class McapMessage(NamedTuple):
    """A message with its location: byte of its chunk (or of the message itself), and its number in the chunk."""

    channel: Channel
    schema: Schema | None
    message: Message
    chunk_offset: int
    number_in_chunk: int


def scan_mcap(path: str, warnings: list[str]) -> Iterator[McapMessage]:
    """Yield every message in file order, without the summary that a truncated file lacks.

    Unreadable parts are skipped and add TRUNCATED_WARNING or DAMAGED_WARNING to `warnings`. Raises SourceError when
    the file is missing, empty or not an MCAP file.
    """
    with needs_extra("mcap"):
        from mcap.opcode import Opcode
        from mcap.records import Channel, Message, Schema

    opcodes = {Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK}
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    for offset, records in _record_groups(path, warnings, opcodes):
        number = 0
        for record in records:
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message):
                channel = channels.get(record.channel_id)
                if channel is None:
                    warnings.append(DAMAGED_WARNING)
                else:
                    yield McapMessage(channel, schemas.get(channel.schema_id), record, offset, number)
                number += 1


def read_metadata(path: str) -> list[tuple[str, dict[str, str]]]:
    """Name and fields of the Metadata records, in file order; chunks are skipped without reading them.

    Records behind a cut are lost. Raises SourceError when the file is missing, empty or not an MCAP file.
    """
    with needs_extra("mcap"):
        from mcap.opcode import Opcode
        from mcap.records import Metadata

    records = (record for _, group in _record_groups(path, [], {Opcode.METADATA}) for record in group)
    return [(record.name, record.metadata) for record in records if isinstance(record, Metadata)]


def read_mcap_messages(file: Any, offset: int) -> list[Message]:
    """The messages, in order, of the chunk (or the single message) that begins at a byte of an open file.

    Raises SourceError when they cannot be read.
    """
    with needs_extra("mcap"):
        from mcap.records import Message

    file.seek(offset)
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        raise SourceError("file is cut", f"byte {offset}")
    opcode, length = struct.unpack("<BQ", header)
    return [record for record in _parse_record(opcode, file.read(length)) if isinstance(record, Message)]


def _record_groups(
    path: str, warnings: list[str], opcodes: Collection[int]
) -> Iterator[tuple[int, list[McapRecord]]]:
    """Yield the records of some opcodes grouped by chunk: first byte of the chunk, and its records."""
    from mcap.opcode import Opcode

    with open_recording_file(path) as file:
        magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            reason = "file is not an MCAP file" if magic else "file is empty"
            raise SourceError(reason, f"{path}: begins with {magic!r}")
        size = file.seek(0, io.SEEK_END)
        offset = len(_MAGIC)
        while True:
            file.seek(offset)
            header = file.read(_HEADER_BYTES)
            opcode, length = struct.unpack("<BQ", header) if len(header) == _HEADER_BYTES else (0, 0)
            if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                return
            if opcode == 0 or offset + _HEADER_BYTES + length > size:
                warnings.append(TRUNCATED_WARNING)
                return
            if opcode in opcodes:
                try:
                    yield offset, _parse_record(opcode, file.read(length))
                except SourceError:
                    warnings.append(DAMAGED_WARNING)
            offset += _HEADER_BYTES + length


def open_recording_file(path: str) -> Any:
    """Open a file for reading bytes. Raises SourceError when it is missing or cannot be read."""
    try:
        return open_input(path)
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None


def _parse_record(opcode: int, body: bytes) -> list[McapRecord]:
    """The record of a known opcode, or all records of a chunk. Raises SourceError when it is damaged."""
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
    from mcap.records import Channel, Chunk, Message, Metadata, Schema
    from mcap.stream_reader import breakup_chunk
    from zstandard import ZstdError

    stream = ReadDataStream(io.BytesIO(body))
    try:
        if opcode == Opcode.CHUNK:
            return breakup_chunk(_unpack_chunk(Chunk.read(stream)), validate_crc=True)
        if opcode == Opcode.MESSAGE:
            return [Message.read(stream, len(body))]
        if opcode == Opcode.METADATA:
            return [Metadata.read(stream)]
        return [Schema.read(stream) if opcode == Opcode.SCHEMA else Channel.read(stream)]
    except (
        McapError, ZstdError, struct.error, ValueError, RuntimeError, MemoryError, OverflowError,
    ) as error:  # fmt: skip
        raise SourceError("chunk is damaged", str(error)) from None


def _unpack_chunk(chunk: Chunk) -> Chunk:
    """A chunk without compression: the library would unpack more bytes than it declares. Raises SourceError."""
    limit = input_budgets().array_bytes
    if chunk.uncompressed_size > limit:
        raise SourceError("chunk is too large", f"{chunk.uncompressed_size} of {limit} bytes")
    if chunk.compression == "zstd":
        data = decompress_zstd(chunk.data, "chunk", chunk.uncompressed_size)
    elif chunk.compression == "lz4":
        data = decompress_lz4(chunk.data, "chunk", chunk.uncompressed_size)
    else:
        return chunk
    return replace(chunk, compression="", data=data)
