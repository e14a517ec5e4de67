"""Components: small pieces of page written in JavaScript, each a folder with its script and its style."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_HERE = Path(__file__).parent


@cache
def load(name: str, *scripts: str) -> ComponentRenderer:
    """Register a component once per process and return its mounting command.

    Args:
        name: Folder under components/.
        scripts: Script files, joined in this order; the last one holds the `export default`.
    """
    import streamlit as st

    folder = _HERE / name
    parts = [_HERE / "dom.js", *(folder / script for script in scripts or ("index.js",))]
    code = "\n".join(part.read_text() for part in parts)
    css = (_HERE / "common.css").read_text() + (folder / "style.css").read_text()
    return st.components.v2.component(f"ares_{name}", js=code, css=css, html="<div class='root'></div>")
