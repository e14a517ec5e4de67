"""Reads a ROS bag as a record, and compares it with what the metadata.yaml of rosbag2 says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ares.episode import Json, Record
from ares.errors import SourceError
from ares.formats import ROSBAG2_METADATA
from ares.input import read_yaml
from ares.io import is_url, parse_path
from ingest.mcap import SpecTopics, load_recording

FORMAT = "rosbag"


def load_bag(
    uri: str, key: str, dataset: str, episode_id: str, user_rate_hz: float | None, spec_topics: SpecTopics
) -> Record:
    """Read a bag: signals as numbers, images by reference, all by the header stamps of the messages.

    Raises:
        SourceError: A file is missing or is no bag, or holds neither camera nor signal.
    """
    record = load_recording(
        uri, key, dataset, episode_id, user_rate_hz, format=FORMAT, spec_topics=spec_topics
    )
    details = _distribution(uri)
    if not details:
        return record
    metadata = {**details, **record.episode.metadata}
    return replace(record, episode=replace(record.episode, metadata=metadata))


def _distribution(uri: str) -> dict[str, Json]:
    """The distribution of ROS that recorded a bag, where the metadata.yaml beside it states one."""
    distribution = _bag_information(uri).get("ros_distro")
    known = isinstance(distribution, str) and distribution not in ("", "unknown")
    return {"ros_distro": distribution} if known else {}


def _bag_information(uri: str) -> dict[str, Any]:
    """What rosbag2 states of a recording; empty where there is no metadata.yaml, or none that can be read."""
    path = parse_path(uri)
    metadata = path if path.name == ROSBAG2_METADATA else path.parent / ROSBAG2_METADATA
    if is_url(uri) or not Path(metadata).is_file():
        return {}
    try:
        document = read_yaml(str(metadata))
    except (OSError, SourceError):
        return {}
    information = document.get("rosbag2_bagfile_information") if isinstance(document, dict) else None
    return information if isinstance(information, dict) else {}
