"""Reads the rows of an episode from arrays by key: numbers, images, texts, and why others are not stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ares.episode import Json, Signal
from ares.media.readers import has_images
from ingest.signals import MAX_SIGNAL_WIDTH, numbered_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Longest text, and most texts, that become metadata of an episode.
_LONGEST_TEXT, _MOST_TEXTS = 1000, 64
_SHORTER = "is not stored (it ends before the episode does)"


class ArrayReader:
    """The rows [start, stop) of some arrays: read, hashed and warned about.

    Args:
        where: The file, for messages.
        start: First row of the episode.
        stop: End of its rows, half open.
        prefix: What stands before a key in messages: "data/".
        translate_errors: Turns what the library raises for damaged data into a SourceError, for a place in words.

    Attributes:
        numbers: (T, D) by key, as stored.
        images: Arrays of images, of which no row was read.
        fields: Texts and single numbers that are no signals, by key.
        shapes: Shape and type of every array that was offered.
        unused: Why an array is not stored, by key.
        warnings: Problems, each once.
        hash: Over everything read.
    """

    def __init__(
        self,
        where: str,
        start: int,
        stop: int,
        *,
        prefix: str = "",
        translate_errors: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.where, self.start, self.stop, self.prefix = where, start, stop, prefix
        self.translate_errors = translate_errors
        self.numbers: dict[str, NDArray[Any]] = {}
        self.images: dict[str, Any] = {}
        self.fields: dict[str, Json] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        self.unused: dict[str, str] = {}
        self.warnings: dict[str, None] = {}
        self.hash = hashlib.blake2b(digest_size=16)

    def add(self, key: str, array: Any) -> None:
        """Read an array with numbers for each step; keep one of images for later; warn of any other."""
        self.shapes[key] = (tuple(array.shape), str(array.dtype))
        reason = self._reason_unusable(array)
        if reason:
            self.leave_out(key, reason)
        elif has_images(array):
            self.images[key] = array
        else:
            self.numbers[key] = self._read(key, array)

    def add_field(self, key: str, array: Any) -> None:
        """Keep a text, a single number or a short list of texts as a field of the metadata."""
        self.shapes[key] = (tuple(array.shape), str(array.dtype))
        with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
            value = array[()].tolist() if array.size <= _MOST_TEXTS else None
        texts = value if isinstance(value, list) else [value]
        texts = [text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts]
        if (
            value is None
            or not texts
            or any(isinstance(text, str) and len(text) > _LONGEST_TEXT for text in texts)
        ):
            self.leave_out(key, "is not stored (too long for metadata)")
            return
        self.fields[key] = texts if isinstance(value, list) else texts[0]
        self.hash.update(f"\x1f{key} {texts!r}\x1f".encode("utf-8", "replace"))

    def leave_out(self, key: str, reason: str) -> None:
        """Note why an array is not stored."""
        self.unused[key] = reason
        self.warnings[f"{self.prefix}{key} {reason}"] = None

    def _reason_unusable(self, array: Any) -> str:
        """Why an array is not stored, or ""."""
        if not array.ndim or array.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        if array.shape[0] < self.stop:
            return _SHORTER
        if has_images(array):
            return ""
        width = int(array.size // array.shape[0])
        return "" if 0 < width <= MAX_SIGNAL_WIDTH else "is not stored (too wide for a signal, or empty)"

    def _read(self, key: str, array: Any) -> NDArray[Any]:
        """(T, D) numbers of the episode, as stored."""
        import numpy as np

        with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
            rows: NDArray[Any] = np.asarray(array[self.start : self.stop])
        self.hash.update(f"\x1f{key} {rows.dtype} {rows.shape}\x1f".encode() + rows.tobytes())
        return rows.reshape(len(rows), -1)

    def hash_images(self) -> None:
        """Add three images of every camera to the hash. Raises SourceError when one cannot be decoded."""
        for key, array in self.images.items():
            for row in (self.start, (self.start + self.stop) // 2, self.stop - 1):
                with self.translate_errors(f"{self.where}, {self.prefix}{key} row {row}"):
                    self.hash.update(array[row].tobytes())

    def signal(self, keys: tuple[str, ...]) -> Signal | None:
        """Arrays joined side by side as one signal; None for no array."""
        import numpy as np

        if not keys:
            return None
        parts = [self._to_float32(key) for key in keys]
        names = [
            name for key, part in zip(keys, parts, strict=True) for name in numbered_names(key, part.shape[1])
        ]
        return Signal(np.concatenate(parts, axis=1), tuple(names))

    def _to_float32(self, key: str) -> NDArray[np.float32]:
        import numpy as np

        rows = self.numbers[key]
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows.astype(np.float32)
            if (values.astype(rows.dtype) != rows)[np.isfinite(rows)].any():
                self.warnings["numbers of the source lose digits as float32"] = None
        return values
