"""Ingester for a folder of CSV tables and images for each episode, and what all folders of images share."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    failing_item,
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
from ares_ingest.image_folders.rows import find_named_videos, list_episodes, list_row_tables, read_row_table
from ares_ingest.image_folders.tables import VIDEO_SUFFIXES
from ares_ingest.signals import find_spec_time_array

_MOST_FOLDERS = 16
_SPLITS = ("train", "val", "validation", "test", "eval")


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
    tables = {folder: _list_tables(ingester, folder) for folder in folders}
    entry = FolderEntry(
        format=ingester.name, folder="", dataset=dataset, key="", rate_hz=options.rate_hz, time=time
    )
    items = [
        item
        for folder, parts in tables.items()
        for item in (
            _list_row_items(entry, root, folder, parts) if parts else [_make_item(entry, root, folder)]
        )
    ]
    return [
        Source(
            format=ingester.name,
            dataset=dataset,
            total=len(items),
            items=iter(items),
            folder=str(root),
            files=functools.partial(_list_files, tables),
        )
    ]


def _list_tables(ingester: FolderIngester, folder: Path) -> list[tuple[str, ...]]:
    """The tables below a folder whose rows are steps of several episodes."""
    return list_row_tables(_find_row_folder(list_folder(folder))) if ingester.name == TABLES else []


def _find_row_folder(folder: FolderEntries) -> FolderEntries:
    """Where the tables of a dataset lie: LeRobot before v2.0 has a folder of them beside that of its metadata."""
    name = next((name for name in ("data", "train") if name in folder.folders), "")
    return list_folder(folder.path / name) if name and "meta_data" in folder.folders else folder


def _list_row_items(
    entry: FolderEntry, root: Path, folder: Path, tables: list[tuple[str, ...]]
) -> Iterator[Item]:
    """An item for each episode of the tables of a folder."""
    for paths in tables:
        table = Path(paths[0])
        name = table.stem.partition("-")[0]
        prefix = (table.parent / name if len(tables) > 1 else table.parent).relative_to(root).as_posix()
        split = next((word for word in (name, table.parent.name) if word in _SPLITS), "")
        try:
            parts = list_episodes(paths)
        except SourceError as error:
            failing = replace(entry, key=f"{prefix}/{table.name}")
            yield failing_item(failing.episode_id, str(table), SourceError(error.reason, error.detail))
            continue
        for rows in parts:
            key = f"{prefix}/{rows.value if rows.column else Path(rows.paths[0]).name}".removeprefix("./")
            of_rows = replace(entry, folder=str(folder), key=key, rows=rows, split=split)
            load = functools.partial(load_episode, of_rows)
            location = f"{rows.paths[0]}, {rows.column} {rows.value}" if rows.column else rows.paths[0]
            yield Item(episode_id=of_rows.episode_id, location=location, load=load, key=key)


def _make_item(entry: FolderEntry, root: Path, folder: Path) -> Item:
    key = folder.relative_to(root).as_posix() if folder != root else folder.name
    entry = replace(entry, folder=str(folder), key=key)
    load = functools.partial(load_episode, entry)
    files = local_files(map(str, find_description_files(folder)))
    return Item(episode_id=entry.episode_id, location=str(folder), load=load, key=key, described_by=files)


def _list_files(tables: Mapping[Path, list[tuple[str, ...]]]) -> Iterator[SourceFile]:
    for folder, parts in tables.items():
        for path in (path for paths in parts for path in paths):
            yield SourceFile(path=path, use="data")
        for paths in parts:
            table = read_row_table(paths)
            videos = (video for name in table.names for video in find_named_videos(table, name, paths[0]))
            yield from (SourceFile(path=video, use="data") for video in videos)
        if parts:
            metadata = (name for name in list_folder(folder).files if name.endswith(".json"))
            yield from (SourceFile(path=str(folder / name), use="metadata") for name in metadata)
            continue
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
        of_rows = _find_row_folder(folder)
        if not folder.has_file(INFO_PATH) and list_row_tables(of_rows):
            return "dataset" if of_rows is not folder else "data"
        # Beside videos a table describes them.
        is_other = folder.has_file(INFO_PATH) or not folder.suffixes.isdisjoint(VIDEO_SUFFIXES)
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
