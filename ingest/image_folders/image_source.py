"""Ingester for a folder of numbered images for each episode that a text describes."""

from __future__ import annotations

import re
from pathlib import Path

from ares.errors import SourceError
from ares.io import FolderEntries, list_folder
from ares_ingest.base import FolderClaim, FolderIngester, Source, SourceOptions
from ares_ingest.image_folders.descriptions import PICKLE_SUFFIXES, choose_description_files
from ares_ingest.image_folders.episode import IMAGES
from ares_ingest.image_folders.pictures import PICTURE_SUFFIXES, count_images
from ares_ingest.image_folders.source import open_episode_folders

# What may lie beside the images of an episode; anything else is data of another format.
_ALLOWED_SUFFIXES = frozenset({"", ".json", ".txt", ".md", *PICTURE_SUFFIXES, *PICKLE_SUFFIXES})
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
    has_only_images = _holds_only(folder, frozenset(PICTURE_SUFFIXES)) and not folder.folders
    return has_only_images and count_images(folder) >= _FEWEST_IMAGES


def _is_described_beside(folder: Path) -> bool:
    files = list_folder(folder.parent).files
    return any(f"{folder.name}{suffix}" in files for suffix in (".json", ".txt"))


class ImageFolderIngester(FolderIngester):
    """Opens datasets of the format `images`."""

    name = IMAGES

    def claims(self, folder: FolderEntries) -> FolderClaim | None:
        """Whether a folder is an episode: images with a file that describes them."""
        if not _holds_only(folder, _ALLOWED_SUFFIXES):
            return None
        if count_images(folder) < _FEWEST_IMAGES and not _has_camera_folders(folder):
            return None
        described = choose_description_files(folder.files, folder.path.name)
        return "data" if described or _is_described_beside(folder.path) else None

    def open(self, path: str, options: SourceOptions) -> list[Source]:
        """Open a folder of episodes, or that of one, as a dataset. Raises SourceError when there is no episode."""
        detail = f"{path}: no numbered images with a description"
        return open_episode_folders(
            self, path, options, SourceError("folder holds no episode of images", detail)
        )


image_episodes = ImageFolderIngester()
