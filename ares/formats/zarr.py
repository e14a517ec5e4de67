"""Zarr stores on disk: folders and zip files, recognised by their metadata files."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ares.errors import SourceError
from ares.input import open_zip
from ares.io import is_url, walk_folders

ZIP_SUFFIX = ".zarr.zip"
_GROUP_FILES = frozenset({".zgroup", "zarr.json", ".zmetadata"})
_METADATA_FILES = frozenset({*_GROUP_FILES, ".zarray", ".zattrs"})


def is_zarr_folder(names: Collection[str]) -> bool:
    """Whether a folder with files of these names is a Zarr group (version 2 or 3)."""
    return not _GROUP_FILES.isdisjoint(names)


def is_zarr_zip(path: Path) -> bool:
    """Whether a file is a zipped Zarr store: by its name, or by the group at the root of another zip file."""
    if path.name.lower().endswith(ZIP_SUFFIX):
        return True
    if path.suffix.lower() != ".zip" or is_url(str(path)):
        return False
    try:
        with open_zip(str(path)) as archive:
            return is_zarr_folder(archive.namelist())
    except (SourceError, OSError):
        return False


def zarr_metadata_files(folder: str) -> list[str]:
    """The metadata files of a store in a folder, sorted: they change whenever an array grows or is replaced."""
    files: list[str] = []
    for parent, subfolders, names in walk_folders(Path(folder)):
        if _is_array_folder(subfolders, names):
            subfolders.clear()  # of its chunks there may be millions
        files += [str(parent / name) for name in names if name in _METADATA_FILES]
    return sorted(files)


def _is_array_folder(subfolders: Collection[str], names: Collection[str]) -> bool:
    return ".zarray" in names or ("zarr.json" in names and "c" in subfolders)
