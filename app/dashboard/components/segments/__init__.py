"""Table of the segments of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.segments.component import draw_segments

__all__ = ["draw_segments"]

__getattr__ = lazy_exports(__name__)
