"""A folder of recordings as one dataset, for MCAP files and ROS bags alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ares.errors import SourceError
from ares.formats import INFO_PATH
from ares.io import absolute_path, folder_name
from ingest.base import IngestOptions, Item, Source
from ingest.mcap.files import folders_with_files, list_recording_files, recording_uris
from ingest.mcap.spec_topics import SpecTopics, topics_of_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingDataset:
    """The recordings at and below a path.

    Attributes:
        folder: Folder of the dataset; that of the file where the path is one.
        name: Name of the dataset.
        uris: The recordings, see `ingest.mcap.files.recording_uris`.
        warnings: What was found strange.
        rate_hz: Rate set by the user, or None.
        spec_topics: What the user's spec says of the topics.
    """

    folder: Path
    name: str
    uris: tuple[str, ...]
    warnings: tuple[str, ...]
    rate_hz: float | None
    spec_topics: SpecTopics

    def source(self, format: str, items: Iterator[Item], total: int, *, fragile: bool = False) -> Source:
        """The dataset with its episodes."""
        return Source(
            format=format,
            dataset=self.name,
            version="",
            total=total,
            items=items,
            warnings=self.warnings,
            fragile=fragile,
            folder=str(self.folder),
            files=functools.partial(list_recording_files, self.uris),
        )


def holds_recordings(path: str, is_recording: Callable[[str], bool]) -> bool:
    """Whether a path is a recording, or a folder with recordings at any depth that is not a LeRobot dataset."""
    root = absolute_path(path)
    if root.is_file():
        return is_recording(root.name)
    if (root / INFO_PATH).exists():
        return False
    return next(folders_with_files(root, is_recording), None) is not None


def open_recordings(
    path: str, options: IngestOptions, is_recording: Callable[[str], bool], none_error: SourceError
) -> RecordingDataset:
    """Find the recordings at a path. Raises `none_error` without any, SourceError for a spec that cannot be read."""
    from ingest.dataset_spec import read_spec

    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    warnings: dict[str, None] = {}
    uris = tuple(recording_uris(root, is_recording, warnings))
    if not uris:
        raise none_error
    return RecordingDataset(
        folder=folder,
        name=options.dataset or folder_name(folder),
        uris=uris,
        warnings=tuple(warnings),
        rate_hz=options.rate_hz,
        spec_topics=topics_of_spec(read_spec(Path(options.spec)) if options.spec else None),
    )
