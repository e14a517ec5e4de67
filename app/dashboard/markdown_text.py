"""Texts of data in Markdown, shown as they are."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&\"'=^])")
_SPACE = re.compile(r"\s+")


def escape_markdown(text: object) -> str:
    """Return the text on one line, escaped so that Markdown shows it as it is: no markup, image or link."""
    return _SPECIAL.sub(r"\\\1", _SPACE.sub(" ", str(text)))
