"""Cache: files that can be made again, bounded in bytes, the least recently used going first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

# A file used this recently may be on its way to a reader: it stays even when the bound is passed.
_FRESH_SECONDS = 60.0


class Cache:
    """A bounded folder of derived files; several threads and processes may share it.

    Args:
        folder: Where the files are; made when needed.
        max_bytes: Bound of all files together; passed only by files used within the last minute.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def path(self, key: str, make: Callable[[Path], None]) -> Path:
        """The file of a key, made by `make` when it is not there; the same key is never made twice at once.

        Args:
            key: Name of the content; its ending is the file's ("3f2a.mp4").
            make: Writes the file at the path it is given; when it raises, nothing is left behind.
        """
        from filelock import FileLock

        path = self._folder / key[:2] / key
        if _touch(path):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        # One lock for all keys of a folder: locks of single keys would pile up, or be removed under a waiter.
        with FileLock(path.parent / ".lock"):
            if _touch(path):
                return path
            partial = path.with_name(f"{path.stem}.tmp{path.suffix}")
            try:
                make(partial)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        self._shrink()
        return path

    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _shrink(self) -> None:
        files = sorted(self._files())
        total, now = sum(size for _, size, _ in files), time.time()
        for used, size, path in files:
            if total <= self._max_bytes or now - used < _FRESH_SECONDS:
                return
            Path(path).unlink(missing_ok=True)
            total -= size

    def _files(self) -> list[tuple[float, int, str]]:
        """Last use, bytes and path of each file, those that a killed process left half made included."""
        found = []
        for place, _, names in os.walk(self._folder):
            for name in names:
                if name == ".lock":
                    continue
                path = Path(place, name)
                try:
                    state = path.stat()
                except FileNotFoundError:  # another process removed it
                    continue
                found.append((state.st_mtime, state.st_size, str(path)))
        return found


def _touch(path: Path) -> bool:
    """Note the use of a file; False when it is not there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
