"""The vectors of texts that were searched for, kept in one small file per embedding space."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TEXTS = 1_000
_KEY_BYTES = 16
# Texts in the memory of this process, also where the file cannot be written.
_RECENT_TEXTS = 64


class QueryVectors:
    """A bounded file of vectors by text; several threads and processes may share it.

    It keeps the texts that were asked last, as hashes. A file that cannot be read is empty, and one that cannot be
    written stays as it is: a search never fails for it.

    Args:
        path: The file, created by the first vector.
        dim: Length D of the vectors.
        max_texts: Most texts in the file.
    """

    def __init__(self, path: Path, dim: int, max_texts: int = MAX_TEXTS) -> None:
        self._path, self._dim, self._max_texts = path, dim, max_texts
        self._recent: dict[str, NDArray[np.float32]] = {}

    def get(self, text: str) -> NDArray[np.float32] | None:
        """The vector (D,) of a text, or None. A text of the older half is written as the newest."""
        import numpy as np

        if text in self._recent:
            return self._recent[text]
        rows = self._read()
        at = np.flatnonzero(rows["key"] == _key(text))
        if not len(at):
            return None
        vector: NDArray[np.float32] = rows["vector"][at[0]].copy()
        if at[0] < self._max_texts // 2 and len(rows) == self._max_texts:
            self.add(text, vector)
        return vector

    def add(self, text: str, vector: NDArray[np.float32]) -> None:
        """Write the vector (D,) of a text as the newest; the oldest ones beyond the bound are dropped."""
        self._remember(text, vector)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._write(text, vector)
        except OSError:
            pass  # a read-only workspace: this text is encoded again next time

    def _remember(self, text: str, vector: NDArray[np.float32]) -> None:
        if len(self._recent) >= _RECENT_TEXTS:
            self._recent.clear()
        self._recent[text] = vector

    def _write(self, text: str, vector: NDArray[np.float32]) -> None:
        import numpy as np

        rows, key = self._read(), _key(text)
        newest = np.array([(key, vector)], rows.dtype)
        rows = np.concatenate([rows[rows["key"] != key], newest])[-self._max_texts :]
        # Without a lock, which takes long to import: of two writers at once the later one wins, and a text is encoded
        # again. A reader sees whole files only.
        partial = self._path.with_name(f"{self._path.stem}.{os.getpid()}-{threading.get_ident()}.tmp")
        try:
            with partial.open("wb") as file:
                np.save(file, rows)
            partial.replace(self._path)
        finally:
            partial.unlink(missing_ok=True)

    def _read(self) -> NDArray[np.void]:
        """Rows (N,) of key and vector, oldest first; empty when there is no file of this layout."""
        import numpy as np

        layout = np.dtype([("key", f"S{_KEY_BYTES * 2}"), ("vector", "<f4", (self._dim,))])
        try:
            rows: NDArray[np.void] = np.load(self._path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return np.empty(0, layout)
        return rows if rows.dtype == layout and rows.ndim == 1 else np.empty(0, layout)


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).hexdigest().encode()
