"""Export as LeRobot datasets, v3.0 or v2.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ares.export.lerobot.exporter import export_lerobot, export_lerobot_v21

__all__ = ["export_lerobot", "export_lerobot_v21"]

__getattr__ = lazy_exports(__name__)
