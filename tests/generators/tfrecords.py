"""Writes TFRecord files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ares.formats import RecordLocation
from ares.formats.tfrecord import FOOTER_BYTES, HEADER_BYTES, encode_tfrecord


def write_tfrecords(path: Path, payloads: Iterable[bytes]) -> list[RecordLocation]:
    """Write a file, and return the location of each record."""
    spans, offset = [], 0
    with path.open("wb") as file:
        for payload in payloads:
            file.write(encode_tfrecord(payload))
            spans.append(RecordLocation(offset + HEADER_BYTES, len(payload)))
            offset += HEADER_BYTES + len(payload) + FOOTER_BYTES
    return spans
