"""Ingester for MCAP recordings of ROS 2 and Foxglove: each file, rosbag2 folder or declared span is an episode."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.formats import INFO_PATH, ROSBAG2_METADATA, recording_files
from ares.io import absolute_path, folder_name, parse_path, walk_folders
from ingest.base import Ingester, IngestOptions, Item, Source, failing_item
from ingest.mcap.episode import FORMAT, load_recording
from ingest.mcap.spans import EpisodeSpan, read_spans

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
    return next(_folders_with_mcap(root), None) is not None


def open_mcap_dataset(path: str, options: IngestOptions) -> list[Source]:
    """Open a folder, or a single file, as one dataset. Raises SourceError when there is no MCAP file."""
    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    dataset = options.dataset or folder_name(folder)
    warnings: dict[str, None] = {}
    parts: list[_RecordingPart] = []
    for parent, names in [(folder, [root.name])] if root.is_file() else _folders_with_mcap(folder):
        uris = _recording_uris(parent, names, warnings, is_single_file=root.is_file())
        parts += [(uri, span) for uri in uris for span in _episode_spans(uri)]
    if not parts:
        raise SourceError("folder holds no MCAP file", f"{path}: no {SUFFIX}")
    items = (_item(uri, span, folder, dataset, options) for uri, span in parts)
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=len(parts),
            items=items,
            warnings=tuple(warnings),
        )
    ]


def _folders_with_mcap(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders at or below one that hold MCAP files, and the names of these files."""
    for parent, subfolders, file_names in walk_folders(folder):
        subfolders.sort()
        names = sorted(name for name in file_names if Path(name).suffix.lower() == SUFFIX)
        if names:
            yield parent, names


def _recording_uris(
    folder: Path, names: list[str], warnings: dict[str, None], *, is_single_file: bool
) -> list[str]:
    """The recordings in a folder: rosbag2's metadata.yaml where it lists several files, and every other file."""
    metadata = folder / ROSBAG2_METADATA
    listed: set[str] = set()
    if metadata.is_file() and not is_single_file:
        try:
            listed = {Path(path).name for path in recording_files(str(metadata))}
        except SourceError as error:
            warnings[f"{error.reason}, so each file is read as one episode"] = None
    bag = [str(metadata)] if len(listed) > 1 else []
    return bag + [str(folder / name) for name in names if not (bag and name in listed)]


def _episode_spans(uri: str) -> list[EpisodeSpan | SourceError | None]:
    """The episodes of a recording; a single None where it is one episode, or cannot be read and fails when loaded."""
    try:
        return [*read_spans(recording_files(uri))] or [None]
    except SourceError:
        return [None]


def _item(
    uri: str, span: EpisodeSpan | SourceError | None, folder: Path, dataset: str, options: IngestOptions
) -> Item:
    path = parse_path(uri)
    recording = path.parent if path.name == ROSBAG2_METADATA else path
    key = recording.relative_to(folder).as_posix() if recording != folder else folder_name(folder)
    location = str(recording)
    if isinstance(span, SourceError):
        key, location = f"{key}#{span.detail}", f"{location}, its metadata"
    elif span:
        key, location = f"{key}#{span.key}", f"{location}, episode {span.key}"
    identity = make_episode_id(format=FORMAT, dataset=dataset, version="", split="", key=key)
    if isinstance(span, SourceError):
        return failing_item(identity, location, span)
    load = functools.partial(load_recording, uri, key, dataset, identity, options.rate_hz, span)
    return Item(episode_id=identity, location=location, load=load)


mcap = Ingester(name=FORMAT, recognises=recognises, open=open_mcap_dataset)
