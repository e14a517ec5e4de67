"""Ingester for a folder of numbered images for each episode: raw BridgeData V2, and others that a text describes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from ares.errors import SourceError
from ares.io import FolderEntries, absolute_path, folder_name, is_url, list_folder, walk_folders
from ares.media import IMAGE_SUFFIXES
from ingest.base import FolderClaim, FolderIngester, Item, Source, SourceFile, SourceOptions
from ingest.depth import DEPTH_SUFFIXES
from ingest.image_folders.image_episode import (
    FORMAT,
    PICKLE_REASON,
    PICKLE_SUFFIXES,
    ImageEntry,
    choose_description_files,
    find_bridge_session_file,
    find_description_files,
    is_bridge_folder,
    load_episode,
)
from ingest.image_folders.table_episode import count_images, image_folders

# What may lie beside the images of an episode; anything else is data of another format.
_ALLOWED_SUFFIXES = frozenset(
    {"", ".json", ".txt", ".md", *IMAGE_SUFFIXES, *DEPTH_SUFFIXES, *PICKLE_SUFFIXES}
)
_FEWEST_IMAGES = 2
_MOST_CAMERAS = 16
# Folders of other episodes, not of cameras.
_EPISODE_FOLDER = re.compile(
    r"((episode|ep|traj|trajectory|demo|run|trial|seq|sequence)[_-]?)?\d+", re.IGNORECASE
)


def _holds_only(folder: FolderEntries, suffixes: frozenset[str]) -> bool:
    """Whether all files have one of some suffixes; stamps with a fraction ("17.5.png") are no part of them."""
    return {f".{suffix.rpartition('.')[2]}".rstrip(".") for suffix in folder.suffixes} <= suffixes


def _has_camera_folders(folder: FolderEntries) -> bool:
    """Whether the folders below are cameras: few, not numbered, and each with images and nothing else."""
    names = [name for name in folder.folders if name[0] != "."]
    if not 0 < len(names) <= _MOST_CAMERAS or any(_EPISODE_FOLDER.fullmatch(name) for name in names):
        return False
    return all(_is_camera_folder(list_folder(folder.path / name)) for name in names)


def _is_camera_folder(folder: FolderEntries) -> bool:
    return (
        _holds_only(folder, frozenset((*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)))
        and not folder.folders
        and count_images(folder) >= _FEWEST_IMAGES
    )


def _is_described_beside(folder: Path) -> bool:
    files = list_folder(folder.parent).files
    return any(f"{folder.name}{suffix}" in files for suffix in (".json", ".txt"))


def _episode_folders(root: Path) -> Iterator[Path]:
    """Folders of episodes, without looking below them."""
    for folder, below, _ in walk_folders(root):
        if image_episodes.claims(list_folder(folder)):
            below.clear()
            yield folder


def _image_item(root: Path, folder: Path, dataset: str, options: SourceOptions) -> Item:
    key = folder.relative_to(root).as_posix() if folder != root else folder.name
    entry = ImageEntry(folder=str(folder), dataset=dataset, key=key, rate_hz=options.rate_hz)
    load = functools.partial(load_episode, entry)
    return Item(episode_id=entry.episode_id, location=str(folder), load=load, key=key)


def _list_files(root: Path, folders: list[Path]) -> Iterator[SourceFile]:
    sessions: set[Path] = set()
    for folder in folders:
        yield from (SourceFile(path=str(path), use="metadata") for path in find_description_files(folder))
        for name in list_folder(folder).files:
            if name.lower().endswith(PICKLE_SUFFIXES):
                yield SourceFile(path=str(folder / name), use="unused", detail=PICKLE_REASON)
        for entries in image_folders(folder):
            yield from _image_files(folder, entries)
        session = find_bridge_session_file(folder)
        if session and session not in sessions and session.is_relative_to(root):
            sessions.add(session)
            yield SourceFile(path=str(session), use="metadata")
            plot = session.with_name("diagnostics.png")
            if plot.is_file():
                yield SourceFile(path=str(plot), use="not_data", detail="a plot of the recorder")


def _image_files(folder: Path, entries: FolderEntries) -> Iterator[SourceFile]:
    for name in entries.files:
        if name.lower().endswith((*IMAGE_SUFFIXES, *DEPTH_SUFFIXES)):
            yield SourceFile(path=str(entries.path / name), use="data")


class ImageFolderIngester(FolderIngester):
    """Opens datasets of the format `image_episodes`."""

    name = FORMAT

    def recognises(self, path: str) -> bool:
        """Whether a folder holds an episode of images at any depth."""
        root = absolute_path(path)
        return not is_url(str(root)) and root.is_dir() and next(_episode_folders(root), None) is not None

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is an episode: of BridgeData V2 by its name, else images with a file that describes them."""
        if not _holds_only(folder, _ALLOWED_SUFFIXES):
            return None
        if is_bridge_folder(folder.path):
            return "data" if any(name.startswith("images") for name in folder.folders) else None
        if count_images(folder) < _FEWEST_IMAGES and not _has_camera_folders(folder):
            return None
        is_described = bool(choose_description_files(folder.files, folder.path.name)) or _is_described_beside(
            folder.path
        )
        return "data" if is_described else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder of episodes, or that of one, as a dataset. Raises SourceError when there is no episode."""
        root = absolute_path(path)
        folders = list(_episode_folders(root)) if root.is_dir() else []
        if not folders:
            raise SourceError(
                "folder holds no episode of images", f"{path}: no numbered images with a description"
            )
        dataset = options.dataset or folder_name(root)
        return [
            Source(
                format=FORMAT,
                dataset=dataset,
                total=len(folders),
                items=(_image_item(root, folder, dataset, options) for folder in folders),
                folder=str(root),
                files=functools.partial(_list_files, root, folders),
            )
        ]


image_episodes = ImageFolderIngester()
