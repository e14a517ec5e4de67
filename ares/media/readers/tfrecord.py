"""Frames of a camera whose images lie in one TFRecord example, as in RLDS datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ares.errors import MediaError, SourceError
from ares.formats import RecordSpan, parse_example, read_record
from ares.input import decode_image

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef


def read_tfrecord_images(ref: MediaRef) -> list[bytes]:
    """The encoded images (JPEG or PNG) of a camera as the record stores them. Raises MediaError."""
    location = f"{ref.uri}, byte {ref.byte_offset}"
    try:
        payload, _ = read_record(ref.uri, RecordSpan(ref.byte_offset, ref.byte_size))
        example = parse_example(payload, location)
    except SourceError as error:
        raise MediaError(error.reason, error.detail) from None
    images = list(example[ref.key].bytes_list.value) if ref.key in example else []
    if not images:
        raise MediaError("record has no such images", f"{ref.key!r} in {location}")
    return images


def read_tfrecord_frames(ref: MediaRef, frame_numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB; a repeated number yields the same array again.

    Raises MediaError.
    """
    images = read_tfrecord_images(ref)
    decoded_number, frame = -1, None
    for number in frame_numbers:
        if number >= len(images):
            raise MediaError(
                "record has fewer images", f"{ref.key!r} of {ref.uri}: {number} of {len(images)}"
            )
        if frame is None or number != decoded_number:
            where = f"{ref.key!r} frame {number} of {ref.uri}, byte {ref.byte_offset}"
            decoded_number, frame = number, decode_image(images[number], where)
        yield frame
