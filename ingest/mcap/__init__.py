"""MCAP recordings of ROS 2 and Foxglove as episodes, and what other recordings of messages share with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.mcap.episode import load_recording
    from ingest.mcap.files import (
        folders_with_files,
        list_recording_files,
        recording_key,
        recording_path,
        recording_uris,
    )
    from ingest.mcap.source import mcap
    from ingest.mcap.spec_topics import SpecTopics, topics_of_spec

__all__ = [
    "SpecTopics",
    "folders_with_files",
    "list_recording_files",
    "load_recording",
    "mcap",
    "recording_key",
    "recording_path",
    "recording_uris",
    "topics_of_spec",
]

__getattr__ = lazy_exports(__name__)
