"""Escapes text from data where Streamlit would read it as Markdown."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&\"'=^])")
_SPACE = re.compile(r"\s+")


def escape_markdown(text: object) -> str:
    """Return the text on one line, escaped so that Markdown shows it as it is: no markup, image or link."""
    return _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", str(text)))


def column_label(column: str) -> str:
    """Return the display name of a column: "duration_seconds" is "duration (s)"."""
    units = {"_seconds": " (s)", "_hz": " (Hz)"}
    for ending, unit in units.items():
        if column.endswith(ending):
            return column.removesuffix(ending).replace("_", " ") + unit
    return column.replace("_", " ")
