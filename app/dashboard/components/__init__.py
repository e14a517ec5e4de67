"""Parts of a page that are written in JavaScript: each a folder with its script, its style and `component.py`."""

from __future__ import annotations

__all__: list[str] = []
