"""Player of the cameras and signals of one episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.player.component import draw_player

__all__ = ["draw_player"]

__getattr__ = lazy_exports(__name__)
