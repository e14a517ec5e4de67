"""Finds the recordings in folders: single files, and rosbag2 folders whose metadata.yaml lists several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ares.errors import SourceError
from ares.formats import ROSBAG2_METADATA, recording_files
from ares.io import folder_name, list_folder, parse_path, walk_folders
from ingest.base import SourceFile


def folders_with_files(folder: Path, is_recording: Callable[[str], bool]) -> Iterator[tuple[Path, list[str]]]:
    """Folders at or below one that hold recordings by their file names, and the names of these files."""
    for parent, subfolders, file_names in walk_folders(folder):
        subfolders.sort()
        names = sorted(name for name in file_names if is_recording(name))
        if names:
            yield parent, names


def recording_uris(
    root: Path, is_recording: Callable[[str], bool], warnings: dict[str, None]
) -> Iterator[str]:
    """The recordings at a path: the file itself, or all recordings at or below the folder."""
    if root.is_file():
        yield str(root)
        return
    for parent, names in folders_with_files(root, is_recording):
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


def recording_key(uri: str, folder: Path) -> str:
    """The key of a recording: its path in the dataset, or the name of the dataset's folder where it is all of it."""
    recording = recording_path(uri)
    return recording.relative_to(folder).as_posix() if recording != folder else folder_name(folder)


def recording_path(uri: str) -> Path:
    """The file of a recording, or the folder of one of several files."""
    path = parse_path(uri)
    return path.parent if path.name == ROSBAG2_METADATA else path
