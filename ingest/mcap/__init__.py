"""MCAP recordings of ROS 2 and Foxglove as episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.mcap.source import mcap

__all__ = ["mcap"]

__getattr__ = lazy_exports(__name__)
