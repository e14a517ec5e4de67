"""Files that are kept while they are used, within a bound of bytes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# A file used this recently may still be on its way to a reader: it stays even when the bound is exceeded.
_RECENT_SECONDS = 60.0


class _CachedFile(NamedTuple):
    """A file of the cache; the oldest sorts first."""

    last_used: float
    num_bytes: int
    path: str


class FileCache:
    """A bounded folder of derived files; several threads and processes may share it.

    Args:
        folder: Where the files are; created when needed.
        max_bytes: Bound of all files together; exceeded only by files used within the last minute.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def path(self, key: str, write: Callable[[Path], None]) -> Path:
        """The file of a key, written when it does not exist; a key is never written by two callers at once.

        Args:
            key: Name of the content, with the suffix of the file ("3f2a.mp4").
            write: Writes the file to a path; when it raises, no file is left behind.
        """
        from filelock import FileLock

        path = self._folder / key[:2] / key
        if _record_file_use(path):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        # One lock for all keys of a folder: locks of single keys would accumulate, or be deleted while in use.
        with FileLock(path.parent / ".lock"):
            if _record_file_use(path):
                return path
            partial = path.with_name(f"{path.stem}.tmp{path.suffix}")
            try:
                write(partial)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        self._evict()
        return path

    def _evict(self) -> None:
        """Delete the least recently used files until the bound holds."""
        files = sorted(self._files())
        total, now = sum(file.num_bytes for file in files), time.time()
        for file in files:
            if total <= self._max_bytes or now - file.last_used < _RECENT_SECONDS:
                return
            Path(file.path).unlink(missing_ok=True)
            total -= file.num_bytes

    def _files(self) -> list[_CachedFile]:
        """Every file, including partial ones that a killed process left behind."""
        files = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name == ".lock":
                    continue
                path = Path(folder, name)
                try:
                    stat = path.stat()
                except FileNotFoundError:  # deleted by another process
                    continue
                files.append(_CachedFile(stat.st_mtime, stat.st_size, str(path)))
        return files


def _record_file_use(path: Path) -> bool:
    """Record the use of a file; False when it does not exist."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
