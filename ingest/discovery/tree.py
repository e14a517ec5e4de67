"""One walk of a folder tree: every folder is listed once, and every ingester is asked what each folder is to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ares.errors import AresError, RequestError
from ares.input import input_budgets
from ares.io import FolderEntries, describe_os_error, folders_listed_once, list_folder
from ingest.base import FolderClaim, Ingester, SourceFile
from ingest.discovery.file_kinds import why_ignored
from ingest.guard import guarded_call

_WORKSPACE_FILE = "workspace.json"
_WORKSPACE_FOLDER = "lance"


@dataclass(slots=True)
class FolderTree:
    """The folders at and below a path, as they were listed.

    Attributes:
        root: The folder at the top.
        file: The one file of it that was asked for, or "".
        follow_links: Whether links to folders may lead out of it.
        folders: Listing of each folder by its path, parents first.
        claims: By format, what the folders are to it, by path.
        left_out: Folders that were not entered, and what is neither file nor folder, with reasons.
        faults: Errors of ingesters that could not be asked, by format.
    """

    root: Path
    file: str = ""
    follow_links: bool = False
    folders: dict[str, FolderEntries] = field(default_factory=dict)
    claims: dict[str, dict[str, FolderClaim]] = field(default_factory=dict)
    left_out: list[SourceFile] = field(default_factory=list)
    faults: dict[str, AresError] = field(default_factory=dict)

    def subtree(self, folder: str) -> Iterator[FolderEntries]:
        """The listings of a folder and all below it that were entered, parents first."""
        waiting = [folder]
        while waiting:
            entries = self.folders.get(waiting.pop())
            if entries is not None:
                yield entries
                waiting += [str(entries.path / name) for name in reversed(entries.folders)]

    def children(self, folder: str) -> list[str]:
        """Paths of the subfolders of a folder that were entered."""
        entries = self.folders[folder]
        paths = (str(entries.path / name) for name in entries.folders)
        return [path for path in paths if path in self.folders]

    def is_store(self, folder: str) -> bool:
        """Whether a folder is one record file of a format, whose content was not listed."""
        return any(claims.get(folder) == "store" for claims in self.claims.values())


def read_tree(path: Path, ingesters: Sequence[Ingester], follow_links: bool = False) -> FolderTree:
    """Walk a folder, or the folder of a file, of which then only the file is seen.

    Args:
        path: The folder or file.
        ingesters: The formats that are asked about every folder.
        follow_links: Whether links to folders may lead out of it.

    Raises RequestError when the path itself cannot be listed.
    """
    with folders_listed_once():
        return _read_tree(path, ingesters, follow_links)


def _read_tree(path: Path, ingesters: Sequence[Ingester], follow_links: bool) -> FolderTree:
    is_file = path.is_file()
    tree = FolderTree(path.parent if is_file else path, str(path) if is_file else "", follow_links)
    if is_file:
        entries = list_folder(tree.root)
        only = {path.name: entries.files.get(path.name, 0)}
        tree.folders[str(tree.root)] = replace(
            entries, folders=(), files=only, special=(), links=frozenset(), missing=frozenset()
        )
        return tree
    askable = [ingester for ingester in ingesters if ingester.claims is not None]
    for entries in _walk(tree):
        tree.folders[str(entries.path)] = entries
        _ask(tree, entries, askable)
    return tree


def _walk(tree: FolderTree) -> Iterator[FolderEntries]:
    """List each folder once; links are followed last, and only to folders that were not reached without them."""
    entered: set[tuple[int, int]] = set()
    waiting, links = [tree.root], list[Path]()
    while waiting or links:
        through_link = not waiting
        folder = waiting.pop() if waiting else links.pop(0)
        state = folder.stat() if isinstance(folder, Path) else None
        if state is not None and (state.st_dev, state.st_ino) in entered:
            if through_link:
                _leave_out(tree, folder, "a link to a folder that is read where it lies")
            continue
        if state is not None:
            entered.add((state.st_dev, state.st_ino))
        entries = _list(tree, folder)
        if entries is None:
            continue
        yield entries
        if tree.is_store(str(folder)):
            continue
        below = [name for name in entries.folders if _enters(tree, entries, name)]
        links += [
            folder / name for name in below if name in entries.links and _may_follow(tree, folder / name)
        ]
        waiting += [folder / name for name in reversed(below) if name not in entries.links]


def _list(tree: FolderTree, folder: Path) -> FolderEntries | None:
    try:
        entries = list_folder(folder)
    except OSError as error:
        entries = FolderEntries(path=folder, error=describe_os_error(error))
    if entries.error and folder == tree.root:
        raise RequestError("the folder cannot be listed", f"{folder}: {entries.error}")
    if entries.error:
        tree.left_out.append(SourceFile(path=str(folder), use="unreadable", detail=entries.error))
        return None
    if _WORKSPACE_FILE in entries.files and _WORKSPACE_FOLDER in entries.folders:
        _leave_out(tree, folder, "a workspace of ARES")
        return None
    for name in entries.special:
        path = str(folder / name)
        tree.left_out.append(
            SourceFile(path=path, use="unreadable", detail="a pipe, socket or device, not a file")
        )
    return entries


def _enters(tree: FolderTree, entries: FolderEntries, name: str) -> bool:
    reason = why_ignored(name, entries.folders)
    if reason:
        _leave_out(tree, entries.path / name, reason)
    return not reason


def _may_follow(tree: FolderTree, link: Path) -> bool:
    """Whether a linked folder lies in the tree, or links may lead out of it."""
    may_leave = tree.follow_links or input_budgets().follow_links
    if may_leave or link.resolve().is_relative_to(tree.root.resolve()):
        return True
    detail = "a link out of the folder; --follow-links follows it, or name its target as a source of its own"
    tree.left_out.append(SourceFile(path=str(link), use="unused", detail=detail))
    return False


def _leave_out(tree: FolderTree, folder: Path, reason: str) -> None:
    tree.left_out.append(SourceFile(path=str(folder), use="not_data", detail=reason))


def _ask(tree: FolderTree, entries: FolderEntries, ingesters: Iterable[Ingester]) -> None:
    for ingester in ingesters:
        if ingester.name in tree.faults:
            continue
        try:
            claim = ask(ingester, entries)
        except AresError as error:
            tree.faults[ingester.name] = error
            continue
        if claim is not None:
            tree.claims.setdefault(ingester.name, {})[str(entries.path)] = claim


def ask(ingester: Ingester, entries: FolderEntries) -> FolderClaim | None:
    """What a folder is to a format. Raises PluginError or SourceError where the ingester fails."""
    claims = ingester.claims
    return None if claims is None else guarded_call(ingester.name, lambda: claims(entries))


class SortedPaths:
    """Paths of folders, to be asked for those at or below a folder."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = sorted(path + "/" for path in paths)

    def any_below(self, folder: str) -> bool:
        """Whether one of the paths is the folder or lies below it."""
        return next(self.below(folder), None) is not None

    def below(self, folder: str) -> Iterator[str]:
        """The paths that are the folder or lie below it, sorted."""
        start = folder.rstrip("/") + "/"
        for index in range(bisect_left(self._paths, start), len(self._paths)):
            if not self._paths[index].startswith(start):
                return
            yield self._paths[index][:-1]
