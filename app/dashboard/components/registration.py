"""Registers page components written in JavaScript with Streamlit, once per process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_FOLDER = Path(__file__).parent


@cache
def load_component(name: str, *scripts: str) -> ComponentRenderer:
    """Register a component and return the function that draws it.

    Args:
        name: Folder beside this file.
        scripts: Script files, joined in this order; the last one has the `export default`.
    """
    import streamlit as st

    folder = _FOLDER / name
    parts = [_FOLDER / "dom.js", *(folder / script for script in scripts or ("index.js",))]
    code = "\n".join(part.read_text() for part in parts)
    css = (_FOLDER / "common.css").read_text() + (folder / "style.css").read_text()
    return st.components.v2.component(f"ares_{name}", js=code, css=css, html="<div class='root'></div>")
