"""What is written piece by piece is the very text that json.dumps gives of the whole."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ares.longjson import pieces

_PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
_VALUES = st.recursive(_PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(document=st.dictionaries(st.text(), _VALUES), listed=st.lists(_VALUES), name=st.text())
def test_it_is_the_text_of_json_dumps(document: dict[str, object], listed: list[object], name: str) -> None:
    whole = json.dumps({**document, name: listed}, indent=1, ensure_ascii=False)
    assert "".join(pieces({**document, name: iter(listed)})) == whole


def test_an_empty_document_and_more_items_than_a_piece_holds() -> None:
    assert "".join(pieces({})) == "{}"
    assert json.loads("".join(pieces({"ids": iter(range(2_500))}))) == {"ids": list(range(2_500))}
