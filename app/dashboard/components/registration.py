"""Registers page components written in JavaScript with Streamlit, once per process."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

_FOLDER = Path(__file__).parent
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


@cache
def load_component(name: str) -> ComponentRenderer:
    """Register a component and return the function that draws it.

    Args:
        name: Folder beside this file, with `index.js` and `style.css`.
    """
    import streamlit as st

    folder = _FOLDER / name
    code = join_modules(folder / "index.js")
    css = (_FOLDER / "common.css").read_text() + (folder / "style.css").read_text()
    return st.components.v2.component(f"ares_{name}", js=code, css=css, html="<div class='root'></div>")


def join_modules(entry: Path) -> str:
    """Join a JavaScript module with those that it imports into one text, since a component is one module.

    Every module comes once, behind those that it imports. Names at the top of modules must not be the same.
    """
    modules: dict[Path, str] = {}
    _add_module(entry.resolve(), modules)
    return "\n".join(modules.values())


def _add_module(path: Path, modules: dict[Path, str]) -> None:
    text = path.read_text()
    for imported in _IMPORT.findall(text):
        inner = (path.parent / imported).resolve()
        if inner not in modules:
            _add_module(inner, modules)
    modules[path] = _EXPORT.sub("", _IMPORT.sub("", text))
