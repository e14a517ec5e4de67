"""Ingester for recordings of ROS 1 (.bag) and of ROS 2 in SQLite (.db3): each file or rosbag2 folder is an episode."""

from __future__ import annotations

import functools
from importlib.util import find_spec

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.extras import missing_extra
from ares.io import FolderEntries
from ingest.base import (
    FolderClaim,
    Ingester,
    IngestOptions,
    Item,
    Source,
    failing_item,
)
from ingest.mcap import RecordingDataset, holds_recordings, open_recordings, recording_key, recording_path
from ingest.rosbag.episode import FORMAT, load_bag

SUFFIXES = (".db3", ".bag", ".bag.active")
# rosbag2's compression mode "file"; SQLite cannot read such a file in place.
_PACKED_SUFFIXES = (".db3.zstd", ".db3.zst")


def _is_bag(name: str) -> bool:
    return name.lower().endswith((*SUFFIXES, *_PACKED_SUFFIXES))


def recognises(path: str) -> bool:
    """Whether a path is a bag, or a folder with bags at any depth that is not a LeRobot dataset."""
    return holds_recordings(path, _is_bag)


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether bags lie in a folder."""
    return None if folder.suffixes.isdisjoint((*SUFFIXES, *_PACKED_SUFFIXES)) else "data"


def open_bags(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single file, as one dataset.

    Raises:
        SourceError: There is no bag.
        RequestError: The library rosbags is not installed.
    """
    if find_spec("rosbags") is None:
        raise missing_extra("rosbags", "rosbag")
    none_error = SourceError("folder holds no ROS bag", f"{path}: no {', '.join(SUFFIXES)}")
    dataset = open_recordings(path, options, _is_bag, none_error)
    items = (_item(uri, dataset) for uri in dataset.uris)
    fragile = any(uri.lower().endswith(".db3") for uri in dataset.uris)
    return [dataset.source(FORMAT, items, len(dataset.uris), fragile=fragile)]


def _item(uri: str, dataset: RecordingDataset) -> Item:
    key, location = recording_key(uri, dataset.folder), str(recording_path(uri))
    identity = make_episode_id(format=FORMAT, dataset=dataset.name, version="", split="", key=key)
    if uri.lower().endswith(_PACKED_SUFFIXES):
        error = SourceError("file is compressed as a whole", f"{uri}: unpack it with `zstd -d`")
        return failing_item(identity, location, error)
    arguments = (uri, key, dataset.name, identity, dataset.rate_hz, dataset.spec_topics)
    return Item(episode_id=identity, location=location, load=functools.partial(load_bag, *arguments))


rosbag = Ingester(name=FORMAT, recognises=recognises, open=open_bags, claims=claims)
