"""Parts of the page "Browse": search, filters, the selected episodes, and the form of a set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.panels.facet_panel import draw_facets, draw_words_filter
    from app.dashboard.panels.saved_views import draw_saved_views
    from app.dashboard.panels.search_bar import draw_search_bar
    from app.dashboard.panels.selection_bar import change_ticks, draw_selection_bar, ticked_ids
    from app.dashboard.panels.set_form import create_command, draw_set_form, select_view

__all__ = [
    "change_ticks",
    "create_command",
    "draw_facets",
    "draw_saved_views",
    "draw_search_bar",
    "draw_selection_bar",
    "draw_set_form",
    "draw_words_filter",
    "select_view",
    "ticked_ids",
]

__getattr__ = lazy_exports(__name__)
