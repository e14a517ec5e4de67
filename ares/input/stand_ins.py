"""Files that stand in the place of data: Git LFS pointers, and links whose target is missing."""

from __future__ import annotations

import os

from ares.errors import SourceError
from ares.io import is_url, open_file

LFS_ADVICE = "a Git LFS pointer, not the data: run `git lfs pull` in its repository"
MISSING_TARGET = "a link whose target is missing: download it again, or copy the folder with its targets"
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


def missing_target_error(path: str) -> SourceError | None:
    """The error for a link whose target is missing; None for a path that is no link."""
    if not os.path.islink(path):  # noqa: PTH114 - a path with a null byte is no link
        return None
    return SourceError(
        "link whose target is missing",
        f"{path} -> {os.readlink(path)}; download it again, or copy the folder with its targets",  # noqa: PTH115
    )
