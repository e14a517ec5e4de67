"""Frames that are stored as images in the cells of Parquet tables and TFRecord examples."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Any

from ares.errors import MediaError, SourceError
from ares.formats import INFO_PATH, RecordLocation, parse_tf_example, read_record
from ares.input import (
    ARROW_SUFFIX,
    check_relative_path,
    decode_image,
    open_arrow,
    open_parquet,
    read_input,
)
from ares.io import file_state, parse_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef
    from ares.io import FileState


_BATCH_ROWS = 8
_BUFFER_BYTES = 2**20
_MAX_IMAGE_BYTES = 2**28


def read_parquet_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising, distinct numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    for number, data in zip(frame_numbers, read_parquet_images(ref, frame_numbers), strict=True):
        yield decode_image(data, f"{ref.key!r} frame {number} of {ref.uri}")


def read_parquet_images(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield the encoded images (JPEG or PNG) of rising, distinct numbers as the dataset stores them.

    Only the row groups of those frames are read. Raises MediaError.
    """
    import pyarrow as pa

    try:
        yield from _read_rows(ref, frame_numbers)
    except FileNotFoundError:
        raise MediaError("file is missing", ref.uri) from None
    except (pa.ArrowException, OSError) as error:
        raise MediaError("data file cannot be read", f"{ref.uri}: {error}") from None


def _read_rows(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[bytes]:
    if ref.uri.lower().endswith(ARROW_SUFFIX):
        column = open_arrow(ref.uri).column(ref.key)
        first_row = round(ref.start_seconds * ref.rate_hz)
        yield from (_image_bytes(ref, column[first_row + number].as_py()) for number in frame_numbers)
        return
    metadata, group_starts = _read_footer(ref.uri, file_state(ref.uri))
    options = {"metadata": metadata, "pre_buffer": False, "buffer_size": _BUFFER_BYTES}
    with open_parquet(ref.uri, long_reads=True, **options) as file:
        yield from _read_images(ref, file, group_starts, frame_numbers)


def _read_images(
    ref: MediaRef, file: Any, group_starts: Sequence[int], frame_numbers: Sequence[int]
) -> Iterator[bytes]:
    if ref.key not in file.schema_arrow.names:
        raise MediaError("data file has no such images", f"{ref.key!r} in {ref.uri}")
    first_row = round(ref.start_seconds * ref.rate_hz)
    rows = [first_row + number for number in frame_numbers]
    if rows and rows[-1] >= group_starts[-1]:
        raise MediaError("data file has fewer rows", f"{ref.uri}: {rows[-1]} of {group_starts[-1]}")
    for group, group_rows in groupby(rows, lambda row: bisect_right(group_starts, row) - 1):
        yield from _read_row_group(ref, file, group, [row - group_starts[group] for row in group_rows])


def _read_row_group(ref: MediaRef, file: Any, group: int, rows: list[int]) -> Iterator[bytes]:
    """Yield the images of rows of a row group, reading no further than the last of them."""
    batch_start, remaining_rows = 0, iter(rows)
    row = next(remaining_rows, None)
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[ref.key], use_threads=False)
    for batch in batches:
        column = batch.column(ref.key)
        while row is not None and row < batch_start + len(column):
            yield _image_bytes(ref, column[row - batch_start].as_py())
            row = next(remaining_rows, None)
        if row is None:
            return
        batch_start += len(column)


def _image_bytes(ref: MediaRef, value: Any) -> bytes:
    """The encoded image of a row, which holds its bytes or its path in the dataset."""
    data = value.get("bytes") if isinstance(value, dict) else value
    path = value.get("path") if isinstance(value, dict) else None
    if isinstance(data, bytes) and data:
        return data
    if isinstance(data, list) and data:
        return _encode_nested_list(ref, data)
    if not path:
        raise MediaError("row holds no image", f"{ref.key!r} of {ref.uri}")
    return _read_image_file(ref.uri, str(path))


def _encode_nested_list(ref: MediaRef, rows: list[Any]) -> bytes:
    """PNG of a picture that is stored as nested lists of (H, W, 3) uint8. Raises MediaError."""
    import cv2
    import numpy as np

    try:
        pixels = np.array(rows, np.uint8)
    except (ValueError, OverflowError, TypeError):
        pixels = np.empty(0, np.uint8)
    if pixels.ndim != 3 or pixels.shape[2] != 3:
        raise MediaError("row holds no image", f"{ref.key!r} of {ref.uri}: lists of {pixels.shape}")
    return cv2.imencode(".png", pixels[:, :, ::-1])[1].tobytes()


def _read_image_file(uri: str, path: str) -> bytes:
    """An image file by its path relative to the dataset or to the data file."""
    try:
        check_relative_path(path, uri)
    except SourceError as error:
        raise MediaError("image leads out of the dataset", error.detail) from None
    for folder in parse_path(uri).parents:
        if (folder / path).is_file():
            return read_input(str(folder / path), _MAX_IMAGE_BYTES)
        if (folder / INFO_PATH).is_file():
            break
    raise MediaError("image file is missing", f"{path!r} of {uri}")


@functools.lru_cache(maxsize=8)  # the footer of a file with thousands of row groups takes 20 MB
def _read_footer(uri: str, state: FileState) -> tuple[Any, tuple[int, ...]]:
    """The metadata of a file, and the first row of each row group followed by the number of rows."""
    with open_parquet(uri) as file:
        metadata = file.metadata
    group_sizes = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return metadata, (0, *accumulate(group_sizes))


def read_tfrecord_images(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG or PNG) of a camera as the record stores them. Raises MediaError."""
    location = f"{ref.uri}, byte {ref.byte_offset}"
    try:
        payload, _ = read_record(ref.uri, RecordLocation(ref.byte_offset, ref.byte_size))
        example = parse_tf_example(payload, location)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    images = list(example[ref.key].bytes_list.value) if ref.key in example else []
    if not images:
        raise MediaError("record has no such images", f"{ref.key!r} in {location}")
    return images


def read_tfrecord_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    images = read_tfrecord_images(ref)
    for number in frame_numbers:
        if number >= len(images):
            raise MediaError(
                "record has fewer images", f"{ref.key!r} of {ref.uri}: {number} of {len(images)}"
            )
        yield decode_image(images[number], f"{ref.key!r} frame {number} of {ref.uri}, byte {ref.byte_offset}")
