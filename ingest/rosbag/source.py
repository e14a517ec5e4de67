"""Ingester for recordings of ROS 1 (.bag) and of ROS 2 in SQLite (.db3): each file or rosbag2 folder is an episode."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path

from ares.episode import make_episode_id
from ares.errors import SourceError
from ares.extras import missing_extra
from ares.formats import INFO_PATH
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
from ingest.mcap import (
    SpecTopics,
    folders_with_files,
    list_recording_files,
    recording_key,
    recording_path,
    recording_uris,
    topics_of_spec,
)
from ingest.rosbag.episode import FORMAT, load_bag

SUFFIXES = (".db3", ".bag", ".bag.active")
# rosbag2's compression mode "file"; SQLite cannot read such a file in place.
_PACKED_SUFFIXES = (".db3.zstd", ".db3.zst")


def _is_bag(name: str) -> bool:
    return name.lower().endswith((*SUFFIXES, *_PACKED_SUFFIXES))


def recognises(path: str) -> bool:
    """Whether a path is a bag, or a folder with bags at any depth that is not a LeRobot dataset."""
    root = absolute_path(path)
    if root.is_file():
        return _is_bag(root.name)
    if (root / INFO_PATH).exists():
        return False
    return next(folders_with_files(root, _is_bag), None) is not None


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
    root = absolute_path(path)
    folder = root.parent if root.is_file() else root
    dataset = options.dataset or folder_name(folder)
    warnings: dict[str, None] = {}
    uris = list(recording_uris(root, _is_bag, warnings))
    if not uris:
        raise SourceError("folder holds no ROS bag", f"{path}: no {', '.join(SUFFIXES)}")
    spec_topics = topics_of_spec(read_spec(Path(options.spec)) if options.spec else None)
    items = (_item(uri, folder, dataset, options, spec_topics) for uri in uris)
    return [
        Source(
            format=FORMAT,
            dataset=dataset,
            version="",
            total=len(uris),
            items=items,
            warnings=tuple(warnings),
            fragile=any(uri.lower().endswith(".db3") for uri in uris),
            folder=str(folder),
            files=functools.partial(list_recording_files, tuple(uris)),
        )
    ]


def _item(uri: str, folder: Path, dataset: str, options: IngestOptions, spec_topics: SpecTopics) -> Item:
    key, location = recording_key(uri, folder), str(recording_path(uri))
    identity = make_episode_id(format=FORMAT, dataset=dataset, version="", split="", key=key)
    if uri.lower().endswith(_PACKED_SUFFIXES):
        error = SourceError("file is compressed as a whole", f"{uri}: unpack it with `zstd -d`")
        return failing_item(identity, location, error)
    load = functools.partial(load_bag, uri, key, dataset, identity, options.rate_hz, spec_topics)
    return Item(episode_id=identity, location=location, load=load)


rosbag = Ingester(name=FORMAT, recognises=recognises, open=open_bags, claims=claims)
