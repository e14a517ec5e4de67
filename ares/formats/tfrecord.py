"""How the records of TFDS datasets lie in files: found, read and written without TensorFlow."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ares.errors import AresError, SourceError
from ares.imports import needs_extra
from ares.input import input_budgets, open_input, prepare_input_file
from ares.io import describe_os_error, is_url

# Length of the payload (uint64) with its checksum (uint32) before the payload, a checksum of the payload behind it.
HEADER_BYTES = 12
FOOTER_BYTES = 4
_CHECKPOINTS = 8
T = TypeVar("T")
FEATURES_FILE = "features.json"
DATASET_INFO_FILE = "dataset_info.json"
# What ARES adds to a dataset that it writes: its rate, and the names of dimensions and cameras.
DATASET_METADATA_FILE = "metadata.json"
# Names of the shards of a dataset.
SHARD_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Location of the payload of a record in its file.

    Attributes:
        offset: First byte of the payload; in an ArrayRecord file the number of the record.
        size: Bytes of the payload.
    """

    offset: int
    size: int


def masked_crc(crc: int) -> int:
    """The masked form in which TFRecord stores a crc32c."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def scan_tfrecords(path: str) -> Iterator[RecordLocation | SourceError]:
    """Yield every record of a file in order, seeking over the payloads (12 bytes are read for each).

    A record whose length has a wrong checksum yields a SourceError. The scan goes on behind it where its length
    leads to another record or to the end of the file, and else ends with it. A truncated file ends with an error.

    Raises SourceError when the file cannot be opened.
    """
    with _open_record_file(path) as file:
        end = file.seek(0, 2)
        start = 0
        while start < end:
            span, is_valid = _read_header(file, start, end)
            if span is None:
                yield SourceError("record is cut off", f"{path}, byte {start}: the file ends at byte {end}")
                return
            start = span.offset + span.size + FOOTER_BYTES
            if is_valid:
                yield span
                continue
            yield SourceError("record length has a wrong checksum", _describe_location(path, span))
            if start != end and not _read_header(file, start, end)[1]:
                return


def _open_record_file(path: str) -> Any:
    try:
        return open_input(path, long_reads=True)
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except UnicodeEncodeError:
        raise SourceError("no file has such a name", repr(path)) from None


def _describe_location(path: str, span: RecordLocation) -> str:
    return f"{path}, byte {span.offset - HEADER_BYTES}"


def _read_header(file: Any, start: int, end: int) -> tuple[RecordLocation | None, bool]:
    """The record that begins at byte `start`, None where it does not fit the file, and whether its length is valid."""
    import google_crc32c

    file.seek(start)
    header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES:
        return None, False
    size, size_crc = struct.unpack("<QI", header)
    is_valid = masked_crc(google_crc32c.value(header[:8])) == size_crc
    if start + HEADER_BYTES + size + FOOTER_BYTES > end:
        return None, False
    return RecordLocation(start + HEADER_BYTES, size), is_valid


def read_tfrecord(path: str, span: RecordLocation) -> tuple[bytes, str]:
    """The payload of a record and the hash of its content, 32 hex digits.

    The hash is blake2b over the size and the running crc32c at eight positions. It is a by-product of the checksum
    test; hashing the payload a second time would take ten times as long as reading it.

    Raises SourceError when the file is missing or truncated, or a checksum is wrong.
    """
    import google_crc32c

    if span.size > input_budgets().array_bytes:
        raise SourceError(
            "record is larger than allowed", f"{_describe_location(path, span)}: {span.size} bytes"
        )
    with _open_record_file(path) as file:
        file.seek(span.offset - HEADER_BYTES)
        header, payload, footer = file.read(HEADER_BYTES), file.read(span.size), file.read(FOOTER_BYTES)
    if len(footer) < FOOTER_BYTES:
        raise SourceError("record is cut off", _describe_location(path, span))
    size, size_crc = struct.unpack("<QI", header)
    if size != span.size or masked_crc(google_crc32c.value(header[:8])) != size_crc:
        raise SourceError("record length has a wrong checksum", _describe_location(path, span))
    step = max(1, -(-size // _CHECKPOINTS))
    crcs = [0]
    for start in range(0, size, step):
        crcs.append(google_crc32c.extend(crcs[-1], payload[start : start + step]))
    if masked_crc(crcs[-1]) != struct.unpack("<I", footer)[0]:
        raise SourceError("record has a wrong checksum", _describe_location(path, span))
    text = struct.pack(f"<Q{len(crcs)}I", size, *crcs)
    return payload, hashlib.blake2b(text, digest_size=16).hexdigest()


def encode_tfrecord(payload: bytes) -> bytes:
    """A record as TFRecord files hold it: length and checksum, the payload, and its checksum."""
    import google_crc32c

    length = struct.pack("<Q", len(payload))
    header = length + struct.pack("<I", masked_crc(google_crc32c.value(length)))
    return header + payload + struct.pack("<I", masked_crc(google_crc32c.value(payload)))


def scan_record_file(path: str) -> Iterator[RecordLocation | SourceError]:
    """Yield every record of a file in order; in an ArrayRecord file the offset of a span is the record's number.

    Raises:
        SourceError: The file cannot be opened. Further errors of TFRecord files are those of `scan_tfrecords`.
        RequestError: An ArrayRecord file needs the library array_record, which is not installed.
    """
    if not _is_array_record(path):
        yield from scan_tfrecords(path)
        return
    count = _with_reader(path, lambda reader: int(reader.num_records()))
    yield from (RecordLocation(number, 0) for number in range(count))


def read_record(path: str, span: RecordLocation) -> tuple[bytes, str]:
    """The payload of a record and the hash of its content, 32 hex digits.

    Raises as `scan_record_file`, and SourceError when the record is damaged.
    """
    if not _is_array_record(path):
        return read_tfrecord(path, span)
    (payload,) = _with_reader(path, lambda reader: reader.read([span.offset]))
    if len(payload) > input_budgets().array_bytes:
        raise SourceError(
            "record is larger than allowed", f"{path}, record {span.offset}: {len(payload)} bytes"
        )
    return payload, hashlib.blake2b(payload, digest_size=16).hexdigest()


def _is_array_record(path: str) -> bool:
    return ".array_record" in path.rpartition("/")[2]


def _with_reader(path: str, call: Callable[[Any], T]) -> T:
    """What a call returns for the reader of an ArrayRecord file. Raises SourceError for whatever it raises."""
    with needs_extra("tfds"):
        from array_record.python.array_record_module import ArrayRecordReader
    if is_url(path):
        raise SourceError("ArrayRecord files are read from local disks only", f"{path}: copy it first")
    try:
        prepare_input_file(path)
        if not Path(path).stat().st_size:
            raise SourceError("file is empty", f"{path}: 0 bytes")
        # Without a buffer a record is read alone, not with those after it.
        reader = ArrayRecordReader(path, "readahead_buffer_size:0")
        try:
            return call(reader)
        finally:
            reader.close()
    except FileNotFoundError:
        raise SourceError("file is missing", path) from None
    except AresError:
        raise
    except OSError as error:
        raise SourceError("file cannot be read", f"{path}: {describe_os_error(error)}") from None
    except Exception as error:  # the library raises its exceptions and built-in ones for damaged files
        text = " ".join(str(error).split())[:200]
        raise SourceError("ArrayRecord file is cut or damaged", f"{path}: {text}") from None
