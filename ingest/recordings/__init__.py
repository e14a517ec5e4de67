"""Recordings of robots: MCAP files and ROS bags."""

from typing import TYPE_CHECKING

from ares.imports import lazy_exports

if TYPE_CHECKING:
    from ares_ingest.recordings.source import mcap as mcap, rosbag as rosbag

__getattr__ = lazy_exports(__name__)
