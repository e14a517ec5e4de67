"""Reads MCAP files message by message, past damage, and decodes messages by their ROS types."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.input import decompress_lz4, decompress_zstd, input_budgets, open_input
from ares.io import describe_os_error

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Channel, Chunk, McapRecord, Message, Schema
    from numpy.typing import NDArray
    from rosbags.typesys.store import Typestore


# Types of foxglove_msgs, which are no part of ROS. Definitions inside a file are never turned into code.
_FOXGLOVE = {
    "foxglove_msgs/msg/CompressedVideo": "time timestamp\nstring frame_id\nuint8[] data\nstring format\n",
    "foxglove_msgs/msg/CompressedImage": "time timestamp\nstring frame_id\nuint8[] data\nstring format\n",
}


def ros2_definition(name: str) -> str:
    """The concatenated definition of a type of ROS 2, or "" for an unknown type.

    Raises RequestError when the library rosbags is not installed.
    """
    with needs_extra("rosbag"):
        from rosbags.typesys import TypesysError
    try:
        return _ros_typestore("LATEST").generate_msgdef(name, ros_version=2)[0]
    except (TypesysError, KeyError):
        return ""


def make_ros1_decoder(name: str, checksum: str = "") -> Callable[[bytes], Any]:
    """A decoder of ROS 1 messages, to objects with plain lists and bytes.

    Args:
        name: Type, such as "sensor_msgs/JointState".
        checksum: MD5 of its definition, as the recording states it, or "".

    The decoder raises SourceError for a type that ROS 1 Noetic does not have or defines otherwise, and for bytes that
    do not fit the type. Raises RequestError when the library rosbags is not installed.
    """
    with needs_extra("rosbag"):
        from rosbags.serde import SerdeError

    type_name = _ros2_name(name)
    problem = _type_problem(type_name, checksum)

    def decode(data: bytes) -> Any:
        if problem:
            raise SourceError(problem, name)
        try:
            return _plain_message(_ros_typestore("ROS1_NOETIC").deserialize_ros1(data, type_name))
        except (SerdeError, AssertionError) as error:
            raise SourceError("message is not what its schema says", str(error)) from None

    return decode


@functools.cache
def _ros_typestore(name: str) -> Typestore:
    """The types of a distribution of ROS, with those of foxglove_msgs."""
    with needs_extra("rosbag"):
        from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores[name])
    for type_name, text in _FOXGLOVE.items():
        definition = text.replace("time ", "builtin_interfaces/Time ")
        store.register(get_types_from_msg(definition, type_name))
    return store


def _ros2_name(name: str) -> str:
    """ "sensor_msgs/msg/JointState" for "sensor_msgs/JointState"."""
    package, _, message = name.partition("/")
    return f"{package}/msg/{message.rpartition('/')[2]}"


def _type_problem(type_name: str, checksum: str) -> str:
    """Why messages of a type cannot be decoded, or ""."""
    store = _ros_typestore("ROS1_NOETIC")
    if type_name not in store.fielddefs:
        return "its message type is not one of ROS 1"
    expected = store.generate_msgdef(type_name, ros_version=1)[1]
    return "" if checksum in ("", "*", expected) else "its message type is not defined as in ROS 1 Noetic"


def _plain_message(message: Any) -> SimpleNamespace:
    """The fields of a message: numbers as lists, bytes as bytes, nested messages as they are."""
    fields: Mapping[str, Any] = {
        name: getattr(message, name) for name in message.__dataclass_fields__ if name != "__msgtype__"
    }
    return SimpleNamespace(**{name: _plain_value(value) for name, value in fields.items()})


def _plain_value(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray):
        return value
    return value.tobytes() if value.dtype == np.uint8 else value.tolist()


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


def read_metadata(path: str, name: str) -> list[dict[str, str]]:
    """The Metadata records of a name, in file order; chunks are skipped without reading them.

    Records behind a cut are lost. Raises SourceError when the file is missing, empty or not an MCAP file.
    """
    with needs_extra("mcap"):
        from mcap.opcode import Opcode
        from mcap.records import Metadata

    records = (record for _, group in _record_groups(path, [], {Opcode.METADATA}) for record in group)
    return [record.metadata for record in records if isinstance(record, Metadata) and record.name == name]


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


class MessageDecoders:
    """The decoders of the channels of one file."""

    def __init__(self) -> None:
        with needs_extra("mcap"):
            from mcap_protobuf.decoder import DecoderFactory as Protobuf
            from mcap_ros2.decoder import DecoderFactory as Ros2

        self._factories = (Ros2(), Protobuf())
        self._decoders: dict[int, Callable[[bytes], Any]] = {}

    def decoder_for(self, entry: McapMessage) -> Callable[[bytes], Any]:
        """The decoder of a message's channel. Raises SourceError where its encoding or schema is not supported."""
        channel, schema = entry.channel, entry.schema
        if channel.id not in self._decoders:
            if schema and schema.encoding == "ros2msg" and b"---" in schema.data.splitlines():
                raise SourceError("its schema cannot be parsed", f"{schema.name} is a service, not a message")
            decoder = self._make_decoder(channel, schema)
            if decoder is None:
                raise SourceError(
                    "its message encoding is not known",
                    f"{channel.message_encoding!r} with schema encoding {schema.encoding if schema else ''!r}",
                )
            self._decoders[channel.id] = decoder
        return self._decoders[channel.id]

    def _make_decoder(self, channel: Channel, schema: Schema | None) -> Callable[[bytes], Any] | None:
        """A decoder by the first factory that knows the encoding. Raises SourceError for a broken schema."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from mcap.exceptions import McapError
        from mcap_ros2._vendor.rosidl_adapter.parser import InvalidSpecification, InvalidValue

        if channel.message_encoding == "ros1" and schema and schema.encoding == "ros1msg":
            return make_ros1_decoder(schema.name, channel.metadata.get("md5sum", ""))
        try:
            decoders = (factory.decoder_for(channel.message_encoding, schema) for factory in self._factories)
            return next((decoder for decoder in decoders if decoder is not None), None)
        except (
            McapError, InvalidSpecification, InvalidValue, DecodeError,
            ValueError, TypeError, NameError, KeyError, IndexError, NotImplementedError, RecursionError,
        ) as error:  # fmt: skip
            name = schema.name if schema else ""
            raise SourceError(
                "its schema cannot be parsed", f"{name}: {type(error).__name__}({error})"
            ) from None


def decode_message(decoder: Callable[[bytes], Any], data: bytes) -> Any:
    """Decode a message. Raises SourceError when the bytes do not follow the schema."""
    from google.protobuf.message import DecodeError
    from mcap.exceptions import McapError

    try:
        return decoder(data)
    except (
        McapError, DecodeError, struct.error, EOFError, ValueError, IndexError, KeyError, TypeError,
        NotImplementedError, MemoryError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise SourceError("message is not what its schema says", f"{type(error).__name__}({error})") from None


def require_fields(message: Any, fields: Mapping[str, type]) -> None:
    """Check the fields of a message: schemas differ between versions, and may be damaged.

    Raises SourceError naming the first field that is missing or of another type.
    """
    for name, kind in fields.items():
        if not isinstance(getattr(message, name, None), kind):
            raise SourceError("its schema lacks a field of its type", f"{name}: {kind.__name__}")


def header_time(message: Any) -> int | None:
    """Nanoseconds of a message's timestamp (ROS header, Foxglove timestamp), or None when it has none."""
    header = getattr(message, "header", None)
    stamp = getattr(message, "timestamp", None) if header is None else getattr(header, "stamp", None)
    for seconds_name, nanoseconds_name in (("sec", "nanosec"), ("seconds", "nanos")):
        seconds, nanoseconds = getattr(stamp, seconds_name, None), getattr(stamp, nanoseconds_name, None)
        if isinstance(seconds, int) and isinstance(nanoseconds, int):
            return _clamp_time(seconds * 10**9 + nanoseconds)
    return None


def message_times(
    header_times: Sequence[int | None], publish_times: Sequence[int]
) -> tuple[NDArray[np.int64], bool]:
    """The times of the messages of a topic in nanoseconds, and whether they are the messages' own.

    A topic has one clock: where one own timestamp is missing or 0, all go by their times of publication.
    """
    import numpy as np

    has_header_times = all(header_times)
    return np.array(header_times if has_header_times else publish_times, np.int64), has_header_times


def publish_time(message: Message) -> int:
    """Nanoseconds at which a message was published, or logged where the time of publication is missing."""
    return _clamp_time(message.publish_time or message.log_time)


def _clamp_time(nanoseconds: int) -> int:
    """A time whose difference from any other is an int64; only damage gives one beyond the year 2116."""
    return max(min(nanoseconds, 2**62), -(2**62))
