"""What a page that is drawn without a browser gives to its components."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from streamlit.testing.v1 import AppTest


def component_data(app: AppTest, name: str) -> list[Any]:
    """What each component of a name was given, in the order of the page."""
    elements = [element for element in _walk(app.main) if element.type == "bidi_component"]
    protos = [element.proto for element in elements]
    return [json.loads(proto.json) for proto in protos if proto.component_name == f"ares_{name}"]


def _walk(block: Any) -> Iterator[Any]:
    for child in block.children.values():
        yield child
        if hasattr(child, "children"):
            yield from _walk(child)


def tables(app: AppTest) -> list[dict[str, list[str]]]:
    """The tables of a page: texts by column."""
    return [
        {name: [row[number][0] for row in data["rows"]] for number, (_, name) in enumerate(data["columns"])}
        for data in component_data(app, "table")
    ]
