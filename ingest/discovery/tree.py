"""Walks a folder tree once: asks every ingester about each folder, and knows what is no data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ares.errors import AresError, RequestError
from ares.input import LFS_ADVICE, MISSING_TARGET, input_budgets, is_lfs_pointer
from ares.io import FolderEntries, cache_folder_listings, describe_os_error, list_folder
from ares_ingest.base import FileUse, FolderClaim, FolderIngester, Ingester, SourceFile
from ares_ingest.guarded_loading import call_ingester_safely

_PARTIAL_SUFFIXES = (".part", ".partial", ".crdownload", ".incomplete", ".download", ".tmp", ".aria2")
_SYSTEM_NAMES = frozenset({".ds_store", "thumbs.db", "desktop.ini", "ehthumbs.db"})
_DOCUMENT_NAMES = (
    *("readme", "license", "licence", "copying", "notice", "citation", "changelog", "authors"),
    *(
        "contributing",
        "code_of_conduct",
        "makefile",
        "dockerfile",
        "manifest",
        "checksums",
        "md5sums",
        "sha256sums",
    ),
)
_DOCUMENT_SUFFIXES = frozenset(
    {
        *(
            ".md",
            ".rst",
            ".txt",
            ".pdf",
            ".html",
            ".htm",
            ".css",
            ".docx",
            ".bib",
            ".cff",
            ".log",
            ".svg",
            ".gif",
        ),
        *(".py", ".pyc", ".ipynb", ".sh", ".js", ".c", ".cc", ".cpp", ".h", ".hpp", ".m", ".r", ".lock"),
        *(".yaml", ".yml", ".toml", ".cfg", ".ini", ".xml", ".urdf", ".xacro", ".json"),
        *(".md5", ".sha1", ".sha256", ".sig", ".asc", ".idx"),
    }
)
# What to do with data that no format reads.
_ADVICE = {
    (".tar", ".tar.gz", ".tgz"): "an archive, perhaps a shard of WebDataset: unpack it first",
    (".zip", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar"): "an archive: unpack it first",
    (
        ".rrd",
    ): "a recording of Rerun: save its values as npz or HDF5 and its pictures as MP4 by the SDK of Rerun",
    (".svo", ".svo2"): "a recording of a ZED camera: export it to MP4 or AVI by the ZED SDK",
    (".mat",): "a file of MATLAB: load it by scipy.io.loadmat and save its arrays as npz or HDF5",
    (".db", ".sqlite"): "a database that is no recording of ROS 2: save its tables as CSV or Parquet",
    (".pkl", ".pickle", ".pt", ".pth", ".joblib"): (
        "reading a pickle can run code, so none is read: save its arrays as npz or HDF5"
    ),
    (".jpg", ".jpeg", ".png", ".webp", ".jxl"): "a picture that no episode names",
    (".csv", ".tsv", ".parquet", ".arrow", ".jsonl"): (
        "a table of no known layout; a row for each step needs numbers of state and action, and a column episode_index;"
        " labels lie in the folder of their dataset and need a column episode, id, trial,"
        " video or file that names its episodes, and one of success, ok, task, instruction, prompt or split"
    ),
}
# A larger JSON or XML file may hold data.
_MAX_DOCUMENT_BYTES = 2**20
_MAY_HOLD_DATA = frozenset({".json", ".xml", ".txt", ".log", ".yaml", ".yml"})
_IGNORED_FOLDERS = {
    "__MACOSX": "macOS keeps copies of file attributes there",
    "@eaDir": "a Synology server keeps previews there",
    "$RECYCLE.BIN": "the recycle bin of Windows",
    "System Volume Information": "a folder of Windows",
    "lost+found": "a folder of the file system",
    "__pycache__": "compiled Python",
    "node_modules": "libraries of JavaScript",
}


class FileKind(NamedTuple):
    """What a file is by itself, where no dataset says so.

    Attributes:
        use: "pointer", "unreadable", "not_data", or "unused" for a file that may hold data.
        detail: Why.
    """

    use: FileUse
    detail: str


def classify_unclaimed_file(path: str, name: str, size: int, *, is_missing: bool = False) -> FileKind:
    """What a file is that no dataset mentions.

    Args:
        path: Absolute path or URL.
        name: Its name.
        size: Bytes.
        is_missing: Whether it is a link whose target is missing.
    """
    lower = name.lower()
    if name.startswith("._"):
        return FileKind("not_data", "attributes of a file of macOS (AppleDouble)")
    if lower in _SYSTEM_NAMES:
        return FileKind("not_data", "a file of the operating system")
    if stand_in := find_data_placeholder(path, size, is_missing=is_missing):
        return stand_in
    if lower.endswith(_PARTIAL_SUFFIXES):
        return FileKind("unreadable", "a download that did not end: download it again")
    if name.startswith("."):
        return FileKind("not_data", "a hidden file")
    if _is_document(lower, size):
        return FileKind("not_data", "holds no episodes by its name")
    return FileKind("unused", _advice_by_suffix(lower) if size else "the file is empty")


def _advice_by_suffix(lower: str) -> str:
    return next(
        (advice for suffixes, advice in _ADVICE.items() if lower.endswith(suffixes)), "no format reads it"
    )


def find_data_placeholder(path: str, size: int, *, is_missing: bool = False) -> FileKind | None:
    """What stands in a file's place: a link without its target or a Git LFS pointer; None for a real file."""
    if is_missing:
        return FileKind("pointer", MISSING_TARGET)
    if is_lfs_pointer(path, size):
        return FileKind("pointer", LFS_ADVICE)
    return None


def explain_ignored_folder(name: str, siblings: tuple[str, ...]) -> str:
    """Why a folder is not entered, by its name and the folders beside it; "" for one that is."""
    if name in _IGNORED_FOLDERS:
        return _IGNORED_FOLDERS[name]
    if name.startswith("."):
        return "a hidden folder"
    if name in ("blobs", "refs") and "snapshots" in siblings:
        return "part of the Hugging Face cache, read through the links in snapshots"
    return ""


def _is_document(lower: str, size: int) -> bool:
    stem, dot, rest = lower.partition(".")
    suffix = f".{rest.rpartition('.')[2]}" if dot else ""
    if suffix in _MAY_HOLD_DATA and size > _MAX_DOCUMENT_BYTES:
        return False
    return suffix in _DOCUMENT_SUFFIXES or stem in _DOCUMENT_NAMES


_WORKSPACE_FILE = "workspace.json"
_WORKSPACE_FOLDER = "lance"


@dataclass(slots=True)
class FolderTree:
    """The folders at and below a path, as they were listed.

    Attributes:
        root: The folder at the top.
        file: The one file of it that was asked for, or "".
        folders: Listing of each folder by its path, parents first.
        claims: By format, what the folders are to it, by path.
        left_out: Folders that were not entered, and what is neither file nor folder, with reasons.
        faults: Errors of ingesters that could not be asked, by format.
    """

    root: Path
    file: str = ""
    folders: dict[str, FolderEntries] = field(default_factory=dict)
    claims: dict[str, dict[str, FolderClaim]] = field(default_factory=dict)
    left_out: list[SourceFile] = field(default_factory=list)
    faults: dict[str, AresError] = field(default_factory=dict)

    def children(self, folder: str) -> list[str]:
        """Paths of the subfolders of a folder that were entered."""
        entries = self.folders[folder]
        paths = (str(entries.path / name) for name in entries.folders)
        return [path for path in paths if path in self.folders]

    def is_store(self, folder: str) -> bool:
        """Whether a folder is one record file of a format, whose content was not listed."""
        return any(claims.get(folder) == "store" for claims in self.claims.values())


def walk_folder_tree(path: Path, ingesters: Sequence[Ingester]) -> FolderTree:
    """Walk a folder, or the folder of a file, of which then only the file is seen.

    Args:
        path: The folder or file.
        ingesters: The formats that are asked about every folder.

    Raises RequestError when the path itself cannot be listed.
    """
    with cache_folder_listings():
        return _read_tree(path, ingesters)


def _read_tree(path: Path, ingesters: Sequence[Ingester]) -> FolderTree:
    is_file = path.is_file()
    tree = FolderTree(path.parent if is_file else path, str(path) if is_file else "")
    if is_file:
        entries = list_folder(tree.root)
        only = {path.name: entries.files.get(path.name, 0)}
        tree.folders[str(tree.root)] = replace(
            entries, folders=(), files=only, special=(), links=frozenset(), missing=frozenset()
        )
        return tree
    askable = [ingester for ingester in ingesters if isinstance(ingester, FolderIngester)]
    for entries in _walk_tree(tree):
        tree.folders[str(entries.path)] = entries
        _ask_ingesters(tree, entries, askable)
    return tree


def _walk_tree(tree: FolderTree) -> Iterator[FolderEntries]:
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
        entries = _list_tree_folder(tree, folder)
        if entries is None:
            continue
        yield entries
        if tree.is_store(str(folder)):
            continue
        below = [name for name in entries.folders if _enters_folder(tree, entries, name)]
        links += [
            folder / name for name in below if name in entries.links and _may_follow(tree, folder / name)
        ]
        waiting += [folder / name for name in reversed(below) if name not in entries.links]


def _list_tree_folder(tree: FolderTree, folder: Path) -> FolderEntries | None:
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


def _enters_folder(tree: FolderTree, entries: FolderEntries, name: str) -> bool:
    reason = explain_ignored_folder(name, entries.folders)
    if reason:
        _leave_out(tree, entries.path / name, reason)
    return not reason


def _may_follow(tree: FolderTree, link: Path) -> bool:
    """Whether a linked folder lies in the tree, or links may lead out of it."""
    if input_budgets().follow_links or link.resolve().is_relative_to(tree.root.resolve()):
        return True
    detail = (
        "a link out of the folder; ARES_FOLLOW_LINKS=1 follows it, or name its target as a separate source"
    )
    tree.left_out.append(SourceFile(path=str(link), use="unused", detail=detail))
    return False


def _leave_out(tree: FolderTree, folder: Path, reason: str) -> None:
    tree.left_out.append(SourceFile(path=str(folder), use="not_data", detail=reason))


def _ask_ingesters(tree: FolderTree, entries: FolderEntries, ingesters: Iterable[FolderIngester]) -> None:
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


def ask(ingester: FolderIngester, entries: FolderEntries) -> FolderClaim | None:
    """What a folder is to a format. Raises PluginError or SourceError where the ingester fails."""
    return call_ingester_safely(ingester.name, lambda: ingester.claims(entries))


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
