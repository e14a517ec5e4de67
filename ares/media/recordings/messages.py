"""Decoded messages of a recording: fields, and the times that they state."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ares.errors import SourceError
from ares.imports import needs_extra
from ares.input import parse_json
from ares.media.recordings.ros_types import make_ros1_decoder

if TYPE_CHECKING:
    import numpy as np
    from mcap.records import Channel, Message, Schema
    from numpy.typing import NDArray
from ares.media.recordings.container import McapMessage


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
        if channel.message_encoding == "json":
            return _decode_json
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


def _decode_json(data: bytes) -> Any:
    """A message in JSON; the bytes of a picture stand in it as base64. Raises ValueError for anything but an object."""
    message = parse_json(data, "message", object_hook=lambda fields: SimpleNamespace(**fields))
    if not isinstance(message, SimpleNamespace):
        raise ValueError("no object")
    if isinstance(getattr(message, "data", None), str) and hasattr(message, "frame_id"):
        message.data = base64.b64decode(message.data, validate=True)
    return message


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
    for seconds_name, nanoseconds_name in (("sec", "nanosec"), ("seconds", "nanos"), ("sec", "nsec")):
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
