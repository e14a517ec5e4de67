"""JPEG and PNG images: size and codec from the header alone, or pixels by decoding."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import MediaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_START = b"\xff\xd8"
# Markers of JPEG frame headers (SOF0 to SOF15 without the tables DHT, JPG and DAC).
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageInfo(NamedTuple):
    """Width and height in pixels, and the codec: "jpeg", "png", "raw", or the codec of a video."""

    width: int
    height: int
    codec: str


def parse_image_header(data: bytes) -> ImageInfo | None:
    """Size and codec of a JPEG or PNG from its header; None for other data.

    Pillow takes ten times as long.
    """
    if data[:8] == _PNG_SIGNATURE and len(data) >= 24:
        width, height = struct.unpack_from(">II", data, 16)
        return ImageInfo(width, height, "png")
    return _parse_jpeg_header(data) if data[:2] == _JPEG_START else None


def _parse_jpeg_header(data: bytes) -> ImageInfo | None:
    start = 2
    while start + 9 <= len(data) and data[start] == 0xFF:
        marker = data[start + 1]
        if marker in _FRAME_HEADERS:
            height, width = struct.unpack_from(">HH", data, start + 5)
            return ImageInfo(width, height, "jpeg")
        start += _segment_bytes(data, start, marker)
    return None


def _segment_bytes(data: bytes, start: int, marker: int) -> int:
    """Bytes from a marker to the next one; 0xFF in front of a marker is padding."""
    if marker == 0xFF:
        return 1
    return 2 if marker in _MARKERS_WITHOUT_LENGTH else 2 + int.from_bytes(data[start + 2 : start + 4])


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
