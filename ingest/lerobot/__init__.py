"""LeRobot datasets of versions 2.0 to 3.0 as episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.lerobot.source import lerobot

__all__ = ["lerobot"]

__getattr__ = lazy_exports(__name__)
