"""Long JSON: documents whose long lists are written as they come, in the very text that json.dumps would give."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice

_AT_ONCE = 1000


def pieces(document: Mapping[str, object]) -> Iterator[str]:
    """The text of a document with an indent of one space, in pieces.

    Args:
        document: JSON values by name; a value that is an iterator is written as a list, its items taken one by one.
    """
    before = "{\n "
    for name, value in document.items():
        yield f"{before}{_text(name)}: "
        if isinstance(value, Iterator):
            yield from _list(value)
        else:
            yield _text(value, 1)
        before = ",\n "
    yield "\n}" if document else "{}"


def _list(items: Iterator[object]) -> Iterator[str]:
    before = "[\n  "
    while some := list(islice(items, _AT_ONCE)):
        yield before + ",\n  ".join(_text(one, 2) for one in some)
        before = ",\n  "
    yield "[]" if before[0] == "[" else "\n ]"


def _text(value: object, depth: int = 0) -> str:
    # No string of JSON holds a line end, so every one of them is the layout's.
    return json.dumps(value, indent=1, ensure_ascii=False).replace("\n", "\n" + " " * depth)
