"""Ingester for a folder of CSV tables and images for each episode."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

from ares.errors import SourceError
from ares.formats import INFO_PATH
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media import IMAGE_SUFFIXES
from ingest.base import FolderClaim, FolderIngester, Item, Source, SourceFile, SourceOptions
from ingest.image_folders.table_episode import (
    FORMAT,
    TABLE_SUFFIXES,
    CsvEntry,
    holds_images,
    image_folders,
    list_description_paths,
    list_table_paths,
    load_episode,
)
from ingest.signals import SpecTimeArray, find_spec_time_array

# A table of one of these names holds signals also where no image lies beside it.
_SIGNAL_TABLES = frozenset(
    {
        *("signal", "signals", "state", "states", "action", "actions", "trajectory", "steps", "joints"),
        *("joint_states", "proprio", "proprioception", "telemetry", "robot_state", "robot_states"),
    }
)
_MOST_FOLDERS = 16
# Beside videos a table describes them.
_VIDEO_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi")


def _has_table(folder: Path) -> bool:
    return not list_folder(folder).suffixes.isdisjoint(TABLE_SUFFIXES)


def _is_signal_table(name: str) -> bool:
    stem, _, suffix = name.lower().rpartition(".")
    return f".{suffix}" in TABLE_SUFFIXES and stem in _SIGNAL_TABLES


def _episode_folders(root: Path) -> Iterator[Path]:
    """Folders of episodes, without looking below them."""
    for folder, below, _ in walk_folders(root):
        if csv_episodes.claims(list_folder(folder)):
            below.clear()
            yield folder


def _table_item(root: Path, folder: Path, dataset: str, rate_hz: float | None, time: SpecTimeArray) -> Item:
    key = folder.relative_to(root).as_posix() if folder != root else folder.name
    entry = CsvEntry(folder=str(folder), dataset=dataset, key=key, rate_hz=rate_hz, time=time)
    load = functools.partial(load_episode, entry)
    return Item(episode_id=entry.episode_id, location=str(folder), load=load, key=key)


def _list_files(folders: list[Path]) -> Iterator[SourceFile]:
    for folder in folders:
        yield from (SourceFile(path=str(path), use="data") for path in list_table_paths(folder))
        yield from (SourceFile(path=str(path), use="metadata") for path in list_description_paths(folder))
        for entries in image_folders(folder):
            names = (name for name in entries.files if name.lower().endswith(IMAGE_SUFFIXES))
            yield from (SourceFile(path=str(entries.path / name), use="data") for name in names)


class TableFolderIngester(FolderIngester):
    """Opens datasets of the format `csv_episodes`."""

    name = FORMAT

    def recognises(self, path: str) -> bool:
        """Whether a folder holds an episode of tables and images, at any depth, and is no LeRobot dataset."""
        root = absolute_path(path)
        if is_url(str(root)) or not root.is_dir() or (root / INFO_PATH).exists():
            return False
        return next(_episode_folders(root), None) is not None

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
        from ingest.spec import read_spec

        root = absolute_path(path)
        folders = list(_episode_folders(root)) if root.is_dir() else []
        if not folders:
            raise SourceError(
                "folder holds no episode of tables and images", f"{path}: no .csv or .tsv with images"
            )
        dataset = options.dataset or folder_name(root)
        time = find_spec_time_array(read_spec(Path(options.spec)) if options.spec else None)
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=len(folders),
                items=(_table_item(root, folder, dataset, options.rate_hz, time) for folder in folders),
                folder=str(root),
                files=functools.partial(_list_files, folders),
            )
        ]


csv_episodes = TableFolderIngester()
