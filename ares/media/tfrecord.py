"""TFRecord files without TensorFlow: find records by seeking, read them with their checksums, take images out."""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ares import files
from ares.errors import MediaError, SourceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.media.ref import MediaRef

HEADER_BYTES = 12
FOOTER_BYTES = 4
_PARTS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands in its file.

    Attributes:
        offset: First byte of the payload.
        size: Bytes of the payload.
    """

    offset: int
    size: int


def masked_crc(crc: int) -> int:
    """The form in which TFRecord keeps a crc32c."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def places(path: str) -> Iterator[Place | SourceError]:
    """Every record of a file in order, by seeking over the payloads (12 bytes are read for each).

    A record whose length has a wrong checksum is given as a SourceError and, where the length leads to
    another record or to the end of the file, the rest goes on; otherwise, and where the file is cut, an
    error is the last thing given. Raises SourceError when the file cannot be opened.
    """
    with _open(path) as file:
        end = file.seek(0, 2)
        start = 0
        while start < end:
            place, good = _header(file, start, end)
            if place is None:
                yield SourceError("record is cut off", f"{path}, byte {start}: the file ends at byte {end}")
                return
            start = place.offset + place.size + FOOTER_BYTES
            if good:
                yield place
                continue
            yield SourceError(
                "record length has a wrong checksum", f"{path}, byte {place.offset - HEADER_BYTES}"
            )
            if start != end and not _header(file, start, end)[1]:
                return


def _open(path: str) -> Any:
    try:
        return files.opened(path, records=True)
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {files.words(error)}") from None


def _header(file: Any, start: int, end: int) -> tuple[Place | None, bool]:
    """The record that begins at `start` (None where it does not fit the file), and whether its length is sure."""
    import google_crc32c

    file.seek(start)
    head = file.read(HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return None, False
    size, crc = struct.unpack("<QI", head)
    good = masked_crc(google_crc32c.value(head[:8])) == crc
    if start + HEADER_BYTES + size + FOOTER_BYTES > end:
        return None, False
    return Place(start + HEADER_BYTES, size), good


def read_record(path: str, place: Place) -> tuple[bytes, str]:
    """The payload of a record and the hash of its content, 32 hex digits.

    The hash is blake2b over the size and the running crc32c at eight places: it falls out of the check of the
    payload, where hashing all of it again would take ten times as long as reading it.

    Raises SourceError when the file is missing or cut, or a checksum is wrong.
    """
    import google_crc32c

    with _open(path) as file:
        file.seek(place.offset - HEADER_BYTES)
        head, payload, foot = file.read(HEADER_BYTES), file.read(place.size), file.read(FOOTER_BYTES)
    where = f"{path}, byte {place.offset - HEADER_BYTES}"
    if len(foot) < FOOTER_BYTES:
        raise SourceError("record is cut off", where)
    size, size_crc = struct.unpack("<QI", head)
    if size != place.size or masked_crc(google_crc32c.value(head[:8])) != size_crc:
        raise SourceError("record length has a wrong checksum", where)
    step = max(1, -(-size // _PARTS))
    crcs = [0]
    for start in range(0, size, step):
        crcs.append(google_crc32c.extend(crcs[-1], payload[start : start + step]))
    if masked_crc(crcs[-1]) != struct.unpack("<I", foot)[0]:
        raise SourceError("record has a wrong checksum", where)
    text = struct.pack(f"<Q{len(crcs)}I", size, *crcs)
    return payload, hashlib.blake2b(text, digest_size=16).hexdigest()


def write_records(path: Path, payloads: Iterable[bytes]) -> list[Place]:
    """Write a TFRecord file (under a .tmp name until it is whole) and say where its records are."""
    import google_crc32c

    partial, made, offset = path.with_name(path.name + ".tmp"), [], 0
    with partial.open("wb") as file:
        for payload in payloads:
            length = struct.pack("<Q", len(payload))
            file.write(length + struct.pack("<I", masked_crc(google_crc32c.value(length))))
            file.write(payload + struct.pack("<I", masked_crc(google_crc32c.value(payload))))
            made.append(Place(offset + HEADER_BYTES, len(payload)))
            offset += HEADER_BYTES + len(payload) + FOOTER_BYTES
    partial.rename(path)
    return made


# The messages of tf.train.Example: name of the message, then its fields as (name, number, type, repeated).
_MESSAGES: dict[str, tuple[tuple[str, int, str, bool], ...]] = {
    "BytesList": (("value", 1, "bytes", True),),
    "FloatList": (("value", 1, "float", True),),
    "Int64List": (("value", 1, "int64", True),),
    "Feature": (
        ("bytes_list", 1, "BytesList", False),
        ("float_list", 2, "FloatList", False),
        ("int64_list", 3, "Int64List", False),
    ),
    "Features": (("feature", 1, "Features.FeatureEntry", True),),
    "Features.FeatureEntry": (("key", 1, "string", False), ("value", 2, "Feature", False)),
    "Example": (("features", 1, "Features", False),),
}


@functools.cache
def example_class() -> Any:
    """Message class of tf.train.Example by its wire description (tensorflow_datasets takes a second to import)."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    kind = descriptor_pb2.FieldDescriptorProto
    plain = {
        "bytes": kind.TYPE_BYTES,
        "float": kind.TYPE_FLOAT,
        "int64": kind.TYPE_INT64,
        "string": kind.TYPE_STRING,
    }
    file = descriptor_pb2.FileDescriptorProto(name="ares_example.proto", package="ares", syntax="proto3")
    made: dict[str, Any] = {}
    for name, fields in _MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        made[name] = made[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=name)
        for field, number, type_, repeated in fields:
            entry = made[name].field.add(name=field, number=number, type=plain.get(type_, kind.TYPE_MESSAGE))
            entry.label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
            if type_ not in plain:
                entry.type_name = f".ares.{type_}"
    made["Features.FeatureEntry"].options.map_entry = True
    made["Feature"].oneof_decl.add(name="kind")
    for entry in made["Feature"].field:
        entry.oneof_index = 0
    # The process's own pool: a pool of ours would be freed by the thread that loses the race to fill the cache,
    # under the feet of the messages made with it.
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ares.Example"))


def parse_example(payload: bytes, where: str) -> Mapping[str, Any]:
    """The features of a tf.train.Example by key, each with `.bytes_list`, `.float_list` or `.int64_list` `.value`.

    Raises SourceError naming `where` when the payload is none.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        features: Mapping[str, Any] = example_class().FromString(payload).features.feature
    except DecodeError:
        raise SourceError("record is no tf.train.Example", where) from None
    return features


def encoded_frames(ref: MediaRef) -> list[bytes]:
    """The images of a camera as they stand in the record (JPEG or PNG). Raises MediaError."""
    try:
        payload, _ = read_record(ref.uri, Place(ref.byte_offset, ref.byte_size))
        example = parse_example(payload, f"{ref.uri}, byte {ref.byte_offset}")
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    frames = list(example[ref.key].bytes_list.value) if ref.key in example else []
    if not frames:
        raise MediaError("record has no such images", f"{ref.key!r} in {ref.uri}, byte {ref.byte_offset}")
    return frames


def decode_image(data: bytes, where: str) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 RGB of an encoded image. Raises MediaError naming `where`."""
    import cv2
    import numpy as np

    image = (
        cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
        if data
        else None
    )
    if image is None:
        raise MediaError("image cannot be decoded", where)
    rgb: NDArray[np.uint8] = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)  # type: ignore[assignment]
    return rgb


def frames(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """The frames of those numbers, which must rise; (H, W, 3) uint8 RGB, the very same array for a number again.

    Raises MediaError.
    """
    encoded = encoded_frames(ref)
    shown, picture = -1, None
    for number in numbers:
        if number >= len(encoded):
            raise MediaError(
                "record has fewer images", f"{ref.key!r} of {ref.uri}: {number} of {len(encoded)}"
            )
        if picture is None or number != shown:
            where = f"{ref.key!r} frame {number} of {ref.uri}, byte {ref.byte_offset}"
            shown, picture = number, decode_image(encoded[number], where)
        yield picture
