"""Finds recordings (MCAP, ROS bags) in a folder, and opens them as a dataset of episodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ares.errors import SourceError
from ares.formats import ROSBAG2_METADATA, recording_files
from ares.imports import missing_extra
from ares.io import FolderEntries, absolute_path, folder_name, list_folder, parse_path, walk_folders
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    failing_item,
)
from ares_ingest.recordings.episode import MCAP_FORMAT, RecordedEpisode, load_recording
from ares_ingest.recordings.recorded_spans import RecordedSpan, read_episode_spans
from ares_ingest.recordings.spec_topics import TopicsOfSpec, find_topics_of_spec

MCAP_SUFFIX = ".mcap"
ROSBAG_FORMAT = "rosbag"
BAG_SUFFIXES = (".db3", ".bag", ".bag.active")
# rosbag2's compression mode "file"; SQLite cannot read such a file in place.
_PACKED_BAG_SUFFIXES = (".db3.zstd", ".db3.zst")


def list_recording_folders(
    folder: Path, is_recording: Callable[[str], bool]
) -> Iterator[tuple[Path, list[str]]]:
    """Folders at or below one that hold recordings by their file names, and the names of these files."""
    for parent, subfolders, file_names in walk_folders(folder):
        subfolders.sort()
        names = sorted(name for name in file_names if is_recording(name))
        if names:
            yield parent, names


def list_recording_uris(
    root: Path, is_recording: Callable[[str], bool], warnings: dict[str, None]
) -> Iterator[str]:
    """The recordings at a path: the file itself, or all recordings at or below the folder."""
    if root.is_file():
        yield str(root)
        return
    for parent, names in list_recording_folders(root, is_recording):
        yield from _folder_uris(parent, names, warnings)


def _folder_uris(folder: Path, names: list[str], warnings: dict[str, None]) -> list[str]:
    """The recordings in a folder: rosbag2's metadata.yaml where it lists several files, and every other file."""
    metadata = folder / ROSBAG2_METADATA
    listed: set[str] = set()
    if metadata.is_file():
        try:
            listed = {Path(path).name for path in recording_files(str(metadata))}
        except SourceError as error:
            warnings[f"{error.reason}, so each file is read as one episode"] = None
    bag = [str(metadata)] if len(listed) > 1 and listed & set(names) else []
    return bag + [str(folder / name) for name in names if not (bag and name in listed)]


def list_recording_files(uris: Iterable[str]) -> Iterator[SourceFile]:
    """The files of recordings, and the metadata.yaml beside them."""
    folders: set[Path] = set()
    for uri in uris:
        folders.add(parse_path(uri).parent)
        yield from (SourceFile(path=path, use="data") for path in recording_files(uri))
    for folder in sorted(folders):
        if ROSBAG2_METADATA in list_folder(folder).files:
            yield SourceFile(path=str(folder / ROSBAG2_METADATA), use="metadata")


def make_recording_key(uri: str, folder: Path) -> str:
    """The key of a recording: its path in the dataset, or the name of the dataset's folder where it is all of it."""
    recording = find_recording_path(uri)
    return recording.relative_to(folder).as_posix() if recording != folder else folder_name(folder)


def find_recording_path(uri: str) -> Path:
    """The file of a recording, or the folder of one of several files."""
    path = parse_path(uri)
    return path.parent if path.name == ROSBAG2_METADATA else path


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingDataset:
    """The recordings at and below a path.

    Attributes:
        folder: Folder of the dataset; that of the file where the path is one.
        name: Name of the dataset.
        uris: The recordings, see `ares_ingest.recordings.source.list_recording_uris`.
        warnings: What was found strange.
        rate_hz: Rate set by the user, or None.
        spec_topics: What the user's spec says of the topics.
    """

    folder: Path
    name: str
    uris: tuple[str, ...]
    warnings: tuple[str, ...]
    rate_hz: float | None
    spec_topics: TopicsOfSpec

    def source(self, format: str, items: Iterator[Item], total: int, *, fragile: bool = False) -> Source:
        """The dataset with its episodes."""
        return Source(
            format=format,
            dataset=self.name,
            total=total,
            items=items,
            warnings=self.warnings,
            fragile=fragile,
            folder=str(self.folder),
            files=functools.partial(list_recording_files, self.uris),
        )

    def episode(self, format: str, uri: str, key: str) -> RecordedEpisode:
        """One of its recordings, as a whole."""
        return RecordedEpisode(
            uri=uri, format=format, dataset=self.name, key=key, rate_hz=self.rate_hz, topics=self.spec_topics
        )


def open_recordings(
    path: str, options: SourceOptions, is_recording: Callable[[str], bool], none_error: SourceError
) -> RecordingDataset:
    """Find the recordings at a path. Raises `none_error` without any, SourceError for a spec that cannot be read."""
    from ares_ingest.spec import read_spec

    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    warnings: dict[str, None] = {}
    uris = tuple(list_recording_uris(root, is_recording, warnings))
    if not uris:
        raise none_error
    return RecordingDataset(
        folder=folder,
        name=options.dataset or folder_name(folder),
        uris=uris,
        warnings=tuple(warnings),
        rate_hz=options.rate_hz,
        spec_topics=find_topics_of_spec(read_spec(Path(options.spec)) if options.spec else None),
    )


# URI of a recording and the part of it that is an episode: a span, an error, or None for all of it.
_RecordingPart = tuple[str, RecordedSpan | SourceError | None]


def _is_mcap(name: str) -> bool:
    return Path(name).suffix.lower() == MCAP_SUFFIX


def _episode_spans(uri: str) -> list[RecordedSpan | SourceError | None]:
    """The episodes of a recording; a single None where it is one episode, or cannot be read and fails when loaded."""
    try:
        return [*read_episode_spans(recording_files(uri))] or [None]
    except SourceError:
        return [None]


def _mcap_item(uri: str, span: RecordedSpan | SourceError | None, dataset: RecordingDataset) -> Item:
    key, location = make_recording_key(uri, dataset.folder), str(find_recording_path(uri))
    if isinstance(span, SourceError):
        key, location = f"{key}#{span.detail}", f"{location}, its metadata"
    elif span:
        key, location = f"{key}#{span.key}", f"{location}, episode {span.key}"
    recorded = dataset.episode(MCAP_FORMAT, uri, key)
    if isinstance(span, SourceError):
        return failing_item(recorded.episode_id, location, span)
    load = functools.partial(load_recording, replace(recorded, span=span))
    return Item(episode_id=recorded.episode_id, location=location, load=load, key=key)


class McapIngester(FolderIngester):
    """Opens datasets of the format `mcap`."""

    name = MCAP_FORMAT
    opens_files = True

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether MCAP files lie in a folder."""
        return "data" if MCAP_SUFFIX in folder.suffixes else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as one dataset.

        Raises:
            SourceError: There is no MCAP file.
            RequestError: The library mcap is not installed.
        """
        if find_spec("mcap") is None:
            raise missing_extra("mcap", "mcap")
        none_error = SourceError("folder holds no MCAP file", f"{path}: no {MCAP_SUFFIX}")
        dataset = open_recordings(path, options, _is_mcap, none_error)
        parts: list[_RecordingPart] = [(uri, span) for uri in dataset.uris for span in _episode_spans(uri)]
        items = (_mcap_item(uri, span, dataset) for uri, span in parts)
        return [dataset.source(MCAP_FORMAT, items, len(parts))]


mcap = McapIngester()


def _is_bag(name: str) -> bool:
    return name.lower().endswith((*BAG_SUFFIXES, *_PACKED_BAG_SUFFIXES))


def _bag_item(uri: str, dataset: RecordingDataset) -> Item:
    key, location = make_recording_key(uri, dataset.folder), str(find_recording_path(uri))
    recorded = dataset.episode(ROSBAG_FORMAT, uri, key)
    if uri.lower().endswith(_PACKED_BAG_SUFFIXES):
        error = SourceError("file is compressed as a whole", f"{uri}: unpack it with `zstd -d`")
        return failing_item(recorded.episode_id, location, error)
    load = functools.partial(load_recording, recorded)
    return Item(episode_id=recorded.episode_id, location=location, load=load, key=key)


class RosbagIngester(FolderIngester):
    """Opens datasets of the format `rosbag`."""

    name = ROSBAG_FORMAT
    opens_files = True

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether bags lie in a folder."""
        return None if folder.suffixes.isdisjoint((*BAG_SUFFIXES, *_PACKED_BAG_SUFFIXES)) else "data"

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder, or a single file, as one dataset.

        Raises:
            SourceError: There is no bag.
            RequestError: The library rosbags is not installed.
        """
        if find_spec("rosbags") is None:
            raise missing_extra("rosbags", "rosbag")
        none_error = SourceError("folder holds no ROS bag", f"{path}: no {', '.join(BAG_SUFFIXES)}")
        dataset = open_recordings(path, options, _is_bag, none_error)
        items = (_bag_item(uri, dataset) for uri in dataset.uris)
        fragile = any(uri.lower().endswith(".db3") for uri in dataset.uris)
        return [dataset.source(ROSBAG_FORMAT, items, len(dataset.uris), fragile=fragile)]


rosbag = RosbagIngester()
