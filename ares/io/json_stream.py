"""JSON documents with long lists, written piece by piece, in the same text that json.dumps gives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain, islice

# Tokens joined into one piece, so that a terminal is not flushed at every line.
_PIECE_TOKENS = 4096


class _StreamedList(list[object]):
    """A list that is not empty and that the JSON encoder reads once, item by item, from an iterator."""

    def __init__(self, items: Iterator[object]) -> None:
        super().__init__()
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return self._items

    def __bool__(self) -> bool:
        return True


def stream_json(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of a document with an indent of one space; no list is held in memory.

    Args:
        document: JSON values by name. A value that is an iterator is written as a list while it is read.
    """
    values = {
        name: _as_list(value) if isinstance(value, Iterator) else value for name, value in document.items()
    }
    tokens = json.JSONEncoder(indent=1, ensure_ascii=False).iterencode(values)
    while piece := "".join(islice(tokens, _PIECE_TOKENS)):
        yield piece


def _as_list(items: Iterator[object]) -> list[object]:
    first_item = list(islice(items, 1))
    return _StreamedList(chain(first_item, items)) if first_item else []
