"""Folders and what lies in them: listed from local disks and object stores, once each where a listing is kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ares.io.paths_and_urls import describe_os_error, parse_path, translate_remote_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntries:
    """What lies directly in a folder.

    Attributes:
        path: The folder.
        folders: Names of its subfolders, sorted; links to folders among them.
        files: Bytes of its files by name, sorted; 0 for a link whose target is missing.
        links: Names of the subfolders and files that are symbolic links.
        missing: Names of the files that are links whose target is missing.
        special: Names of what is neither a file nor a folder: pipes, sockets, devices.
        suffixes: Suffixes of its files that are not hidden, in lower case; of "a.tar.gz" both ".gz" and ".tar.gz".
        error: Why the folder cannot be listed, or "".
    """

    path: Path
    folders: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict)
    links: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    special: tuple[str, ...] = ()
    suffixes: frozenset[str] = frozenset()
    error: str = ""

    def has_file(self, relative: str) -> bool:
        """Whether there is a file at a relative path with "/"; the subfolder is listed only where its name is here."""
        name, _, rest = relative.partition("/")
        if not rest:
            return name in self.files
        return name in self.folders and list_folder(self.path / name).has_file(rest)


# Listings by the path of their folder, which answer in place of the disk; see `use_folder_listings`.
_KNOWN_FOLDERS: ContextVar[Mapping[str, FolderEntries] | None] = ContextVar("known_folders", default=None)


@contextmanager
def use_folder_listings(listings: Mapping[str, FolderEntries]) -> Iterator[None]:
    """Within the block, `list_folder` and `walk_folders` answer from these listings and list no folder themselves.

    Args:
        listings: By the path of each folder. A folder that is not among them counts as empty.
    """
    token = _KNOWN_FOLDERS.set(listings)
    try:
        yield
    finally:
        _KNOWN_FOLDERS.reset(token)


@contextmanager
def cache_folder_listings() -> Iterator[None]:
    """Within the block, `list_folder` and `walk_folders` list each folder at most once and remember it."""
    with use_folder_listings(_ListedOnce()):
        yield


class _ListedOnce(dict[str, FolderEntries]):
    """Listings that are made when they are first asked for."""

    def __missing__(self, path: str) -> FolderEntries:
        entries = self[path] = _read_folder(parse_path(path))
        return entries


def list_folder(folder: Path) -> FolderEntries:
    """What lies in a folder; a local folder that cannot be listed is empty and has an `error`.

    Raises OSError when a server cannot be reached.
    """
    listings = _KNOWN_FOLDERS.get()
    if isinstance(listings, _ListedOnce):
        return listings[str(folder)]
    if listings is not None:
        return listings.get(str(folder)) or FolderEntries(path=folder)
    return _read_folder(folder)


def _read_folder(folder: Path) -> FolderEntries:
    if not isinstance(folder, Path):
        return _list_remote(folder)
    try:
        return _list_local(folder)
    except OSError as error:
        return FolderEntries(path=folder, error=describe_os_error(error))


def walk_folders(folder: Path, follow_links: bool = False) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Like os.walk, also for URLs: each folder with the sorted names of its subfolders and files.

    As with os.walk, the caller may change the list of subfolders to skip some of them, and local folders that cannot
    be listed are left out. Raises as `list_folder`.
    """
    waiting = [folder]
    while waiting:
        entries = list_folder(waiting.pop())
        if entries.error:
            continue
        subfolders = list(entries.folders)
        yield entries.path, subfolders, list(entries.files)
        waiting += [
            entries.path / name for name in reversed(subfolders) if follow_links or name not in entries.links
        ]


def _list_local(folder: Path) -> FolderEntries:
    folders: list[str] = []
    files: dict[str, int] = {}
    links, missing, special = set(), set(), []
    with os.scandir(folder) as scan:
        for entry in sorted(scan, key=lambda entry: entry.name):
            is_link = entry.is_symlink()
            if is_link:
                links.add(entry.name)
            state = _stat_entry(entry)
            if state is None:
                missing.add(entry.name)
                files[entry.name] = 0
            elif stat.S_ISDIR(state.st_mode):
                folders.append(entry.name)
            elif stat.S_ISREG(state.st_mode):
                files[entry.name] = state.st_size
            else:
                special.append(entry.name)
    return FolderEntries(
        path=folder,
        folders=tuple(folders),
        files=files,
        links=frozenset(links),
        missing=frozenset(missing),
        special=tuple(special),
        suffixes=_file_suffixes(files),
    )


def _stat_entry(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def _list_remote(folder: Any) -> FolderEntries:
    with translate_remote_errors(str(folder)):
        listed = folder.fs.ls(folder.path, detail=True)
    # An object store may list a folder as an empty object inside itself.
    entries = {entry["name"].rstrip("/"): entry for entry in listed}
    entries.pop(folder.path.rstrip("/"), None)
    children = [(path.rpartition("/")[2], entry) for path, entry in sorted(entries.items())]
    files = {name: int(entry.get("size") or 0) for name, entry in children if entry["type"] != "directory"}
    return FolderEntries(
        path=folder,
        folders=tuple(name for name, entry in children if entry["type"] == "directory"),
        files=files,
        suffixes=_file_suffixes(files),
    )


def _file_suffixes(names: Mapping[str, int]) -> frozenset[str]:
    suffixes = set()
    for name in names:
        if name.startswith("."):
            continue
        parts = name.lower().rsplit(".", 2)
        suffixes.add(f".{parts[-1]}" if len(parts) > 1 else "")
        if len(parts) == 3:
            suffixes.add(f".{parts[1]}.{parts[2]}")
    return frozenset(suffixes)
