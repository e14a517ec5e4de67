"""MCAP recordings of ROS 2 and Foxglove as episodes, and what other recordings of messages share with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ares.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ingest.mcap.dataset import RecordingDataset, holds_recordings, open_recordings
    from ingest.mcap.episode import load_recording
    from ingest.mcap.files import recording_key, recording_path
    from ingest.mcap.source import mcap
    from ingest.mcap.spec_topics import SpecTopics

__all__ = [
    "RecordingDataset",
    "SpecTopics",
    "holds_recordings",
    "load_recording",
    "mcap",
    "open_recordings",
    "recording_key",
    "recording_path",
]

__getattr__ = lazy_exports(__name__)
