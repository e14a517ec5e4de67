"""Export as LeRobot v3.0 datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.export.lerobot.exporter import export_lerobot

__all__ = ["export_lerobot"]

__getattr__ = lazy_exports(__name__)
