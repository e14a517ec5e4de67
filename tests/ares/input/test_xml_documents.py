"""XML documents: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import SourceError
from ares.input import parse_xml, read_xml

BILLION_LAUGHS = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;&b;">]><a>&c;</a>'
OTHER_FILE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'


def test_elements_and_attributes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text("<?xml version='1.0'?><!-- a --><a b='1 &lt; 2'><c/>text<c/></a>")
    root = read_xml(str(path))
    assert (root.tag, root.get("b"), [child.tag for child in root]) == ("a", "1 < 2", ["c", "c"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BILLION_LAUGHS, "XML declares a document type"),
        (OTHER_FILE, "XML declares a document type"),
        ("<a>", "file is not XML"),
        ("<a></b>", "file is not XML"),
        ("", "file is not XML"),
        (b"\xff\xfe\x00", "file is not XML"),
        ("<a>\ud800</a>", "file is not XML"),
        ("<a>" * 101 + "</a>" * 101, "document is nested too deeply"),
    ],
)
def test_what_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_xml(text, "robot.urdf")
    assert caught.value.reason == reason
    assert str(caught.value).count("\n") == 0 and "robot.urdf" in str(caught.value)
