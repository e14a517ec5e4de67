"""TFRecord framing: records are read back as written, and no damage ever gives a wrong payload."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ares.errors import SourceError
from ares.formats import RecordLocation, parse_tf_example, read_record, scan_record_file
from tests.generators.tfrecords import write_tfrecords

PAYLOADS = [b"first" * 9, b"", b"third record", bytes(range(256)) * 3]


def write_payloads(path: Path) -> list[RecordLocation]:
    return write_tfrecords(path, PAYLOADS)


def test_records_are_located_and_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    spans = write_payloads(path)
    assert list(scan_record_file(str(path))) == spans
    assert [read_record(str(path), span)[0] for span in spans] == PAYLOADS


def test_equal_payloads_have_equal_hashes_and_different_ones_do_not(tmp_path: Path) -> None:
    payloads = [b"a" * 1000, b"a" * 999 + b"b", b"b" + b"a" * 999, b"a" * 1000]
    spans = write_tfrecords(tmp_path / "a", payloads)
    hashes = [read_record(str(tmp_path / "a"), span)[1] for span in spans]
    assert hashes[0] == hashes[3] and len(set(hashes)) == 3 and len(hashes[0]) == 32


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_damage_gives_a_wrong_payload(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "a"
    write_payloads(path)
    raw = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    for span in scan_record_file(str(path)):
        if isinstance(span, SourceError):
            continue
        try:
            payload, _ = read_record(str(path), span)
        except SourceError:
            continue
        assert payload in PAYLOADS


def test_damage_is_reported_at_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a"
    spans = write_payloads(path)
    intact = path.read_bytes()

    def spans_after_damage(offset: int) -> list[RecordLocation | SourceError]:
        raw = bytearray(intact)
        raw[offset] ^= 0xFF
        path.write_bytes(raw)
        return list(scan_record_file(str(path)))

    assert spans_after_damage(spans[2].offset + 1) == spans
    with pytest.raises(SourceError, match=r"record has a wrong checksum: .*byte"):
        read_record(str(path), spans[2])
    errors = spans_after_damage(spans[2].offset - 4)
    assert [str(error).split(":")[0] for error in errors if isinstance(error, SourceError)] == [
        "record length has a wrong checksum"
    ]
    assert [errors[0], errors[1], errors[3]] == [spans[0], spans[1], spans[3]]
    path.write_bytes(intact[: spans[2].offset + 3])
    *valid_spans, last = scan_record_file(str(path))
    assert valid_spans == spans[:2] and isinstance(last, SourceError) and last.reason == "record is cut off"
    with pytest.raises(SourceError, match="record is cut off"):
        read_record(str(path), spans[3])
    with pytest.raises(SourceError, match="file is missing"):
        list(scan_record_file(str(tmp_path / "none")))


def test_a_payload_of_another_kind_is_refused() -> None:
    with pytest.raises(SourceError, match=r"record is not a tf.train.Example: here"):
        parse_tf_example(b"\xff" * 20, "here")
