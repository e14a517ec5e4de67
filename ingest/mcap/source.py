"""Ingester for MCAP recordings of ROS 2 and Foxglove: each file, rosbag2 folder or declared span is an episode."""

from __future__ import annotations

import functools
from pathlib import Path

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.formats import INFO_PATH, recording_files
from ares.io import FolderEntries, absolute_path, folder_name
from ingest.base import (
    FolderClaim,
    Ingester,
    IngestOptions,
    Item,
    Source,
    failing_item,
)
from ingest.dataset_spec import read_spec
from ingest.mcap.episode import FORMAT, load_recording
from ingest.mcap.files import (
    folders_with_files,
    list_recording_files,
    recording_key,
    recording_path,
    recording_uris,
)
from ingest.mcap.spans import EpisodeSpan, read_spans
from ingest.mcap.spec_topics import SpecTopics, topics_of_spec

SUFFIX = ".mcap"
# URI of a recording and the part of it that is an episode: a span, an error, or None for all of it.
_RecordingPart = tuple[str, EpisodeSpan | SourceError | None]


def recognises(path: str) -> bool:
    """Whether a path is an MCAP file, or a folder with MCAP files at any depth that is not a LeRobot dataset."""
    root = absolute_path(path)
    if root.is_file():
        return root.suffix.lower() == SUFFIX
    if (root / INFO_PATH).exists():
        return False
    return next(folders_with_files(root, _is_mcap), None) is not None


def claims(folder: FolderEntries) -> FolderClaim | None:
    """Whether MCAP files lie in a folder."""
    return "data" if SUFFIX in folder.suffixes else None


def open_mcap_dataset(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single file, as one dataset. Raises SourceError when there is no MCAP file."""
    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    dataset = options.dataset or folder_name(folder)
    warnings: dict[str, None] = {}
    uris = tuple(recording_uris(root, _is_mcap, warnings))
    parts: list[_RecordingPart] = [(uri, span) for uri in uris for span in _episode_spans(uri)]
    if not parts:
        raise SourceError("folder holds no MCAP file", f"{path}: no {SUFFIX}")
    spec_topics = topics_of_spec(read_spec(Path(options.spec)) if options.spec else None)
    items = (_item(uri, span, folder, dataset, options, spec_topics) for uri, span in parts)
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=len(parts),
            items=items,
            warnings=tuple(warnings),
            folder=str(folder),
            files=functools.partial(list_recording_files, uris),
        )
    ]


def _is_mcap(name: str) -> bool:
    return Path(name).suffix.lower() == SUFFIX


def _episode_spans(uri: str) -> list[EpisodeSpan | SourceError | None]:
    """The episodes of a recording; a single None where it is one episode, or cannot be read and fails when loaded."""
    try:
        return [*read_spans(recording_files(uri))] or [None]
    except SourceError:
        return [None]


def _item(
    uri: str,
    span: EpisodeSpan | SourceError | None,
    folder: Path,
    dataset: str,
    options: IngestOptions,
    spec_topics: SpecTopics,
) -> Item:
    key, location = recording_key(uri, folder), str(recording_path(uri))
    if isinstance(span, SourceError):
        key, location = f"{key}#{span.detail}", f"{location}, its metadata"
    elif span:
        key, location = f"{key}#{span.key}", f"{location}, episode {span.key}"
    identity = make_episode_id(format=FORMAT, dataset=dataset, version="", split="", key=key)
    if isinstance(span, SourceError):
        return failing_item(identity, location, span)
    load = functools.partial(
        load_recording, uri, key, dataset, identity, options.rate_hz, span, spec_topics=spec_topics
    )
    return Item(episode_id=identity, location=location, load=load)


mcap = Ingester(name=FORMAT, recognises=recognises, open=open_mcap_dataset, claims=claims)
