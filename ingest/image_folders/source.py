"""Ingester for a folder of CSV tables and images for each episode, and what all folders of images share."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from ares.errors import SourceError
from ares.formats import INFO_PATH
from ares.io import FolderEntries, absolute_path, folder_name, list_folder
from ares_ingest.base import (
    FolderClaim,
    FolderIngester,
    Item,
    Source,
    SourceFile,
    SourceOptions,
    find_claimed_folders,
)
from ares_ingest.files import local_files
from ares_ingest.folder_layouts import read_folder_layout
from ares_ingest.image_folders.descriptions import (
    PICKLE_REASON,
    PICKLE_SUFFIXES,
    TABLE_SUFFIXES,
    find_description_files,
    list_table_paths,
)
from ares_ingest.image_folders.episode import TABLES, FolderEntry, load_episode
from ares_ingest.image_folders.pictures import PICTURE_SUFFIXES, holds_images, image_folders
from ares_ingest.signals import SpecTimeArray, find_spec_time_array

_MOST_FOLDERS = 16
# Beside videos a table describes them.
_VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi")


def _has_table(folder: Path) -> bool:
    return not list_folder(folder).suffixes.isdisjoint(TABLE_SUFFIXES)


def _is_signal_table(name: str) -> bool:
    stem, _, suffix = name.lower().rpartition(".")
    return f".{suffix}" in TABLE_SUFFIXES and stem in read_folder_layout("tables").match["tables"]


def open_episode_folders(
    ingester: FolderIngester, path: str, options: SourceOptions, missing: SourceError
) -> list[Source]:
    """Open a folder of episodes, or that of one, as a dataset. Raises `missing` when there is no episode."""
    from ares_ingest.spec import read_spec

    root = absolute_path(path)
    folders = list(find_claimed_folders(ingester, root)) if root.is_dir() else []
    if not folders:
        raise missing
    dataset = options.dataset or folder_name(root)
    time = find_spec_time_array(read_spec(Path(options.spec)) if options.spec else None)
    items = (_make_item(ingester.name, root, folder, dataset, options.rate_hz, time) for folder in folders)
    return [
        Source(
            format=ingester.name,
            dataset=dataset,
            total=len(folders),
            items=items,
            folder=str(root),
            files=functools.partial(_list_files, folders),
        )
    ]


def _make_item(
    format: str, root: Path, folder: Path, dataset: str, rate_hz: float | None, time: SpecTimeArray
) -> Item:
    key = folder.relative_to(root).as_posix() if folder != root else folder.name
    entry = FolderEntry(
        format=format, folder=str(folder), dataset=dataset, key=key, rate_hz=rate_hz, time=time
    )
    load = functools.partial(load_episode, entry)
    files = local_files(map(str, find_description_files(folder)))
    return Item(episode_id=entry.episode_id, location=str(folder), load=load, key=key, described_by=files)


def _list_files(folders: list[Path]) -> Iterator[SourceFile]:
    for folder in folders:
        yield from (SourceFile(path=str(path), use="data") for path in list_table_paths(folder))
        yield from (SourceFile(path=str(path), use="metadata") for path in find_description_files(folder))
        for name in list_folder(folder).files:
            if name.lower().endswith(PICKLE_SUFFIXES):
                yield SourceFile(path=str(folder / name), use="unused", detail=PICKLE_REASON)
        for entries in image_folders(folder):
            names = (name for name in entries.files if name.lower().endswith(PICTURE_SUFFIXES))
            yield from (SourceFile(path=str(entries.path / name), use="data") for name in names)


class TableFolderIngester(FolderIngester):
    """Opens datasets of the format `csv`."""

    name = TABLES

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is an episode: tables with images beside or below them, or tables named for signals."""
        is_other = folder.has_file(INFO_PATH) or not folder.suffixes.isdisjoint(_VIDEO_SUFFIXES)
        if is_other or folder.suffixes.isdisjoint(TABLE_SUFFIXES):
            return None
        if holds_images(folder) or any(_is_signal_table(name) for name in folder.files):
            return "data"
        below = folder.folders[: _MOST_FOLDERS + 1]
        # A folder of many folders holds episodes, and its table describes them.
        if len(below) > _MOST_FOLDERS or any(_has_table(folder.path / name) for name in below):
            return None
        return "data" if any(True for _ in image_folders(folder.path)) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder of episodes, or that of one, as a dataset. Raises SourceError when there is no episode."""
        detail = f"{path}: no .csv or .tsv with images"
        missing = SourceError("folder holds no episode of tables and images", detail)
        return open_episode_folders(self, path, options, missing)


csv_episodes = TableFolderIngester()
