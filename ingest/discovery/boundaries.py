"""Where the datasets of a tree begin: folders that say so themselves, and the folders of loose records."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ares.io import FolderEntries
from ingest.base import Ingester
from ingest.discovery.tree import FolderTree, SortedPaths, ask


class UsedFiles:
    """Files of a tree that an opened dataset has accounted for, by folder.

    Attributes:
        names: Names of such files by the path of their folder.
        folders: Folders all of whose content belongs to a dataset that could not be opened.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.folders: set[str] = set()

    def add(self, path: str) -> None:
        """Take a file."""
        folder, _, name = path.rpartition("/")
        self.names.setdefault(folder, set()).add(name)

    def rest_of(self, entries: FolderEntries) -> FolderEntries:
        """The folder without the files that are taken."""
        names = self.names.get(str(entries.path))
        if not names:
            return entries
        files = {name: size for name, size in entries.files.items() if name not in names}
        if len(files) == len(entries.files):
            return entries
        suffixes = (suffix for suffix in entries.suffixes if any(_ends(name, suffix) for name in files))
        return replace(entries, files=files, suffixes=frozenset(suffixes))


def _ends(name: str, suffix: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(suffix)


def view(
    tree: FolderTree, folder: str, used_files: UsedFiles, without: Collection[str] = ()
) -> dict[str, FolderEntries]:
    """The listings of a subtree without files that are taken and without some folders, for one reader."""
    hidden = {path for path in (*without, *used_files.folders) if path != folder}
    listings = {}
    waiting = [folder]
    while waiting:
        entries = tree.folders.get(waiting.pop())
        if entries is None:
            continue
        listings[str(entries.path)] = used_files.rest_of(entries)
        below = (str(entries.path / name) for name in entries.folders)
        waiting += [path for path in below if path not in hidden]
    return listings


def path_listings(folder: str, path: str, tree: FolderTree) -> dict[str, FolderEntries]:
    """Listings of the folders from one down to the tree, each with nothing but the next in it."""
    listings: dict[str, FolderEntries] = {}
    at = child = tree.root
    while str(child) != folder and child != child.parent:
        parent = child.parent
        listings[str(parent)] = FolderEntries(path=parent, folders=(child.name,))
        child = parent
    if path != str(at) and not tree.file:
        relative = path[len(str(at)) + 1 :].split("/")
        for name in relative:
            listings[str(at)] = FolderEntries(path=at, folders=(name,))
            at /= name
    return listings


def loose_roots(
    tree: FolderTree,
    ingester: Ingester,
    ingesters: Iterable[Ingester],
    used_files: UsedFiles,
    known: Collection[str],
    opened: Collection[str] = (),
) -> list[str]:
    """The folders of the datasets that loose records of a format make, sorted.

    A folder is one dataset when it holds records itself, when only this format lies below it, when the format says
    that what lies in its subfolders belongs together, or when the workspace knows it as one.

    Args:
        tree: The tree.
        ingester: The format.
        ingesters: All formats.
        used_files: Files that other datasets use.
        known: Folders that the workspace knows as datasets of the format.
        opened: Folders of the datasets of all formats that were opened before.
    """
    holders = _holders(tree, ingester, used_files)
    if not holders:
        return []
    holder_paths = SortedPaths(holders)
    others = SortedPaths((*_other_data(tree, ingester, ingesters, used_files, holders), *known))
    known_paths, opened_paths = SortedPaths(known), SortedPaths(opened)
    roots: list[str] = []
    waiting = [str(tree.root)]
    while waiting:
        folder = waiting.pop()
        if not holder_paths.any_below(folder):
            continue
        is_mixed = others.any_below(folder) or any(path != folder for path in opened_paths.below(folder))
        is_root = folder in holders or folder in known or not is_mixed
        if is_root or _joins(tree, ingester, folder, used_files):
            roots += {folder: None, **dict.fromkeys(known_paths.below(folder))}
        else:
            waiting += reversed(tree.children(folder))
    return roots


def _holders(tree: FolderTree, ingester: Ingester, used_files: UsedFiles) -> set[str]:
    """Folders in which records of a format lie that no dataset has taken; for a store, the folder that holds it."""
    holders: set[str] = set()
    for path, claim in tree.claims.get(ingester.name, {}).items():
        entries = tree.folders[path]
        if claim == "dataset" or lies_in(path, used_files.folders):
            continue
        rest = used_files.rest_of(entries)
        if rest is not entries and ask(ingester, rest) is None:
            continue
        is_inner_store = claim == "store" and entries.path != tree.root
        holders.add(str(entries.path.parent) if is_inner_store else path)
    return holders


def _other_data(
    tree: FolderTree,
    ingester: Ingester,
    ingesters: Iterable[Ingester],
    used_files: UsedFiles,
    holders: Collection[str],
) -> set[str]:
    """Folders with data of other formats, but for those that this format may use among its own records."""
    others: set[str] = set()
    for other in ingesters:
        claims = tree.claims.get(other.name, {})
        others.update(path for path, claim in claims.items() if claim == "dataset")
        if other.name == ingester.name:
            continue
        loose = _holders(tree, other, used_files)
        is_used = other.name in ingester.uses
        others.update(path for path in loose if not (is_used and lies_in(path, holders)))
    return others


def lies_in(path: str, folders: Collection[str]) -> bool:
    """Whether a folder is one of some folders or lies in one."""
    while folders and path not in folders:
        parent, _, _ = path.rpartition("/")
        if not parent or parent == path:
            return False
        path = parent
    return bool(folders)


def _joins(tree: FolderTree, ingester: Ingester, folder: str, used_files: UsedFiles) -> bool:
    if ingester.joins is None:
        return False
    listings = view(tree, folder, used_files)
    names = [
        f"{path[len(folder) + 1 :]}/{name}" if path != folder else name
        for path, entries in listings.items()
        for name in entries.files
    ]
    return ingester.joins(names)
