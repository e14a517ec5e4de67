"""How results show themselves: aligned text in a terminal, tables with pictures in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.workspace.display.notebook import best_poster_html, poster_html, rows_html
    from ares.workspace.display.overview import overview_html, overview_text
    from ares.workspace.display.playable_video import PlayableVideo
    from ares.workspace.display.text_table import ResultTable, format_table, html_table

__all__ = [
    "PlayableVideo",
    "ResultTable",
    "best_poster_html",
    "format_table",
    "html_table",
    "overview_html",
    "overview_text",
    "poster_html",
    "rows_html",
]

__getattr__ = lazy_exports(__name__)
