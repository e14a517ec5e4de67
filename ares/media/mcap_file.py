"""MCAP containers: their messages in the order of the file, past damage, with their stamps and decoders."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ares import files
from ares.errors import SourceError

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Channel, McapRecord, Message, Schema
    from numpy.typing import NDArray

ROSBAG = "metadata.yaml"
CUT = "file is cut; what stands before the cut was read"
DAMAGED = "a chunk is damaged; its messages are lost"

_MAGIC = b"\x89MCAP0\r\n"
_HEAD_BYTES = 9


class Heard(NamedTuple):
    """A message of a file and where it stands: byte of its chunk (or of itself), and its number in the chunk."""

    channel: Channel
    schema: Schema | None
    message: Message
    offset: int
    number: int


def files_of(uri: str) -> list[str]:
    """The files of a recording: an MCAP file itself, or those that rosbag2's metadata.yaml lists, in their order.

    Raises SourceError for a metadata.yaml that cannot be read, or lists a file outside its folder.
    """
    path = files.place(uri)
    if path.name != ROSBAG:
        return [uri]
    names = _listed(path)
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise SourceError("a file of the recording lies outside its folder", f"{uri}: {outside[0]!r}")
    return [str(path.parent / name) for name in names]


def _listed(path: Path) -> list[str]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SourceError("metadata.yaml cannot be read", f"{path}: {files.words(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SourceError("metadata.yaml is not YAML", f"{path}: {error}") from None
    facts = document.get("rosbag2_bagfile_information") if isinstance(document, dict) else None
    names = facts.get("relative_file_paths") if isinstance(facts, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise SourceError("metadata.yaml lists no files", f"{path}: rosbag2_bagfile_information")
    return names


def scan(path: str, damage: list[str]) -> Iterator[Heard]:
    """Every message, in the order of the file, found without the summary that a cut file lacks.

    What cannot be read is left out and said in `damage` (CUT, DAMAGED). Raises SourceError when the file is
    missing, empty or no MCAP.
    """
    from mcap.opcode import Opcode
    from mcap.records import Channel, Message, Schema

    wanted = {Opcode.SCHEMA, Opcode.CHANNEL, Opcode.MESSAGE, Opcode.CHUNK}
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    for offset, records in _groups(path, damage, wanted):
        number = 0
        for record in records:
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                channels[record.id] = record
            elif isinstance(record, Message):
                channel = channels.get(record.channel_id)
                if channel is None:
                    damage.append(DAMAGED)
                else:
                    yield Heard(channel, schemas.get(channel.schema_id), record, offset, number)
                number += 1


def metadata_of(path: str, name: str) -> list[dict[str, str]]:
    """The Metadata records of that name, in the order of the file; chunks are stepped over, not read.

    What stands behind a cut is lost. Raises SourceError when the file is missing, empty or no MCAP.
    """
    from mcap.opcode import Opcode
    from mcap.records import Metadata

    records = (record for _, found in _groups(path, [], {Opcode.METADATA}) for record in found)
    return [record.metadata for record in records if isinstance(record, Metadata) and record.name == name]


def messages_at(file: Any, offset: int) -> list[Message]:
    """The messages of the chunk (or the one message) that begins at a byte of an open file, in their order.

    Raises SourceError when they cannot be read.
    """
    from mcap.records import Message

    file.seek(offset)
    head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES:
        raise SourceError("file is cut", f"byte {offset}")
    opcode, length = struct.unpack("<BQ", head)
    return [record for record in _parsed(opcode, file.read(length)) if isinstance(record, Message)]


def _groups(path: str, damage: list[str], wanted: Collection[int]) -> Iterator[tuple[int, list[McapRecord]]]:
    """Records of the kinds wanted by the chunk they stand in: its first byte, and the records."""
    from mcap.opcode import Opcode

    with opened(path) as file:
        head = file.read(len(_MAGIC))
        if head != _MAGIC:
            raise SourceError("file is no MCAP" if head else "file is empty", f"{path}: begins with {head!r}")
        size = file.seek(0, io.SEEK_END)
        offset = len(_MAGIC)
        while True:
            file.seek(offset)
            head = file.read(_HEAD_BYTES)
            opcode, length = struct.unpack("<BQ", head) if len(head) == _HEAD_BYTES else (0, 0)
            if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                return
            if opcode == 0 or offset + _HEAD_BYTES + length > size:
                damage.append(CUT)
                return
            if opcode in wanted:
                try:
                    yield offset, _parsed(opcode, file.read(length))
                except SourceError:
                    damage.append(DAMAGED)
            offset += _HEAD_BYTES + length


def opened(path: str) -> Any:
    """A file to read bytes from. Raises SourceError when it is missing or cannot be read."""
    try:
        return files.opened(path)
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {files.words(error)}") from None


def _parsed(opcode: int, body: bytes) -> list[McapRecord]:
    """What a record of a known kind holds. Raises SourceError when it is damaged."""
    from mcap.data_stream import ReadDataStream
    from mcap.exceptions import McapError
    from mcap.opcode import Opcode
    from mcap.records import Channel, Chunk, Message, Metadata, Schema
    from mcap.stream_reader import breakup_chunk
    from zstandard import ZstdError

    stream = ReadDataStream(io.BytesIO(body))
    try:
        if opcode == Opcode.CHUNK:
            return breakup_chunk(Chunk.read(stream), validate_crc=True)
        if opcode == Opcode.MESSAGE:
            return [Message.read(stream, len(body))]
        if opcode == Opcode.METADATA:
            return [Metadata.read(stream)]
        return [Schema.read(stream) if opcode == Opcode.SCHEMA else Channel.read(stream)]
    except (
        McapError,
        ZstdError,
        struct.error,
        ValueError,
        RuntimeError,
        MemoryError,
        OverflowError,
    ) as error:
        raise SourceError("chunk is damaged", str(error)) from None


class Decoders:
    """What makes messages of bytes, for the channels of one file."""

    def __init__(self) -> None:
        from mcap_protobuf.decoder import DecoderFactory as Protobuf
        from mcap_ros2.decoder import DecoderFactory as Ros2

        self._factories = (Ros2(), Protobuf())
        self._made: dict[int, Callable[[bytes], Any]] = {}

    def of(self, heard: Heard) -> Callable[[bytes], Any]:
        """The decoder of a message's channel. Raises SourceError where its encoding or schema cannot be read."""
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
        from mcap.exceptions import McapError
        from mcap_ros2._vendor.rosidl_adapter.parser import InvalidSpecification, InvalidValue

        channel, schema = heard.channel, heard.schema
        known = self._made.get(channel.id)
        if known is not None:
            return known
        if schema and schema.encoding == "ros2msg" and b"---" in schema.data.splitlines():
            raise SourceError("its schema cannot be parsed", f"{schema.name} is a service, not a message")
        try:
            found = (factory.decoder_for(channel.message_encoding, schema) for factory in self._factories)
            decoder = next((each for each in found if each is not None), None)
        except (
            McapError, InvalidSpecification, InvalidValue, DecodeError,
            ValueError, TypeError, NameError, KeyError, IndexError, NotImplementedError, RecursionError,
        ) as error:  # fmt: skip
            name = schema.name if schema else ""
            raise SourceError(
                "its schema cannot be parsed", f"{name}: {type(error).__name__}({error})"
            ) from None
        if decoder is None:
            raise SourceError(
                "its message encoding is not known",
                f"{channel.message_encoding!r} with schema encoding {schema.encoding if schema else ''!r}",
            )
        self._made[channel.id] = decoder
        return decoder


def decode(decoder: Callable[[bytes], Any], data: bytes) -> Any:
    """A message made of its bytes. Raises SourceError when they are not what the schema says."""
    from google.protobuf.message import DecodeError
    from mcap.exceptions import McapError

    try:
        return decoder(data)
    except (
        McapError, DecodeError, struct.error, EOFError, ValueError, IndexError, KeyError, TypeError,
        NotImplementedError, MemoryError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise SourceError("message is not what its schema says", f"{type(error).__name__}({error})") from None


def expect(message: Any, fields: Mapping[str, type]) -> None:
    """Hold a message to the fields of its type: schemas differ between versions, and may be damaged.

    Raises SourceError naming the first field that is missing or of another type.
    """
    for name, kind in fields.items():
        if not isinstance(getattr(message, name, None), kind):
            raise SourceError("its schema lacks a field of its type", f"{name}: {kind.__name__}")


def header_stamp(message: Any) -> int | None:
    """Nanoseconds of a message's own stamp (ROS header, Foxglove timestamp), or None when it carries none."""
    header = getattr(message, "header", None)
    stamp = getattr(message, "timestamp", None) if header is None else getattr(header, "stamp", None)
    for whole, part in (("sec", "nanosec"), ("seconds", "nanos")):
        seconds, nanoseconds = getattr(stamp, whole, None), getattr(stamp, part, None)
        if isinstance(seconds, int) and isinstance(nanoseconds, int):
            return _within(seconds * 10**9 + nanoseconds)
    return None


def times(stamps: Sequence[int | None], messages: Sequence[int]) -> tuple[NDArray[np.int64], bool]:
    """When the messages of a topic hold, in nanoseconds, and whether each one's own stamp says so.

    A message without a stamp, or with the stamp 0, is taken by the time at which it was published.
    """
    import numpy as np

    at = [stamp or message for stamp, message in zip(stamps, messages, strict=True)]
    return np.array(at, np.int64), all(stamps)


def published(message: Message) -> int:
    """When a message was published, or logged where that is not written, in nanoseconds."""
    return _within(message.publish_time or message.log_time)


def _within(nanoseconds: int) -> int:
    """A time whose difference from any other is an int64; only damage gives one beyond the year 2116."""
    return max(min(nanoseconds, 2**62), -(2**62))
