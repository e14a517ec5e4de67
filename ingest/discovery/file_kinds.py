"""Files that hold no episodes: documents and files of systems, and files that stand for data that is not there."""

from __future__ import annotations

from typing import NamedTuple

from ares.input import LFS_ADVICE, MISSING_TARGET, is_lfs_pointer
from ingest.base import FileUse

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
    (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar"): "an archive: unpack it first",
    (".pkl", ".pickle", ".pt", ".pth", ".joblib"): (
        "reading a pickle can run code, so none is read: save its arrays as npz or HDF5"
    ),
    (
        ".arrow",
    ): "a table of LeRobot before v2.0 or of another library: convert it with LeRobot's own scripts",
    (".jpg", ".jpeg", ".png", ".webp", ".jxl"): "a picture that no episode names",
    (".mat", ".db", ".sqlite", ".csv", ".tsv", ".parquet", ".jsonl"): "a table that is of no known layout",
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


def kind_of_file(path: str, name: str, size: int, *, is_missing: bool = False) -> FileKind:
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
    if stand_in := stand_in_for_data(path, size, is_missing=is_missing):
        return stand_in
    if lower.endswith(_PARTIAL_SUFFIXES):
        return FileKind("unreadable", "a download that did not end: download it again")
    if name.startswith("."):
        return FileKind("not_data", "a hidden file")
    if _is_document(lower, size):
        return FileKind("not_data", "holds no episodes by its name")
    return FileKind("unused", _advice(lower) if size else "the file is empty")


def _advice(lower: str) -> str:
    return next(
        (advice for suffixes, advice in _ADVICE.items() if lower.endswith(suffixes)), "no format reads it"
    )


def stand_in_for_data(path: str, size: int, *, is_missing: bool = False) -> FileKind | None:
    """What stands in a file's place: a link without its target or a Git LFS pointer; None for a file of its own."""
    if is_missing:
        return FileKind("pointer", MISSING_TARGET)
    if is_lfs_pointer(path, size):
        return FileKind("pointer", LFS_ADVICE)
    return None


def why_ignored(name: str, siblings: tuple[str, ...]) -> str:
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
