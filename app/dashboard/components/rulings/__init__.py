"""Captions with the rulings of their grades."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.rulings.component import draw_pairs, draw_rulings

__all__ = ["draw_pairs", "draw_rulings"]

__getattr__ = lazy_exports(__name__)
