"""Sizes of JPEG and PNG images come from the header alone, and broken images raise media errors."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from ares.errors import MediaError
from ares.input import decode_image, parse_image_header


@pytest.mark.parametrize(("suffix", "codec"), [(".jpg", "jpeg"), (".png", "png")])
def test_size_comes_from_the_header(suffix: str, codec: str) -> None:
    encoded = cv2.imencode(suffix, np.zeros((37, 211, 3), np.uint8))[1].tobytes()
    assert parse_image_header(encoded) == (211, 37, codec)
    assert (
        parse_image_header(encoded[:3]) is None
        and parse_image_header(b"GIF89a") is None
        and parse_image_header(b"") is None
    )


def test_size_is_found_behind_long_headers() -> None:
    encoded = cv2.imencode(".jpg", np.zeros((37, 211, 3), np.uint8))[1].tobytes()
    comment = b"\xff\xfe" + struct.pack(">H", 60_002) + b"c" * 60_000
    assert parse_image_header(encoded[:2] + comment + encoded[2:]) == (211, 37, "jpeg")


def test_a_broken_image_is_refused() -> None:
    with pytest.raises(MediaError, match="image cannot be decoded: here"):
        decode_image(b"\xff\xd8 no jpeg", "here")
