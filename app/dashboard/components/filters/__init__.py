"""Panel of filters beside the episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.filters.component import draw_filters

__all__ = ["draw_filters"]

__getattr__ = lazy_exports(__name__)
