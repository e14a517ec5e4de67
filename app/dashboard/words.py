"""Words: text that came from data, made safe for the places where Streamlit would read it as Markdown."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&\"'=^])")
_SPACE = re.compile(r"\s+")


def plain(text: object) -> str:
    """Any text, so that Markdown shows it as it is: no markup, no picture, no link, on one line."""
    return _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", str(text)))


def label(column: str) -> str:
    """A column's name for people: "duration_seconds" is "duration (s)"."""
    units = {"_seconds": " (s)", "_hz": " (Hz)"}
    for ending, unit in units.items():
        if column.endswith(ending):
            return column.removesuffix(ending).replace("_", " ") + unit
    return column.replace("_", " ")
