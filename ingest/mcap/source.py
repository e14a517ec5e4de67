"""Ingester for MCAP recordings of ROS 2 and Foxglove: each file, rosbag2 folder or declared span is an episode."""

from __future__ import annotations

import functools
from pathlib import Path

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.formats import recording_files
from ares.io import FolderEntries
from ingest.base import (
    FolderClaim,
    Ingester,
    IngestOptions,
    Item,
    Source,
    failing_item,
)
from ingest.mcap.dataset import RecordingDataset, holds_recordings, open_recordings
from ingest.mcap.episode import FORMAT, load_recording
from ingest.mcap.files import recording_key, recording_path
from ingest.mcap.spans import EpisodeSpan, read_spans

SUFFIX = ".mcap"
# URI of a recording and the part of it that is an episode: a span, an error, or None for all of it.
_RecordingPart = tuple[str, EpisodeSpan | SourceError | None]


def recognises(path: str) -> bool:
    """Whether a path is an MCAP file, or a folder with MCAP files at any depth that is not a LeRobot dataset."""
    return holds_recordings(path, _is_mcap)


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether MCAP files lie in a folder."""
    return "data" if SUFFIX in folder.suffixes else None


def open_mcap_dataset(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single file, as one dataset. Raises SourceError when there is no MCAP file."""
    none_error = SourceError("folder holds no MCAP file", f"{path}: no {SUFFIX}")
    dataset = open_recordings(path, options, _is_mcap, none_error)
    parts: list[_RecordingPart] = [(uri, span) for uri in dataset.uris for span in _episode_spans(uri)]
    items = (_item(uri, span, dataset) for uri, span in parts)
    return [dataset.source(FORMAT, items, len(parts))]


def _is_mcap(name: str) -> bool:
    return Path(name).suffix.lower() == SUFFIX


def _episode_spans(uri: str) -> list[EpisodeSpan | SourceError | None]:
    """The episodes of a recording; a single None where it is one episode, or cannot be read and fails when loaded."""
    try:
        return [*read_spans(recording_files(uri))] or [None]
    except SourceError:
        return [None]


def _item(uri: str, span: EpisodeSpan | SourceError | None, dataset: RecordingDataset) -> Item:
    key, location = recording_key(uri, dataset.folder), str(recording_path(uri))
    if isinstance(span, SourceError):
        key, location = f"{key}#{span.detail}", f"{location}, its metadata"
    elif span:
        key, location = f"{key}#{span.key}", f"{location}, episode {span.key}"
    identity = make_episode_id(format=FORMAT, dataset=dataset.name, version="", split="", key=key)
    if isinstance(span, SourceError):
        return failing_item(identity, location, span)
    arguments = (uri, key, dataset.name, identity, dataset.rate_hz, span)
    load = functools.partial(load_recording, *arguments, spec_topics=dataset.spec_topics)
    return Item(episode_id=identity, location=location, load=load)


mcap = Ingester(name=FORMAT, recognises=recognises, open=open_mcap_dataset, claims=claims)
