"""Lanes with the findings of the checks on the clock of the player."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from app.dashboard.components.findings.component import draw_findings

__all__ = ["draw_findings"]

__getattr__ = lazy_exports(__name__)
