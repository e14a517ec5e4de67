"""Pages that are drawn without a browser, and what they give to their components."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

from streamlit.testing.v1 import AppTest


def draw(page: str, params: Mapping[str, str | list[str]] | None = None) -> AppTest:
    """A page of the workspace in use, at an address."""
    script = f"from ares_app.dashboard.navigation import make_page_function\nmake_page_function({page!r})()\n"
    app = AppTest.from_string(script, default_timeout=300)
    for name, value in (params or {}).items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception
    return app


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


def commands(app: AppTest) -> list[str]:
    """The commands that a page shows."""
    bodies = [element.proto.body for element in _walk(app.main) if element.type == "html"]
    return [
        unescape(body).removeprefix("<code>").removesuffix("</code>") for body in bodies if "<code>" in body
    ]


def tables(app: AppTest) -> list[dict[str, list[Any]]]:
    """The tables of a page: values by the name of the column."""
    return [element.value.to_dict("list") for element in app.dataframe]
