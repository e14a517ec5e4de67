"""Recordings of ROS 1 (.bag) and of ROS 2 in SQLite (.db3) as episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.rosbag.source import rosbag

__all__ = ["rosbag"]

__getattr__ = lazy_exports(__name__)
