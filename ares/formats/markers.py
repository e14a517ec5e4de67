"""Recognises ROS 2 recordings and Zarr stores by their metadata files, and lists what belongs to them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ares.errors import SourceError
from ares.input import open_zip, read_yaml
from ares.io import describe_os_error, is_url, parse_path, walk_folders

ROSBAG2_METADATA = "metadata.yaml"


def recording_files(uri: str) -> list[str]:
    """The files of a recording in order: a single file itself, or those that rosbag2's metadata.yaml lists.

    Raises SourceError for a metadata.yaml that cannot be read, or lists a file outside its folder.
    """
    path = parse_path(uri)
    if path.name != ROSBAG2_METADATA:
        return [uri]
    names = _listed_files(path)
    outside = [name for name in names if Path(name).is_absolute() or ".." in Path(name).parts]
    if outside:
        raise SourceError("a file of the recording lies outside its folder", f"{uri}: {outside[0]!r}")
    return [str(path.parent / name) for name in names]


def _listed_files(path: Path) -> list[str]:
    try:
        document = read_yaml(str(path))
    except OSError as error:
        raise SourceError("metadata.yaml cannot be read", f"{path}: {describe_os_error(error)}") from None
    bag = document.get("rosbag2_bagfile_information") if isinstance(document, dict) else None
    names = bag.get("relative_file_paths") if isinstance(bag, dict) else None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise SourceError("metadata.yaml lists no files", f"{path}: rosbag2_bagfile_information")
    return names


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
