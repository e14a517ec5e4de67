"""Grid of episode cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.grid.component import draw_grid

__all__ = ["draw_grid"]

__getattr__ = lazy_exports(__name__)
