"""Keys and dropped images of the search box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.search_input.component import draw_search_input

__all__ = ["draw_search_input"]

__getattr__ = lazy_exports(__name__)
