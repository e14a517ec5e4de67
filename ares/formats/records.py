"""Records of TFDS datasets, in TFRecord or ArrayRecord files: found and read through the same two functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ares.errors import AresError, SourceError
from ares.extras import needs_extra
from ares.formats.tfrecord import RecordSpan, find_tfrecords, read_tfrecord
from ares.input import check_input_file, input_budgets
from ares.io import describe_os_error, is_url

T = TypeVar("T")


def find_records(path: str) -> Iterator[RecordSpan | SourceError]:
    """Yield every record of a file in order; in an ArrayRecord file the offset of a span is the record's number.

    Raises:
        SourceError: The file cannot be opened. Further errors of TFRecord files are those of `find_tfrecords`.
        RequestError: An ArrayRecord file needs the library array_record, which is not installed.
    """
    if not _is_array_record(path):
        yield from find_tfrecords(path)
        return
    count = _with_reader(path, lambda reader: int(reader.num_records()))
    yield from (RecordSpan(number, 0) for number in range(count))


def read_record(path: str, span: RecordSpan) -> tuple[bytes, str]:
    """The payload of a record and the hash of its content, 32 hex digits.

    Raises as `find_records`, and SourceError when the record is damaged.
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
        check_input_file(path)
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
    except Exception as error:  # the library raises its own and built-in errors for damaged files
        text = " ".join(str(error).split())[:200]
        raise SourceError("ArrayRecord file is cut or damaged", f"{path}: {text}") from None
