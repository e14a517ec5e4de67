"""Which files of a foreign dataset may be opened: those inside it that are data and no placeholders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import PurePosixPath
from typing import BinaryIO

from ares.errors import SourceError
from ares.input.limits import input_budgets
from ares.input.time_limits import restart_file_time_limit
from ares.io import is_url, open_file

LFS_ADVICE = "a Git LFS pointer, not the data: run `git lfs pull` in its repository"
_NO_TARGET = "link whose target is missing"
_GET_TARGET = "download it again, or copy the folder with its targets"
MISSING_TARGET = f"a {_NO_TARGET}: {_GET_TARGET}"
_LFS_START = b"version https://git-lfs.github.com/spec/"
# A pointer has about 130 bytes; the specification of Git LFS allows up to 1,023.
_LFS_SIZES = range(60, 1_024)


def is_lfs_pointer(path: str, size: int) -> bool:
    """Whether a file is a Git LFS pointer; False at a URL, where asking takes long, and for one that cannot be read.

    Args:
        path: Path of a regular file, or URL.
        size: Its bytes; only a file as small as a pointer is opened.
    """
    if size not in _LFS_SIZES or is_url(path):
        return False
    try:
        with open_file(path) as file:
            return starts_as_lfs_pointer(file.read(len(_LFS_START)))
    except OSError:
        return False


def starts_as_lfs_pointer(data: bytes) -> bool:
    """Whether bytes are the start of a Git LFS pointer."""
    return data.startswith(_LFS_START)


def lfs_pointer_error(path: str) -> SourceError:
    """The error for a Git LFS pointer in the place of a file."""
    return SourceError(
        "Git LFS pointer: run `git lfs pull`", f"{path} holds no data, only where Git LFS keeps it"
    )


_BLOCK_BYTES = 2**20
_dataset_folder: ContextVar[str] = ContextVar("dataset_folder", default="")
_follows_links: ContextVar[bool] = ContextVar("follows_links", default=False)


@contextmanager
def refuse_outside_links(folder: str, follow_links: bool = False) -> Iterator[None]:
    """Refuse, within the block and this thread, files that symbolic links lead out of a folder.

    Args:
        folder: Folder (or file) that the user named, or URL; "" for no rule about links.
        follow_links: Whether links may lead out of it all the same.
    """
    folder_token, links_token = _dataset_folder.set(folder), _follows_links.set(follow_links)
    try:
        yield
    finally:
        _dataset_folder.reset(folder_token)
        _follows_links.reset(links_token)


def open_input(path: str, *, long_reads: bool = False) -> BinaryIO:
    """Open a file of a dataset for reading bytes; of a URL only the blocks that are read are fetched.

    Args:
        path: Path or URL.
        long_reads: Whether the caller makes few large reads rather than many small ones.

    Raises:
        SourceError: It is no regular file, or a link leads out of the dataset.
        OSError: It is missing or cannot be read; also when reading.
    """
    prepare_input_file(path)
    return open_file(path, long_reads=long_reads)


def read_input(path: str, max_bytes: int = 0) -> bytes:
    """The content of a file of a dataset.

    Args:
        path: Path or URL.
        max_bytes: Most bytes to read; 0 for those of a text document.

    Raises:
        SourceError: It is larger, is no regular file, or a link leads out of the dataset.
        OSError: It is missing or cannot be read.
    """
    limit = max_bytes or input_budgets().text_bytes
    with open_input(path) as file:
        data = _read_up_to(file, limit + 1)
    if len(data) > limit:
        raise SourceError("file is larger than allowed", f"{path}: more than {limit} bytes")
    if starts_as_lfs_pointer(data):  # at a URL
        raise lfs_pointer_error(path)
    return data


def _read_up_to(file: BinaryIO, limit: int) -> bytes:
    """At most `limit` bytes. One call of `read` would take memory for all of them, however short the file is."""
    parts: list[bytes] = []
    while limit and (part := file.read(min(limit, _BLOCK_BYTES))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def read_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file of a dataset; a line beyond the budget is cut, so that it cannot be parsed.

    Raises as `open_input`.
    """
    limit = input_budgets().line_bytes
    with open_input(path) as file:
        while line := file.readline(limit):
            rest = line
            while len(rest) == limit and not rest.endswith(b"\n"):
                rest = file.readline(limit)
            yield line


def prepare_input_file(path: str) -> None:
    """Begin a file of a dataset, before it is opened: give it its full time, and check that it may be opened.

    It costs two system calls, and a look into files as small as a pointer.

    Raises:
        SourceError: It is a device, pipe or socket, a Git LFS pointer, a link without a target, or a link leads out
            of the dataset.
        FileNotFoundError: There is no such file.
        IsADirectoryError: It is a folder.
    """
    restart_file_time_limit()
    _check_input_file(path)


def _check_input_file(path: str) -> None:
    """Check that a file may be opened. Raises as `prepare_input_file`."""
    folder = _dataset_folder.get()
    if is_url(path):
        if folder and not is_url(folder):
            raise SourceError("path leads out of the dataset", f"{path!r} is a URL")
        return
    if "\0" in path:
        raise FileNotFoundError(2, os.strerror(2), path)
    try:
        status = os.stat(path)  # noqa: PTH116 - called for every file
    except FileNotFoundError:
        _check_link_target(path)
        raise
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, os.strerror(21), path)
    if not stat.S_ISREG(mode):
        raise SourceError("not a regular file", f"{path}: a device, pipe or socket")
    if folder and not is_url(folder):
        check_symbolic_links(path, folder)
    if is_lfs_pointer(path, status.st_size):
        raise lfs_pointer_error(path)


def _check_link_target(path: str) -> None:
    """Check that a path without a file is no link whose target is missing. Raises SourceError."""
    if os.path.islink(path):  # noqa: PTH114 - a path with a null byte is no link
        detail = f"{path} -> {os.readlink(path)}; {_GET_TARGET}"  # noqa: PTH115
        raise SourceError(_NO_TARGET, detail) from None


def check_symbolic_links(path: str, folder: str) -> None:
    """Check that no symbolic link leads a file or folder out of a dataset.

    Links into the `blobs` of the same Hugging Face cache are allowed, and all links where `refuse_outside_links` or the
    setting `follow_links` allows them.

    Args:
        path: Local path below `folder`, or beside it.
        folder: Local folder or file of the dataset.

    Raises:
        SourceError: A link leads out.
    """
    parent, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - called for every file
    target = os.path.join(_real_folder(parent), name)  # noqa: PTH118
    if os.path.islink(target):  # noqa: PTH114
        target = os.path.realpath(target)
    roots = _allowed_roots(folder)
    if any(target == root or target.startswith(f"{root}{os.sep}") for root in roots):
        return
    is_below = f"{parent}{os.sep}".startswith(f"{os.path.abspath(folder)}{os.sep}")  # noqa: PTH100
    is_link = target != os.path.join(parent, name)  # noqa: PTH118
    if not (_follows_links.get() or input_budgets().follow_links) and (is_below or is_link):
        raise SourceError(
            "a link leads out of the dataset",
            f"{path} -> {target}; ARES_FOLLOW_LINKS=1 allows it",
        )


def forget_checked_links() -> None:
    """Look at the links to folders again: since a process has read a dataset, one may have been replaced."""
    _real_folder.cache_clear()
    _allowed_roots.cache_clear()


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


@lru_cache(maxsize=256)
def _allowed_roots(folder: str) -> tuple[str, ...]:
    """The real folder of a dataset, and the `blobs` beside it where it lies in a cache of Hugging Face."""
    root = os.path.realpath(folder)
    if os.path.isfile(root):  # noqa: PTH113
        root = os.path.dirname(root)  # noqa: PTH120
    parts = PurePosixPath(os.path.abspath(folder)).parts  # noqa: PTH100
    if "snapshots" not in parts:
        return (root,)
    cache = PurePosixPath(*parts[: parts.index("snapshots")])
    blobs = os.path.realpath(cache / "blobs")
    # A dataset must not make itself a cache by its own folder names: the cache is above it and named by the hub.
    is_cache = cache.name.startswith(("datasets--", "models--", "spaces--"))
    return (root, blobs) if is_cache else (root,)
