"""What is written piece by piece is the very text that json.dumps gives of the whole document."""

from __future__ import annotations

import json
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings, strategies as st

from ares.curation import stream_json

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(document=st.dictionaries(st.text(), _VALUES), items=st.lists(_VALUES), name=st.text())
def test_it_is_the_text_of_json_dumps(document: dict[str, object], items: list[object], name: str) -> None:
    expected = json.dumps({**document, name: items}, indent=1, ensure_ascii=False)
    assert "".join(stream_json({**document, name: iter(items)})) == expected


def test_an_empty_document_and_more_items_than_a_piece_holds() -> None:
    assert "".join(stream_json({})) == "{}"
    assert json.loads("".join(stream_json({"ids": iter(range(10_000))}))) == {"ids": list(range(10_000))}


def test_items_are_read_as_the_text_is_written() -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for number in range(100_000):
            read += 1
            yield number

    pieces = stream_json({"ids": items()})
    next(pieces)
    assert 0 < read < 10_000
