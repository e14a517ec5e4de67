"""TFRecord framing: what is written is read back, and no damage ever gives a wrong payload."""

from __future__ import annotations

import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.errors import MediaError, SourceError
from ares.media.imageinfo import image_info
from ares.media.tfrecord import Place, decode_image, parse_example, places, read_record, write_records

PAYLOADS = [b"first" * 9, b"", b"third record", bytes(range(256)) * 3]


def written(path: Path) -> list[Place]:
    return write_records(path, PAYLOADS)


def test_records_are_found_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    found = written(path)
    assert list(places(str(path))) == found
    assert [read_record(str(path), place)[0] for place in found] == PAYLOADS
    assert not list(tmp_path.glob("*.tmp"))


def test_hash_tells_contents_apart_and_nothing_else(tmp_path: Path) -> None:
    both = [b"a" * 1000, b"a" * 999 + b"b", b"b" + b"a" * 999, b"a" * 1000]
    found = write_records(tmp_path / "a", both)
    hashes = [read_record(str(tmp_path / "a"), place)[1] for place in found]
    assert hashes[0] == hashes[3] and len(set(hashes)) == 3 and len(hashes[0]) == 32


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_damage_gives_a_wrong_payload(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a"
    written(path)
    raw = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    for place in places(str(path)):
        if isinstance(place, SourceError):
            continue
        try:
            payload, _ = read_record(str(path), place)
        except SourceError:
            continue
        assert payload in PAYLOADS


def test_damage_is_told_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a"
    found = written(path)
    whole = path.read_bytes()

    def damaged(at: int) -> list[Place | SourceError]:
        raw = bytearray(whole)
        raw[at] ^= 0xFF
        path.write_bytes(raw)
        return list(places(str(path)))

    assert damaged(found[2].offset + 1) == found
    with pytest.raises(SourceError, match=r"record has a wrong checksum: .*byte"):
        read_record(str(path), found[2])
    errors = damaged(found[2].offset - 4)
    assert [str(one).split(":")[0] for one in errors if isinstance(one, SourceError)] == [
        "record length has a wrong checksum"
    ]
    assert [errors[0], errors[1], errors[3]] == [found[0], found[1], found[3]]
    path.write_bytes(whole[: found[2].offset + 3])
    *good, last = places(str(path))
    assert good == found[:2] and isinstance(last, SourceError) and last.reason == "record is cut off"
    with pytest.raises(SourceError, match="record is cut off"):
        read_record(str(path), found[3])
    with pytest.raises(SourceError, match="file is missing"):
        list(places(str(tmp_path / "none")))


def test_what_is_no_example_is_told() -> None:
    with pytest.raises(SourceError, match=r"record is no tf.train.Example: here"):
        parse_example(b"\xff" * 20, "here")
    with pytest.raises(MediaError, match="image cannot be decoded: here"):
        decode_image(b"\xff\xd8 no jpeg", "here")


@pytest.mark.parametrize(("suffix", "codec"), [(".jpg", "jpeg"), (".png", "png")])
def test_size_comes_from_the_header(suffix: str, codec: str) -> None:
    encoded = cv2.imencode(suffix, np.zeros((37, 211, 3), np.uint8))[1].tobytes()
    assert image_info(encoded) == (211, 37, codec)
    assert image_info(encoded[:3]) is None and image_info(b"GIF89a") is None and image_info(b"") is None


def test_size_is_found_behind_long_headers() -> None:
    encoded = cv2.imencode(".jpg", np.zeros((37, 211, 3), np.uint8))[1].tobytes()
    comment = b"\xff\xfe" + struct.pack(">H", 60_002) + b"c" * 60_000
    assert image_info(encoded[:2] + comment + encoded[2:]) == (211, 37, "jpeg")
