"""Rows of the arrays of one episode."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ares.episode import Json, NotRead, Signal
from ares.errors import SourceError
from ares.media import HOLDS_DEPTH, has_zarr_images
from ares_ingest.depth import as_depth_picture, describe_depth, is_depth_array, sampled_rows
from ares_ingest.signals import (
    MAX_SIGNAL_WIDTH,
    numbered_names,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Longest text, and most texts, that become metadata of an episode.
_LONGEST_TEXT, _MOST_TEXTS = 1000, 64

ALL_ROWS = -1

_SHORTER = "is not stored (it ends before the episode does)"


class ArrayRowReader:
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
        depth: Arrays of depth, of which no row was read.
        fields: Texts and single numbers that are no signals, by key.
        shapes: Shape and type of every array that was offered.
        unused: Why an array is not stored, by key.
        warnings: Problems, each once.
        missing: Cameras of which there are no pictures.
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
        self.depth: dict[str, Any] = {}
        self._hashed: dict[str, Any] = {}
        self.fields: dict[str, Json] = {}
        self.shapes: dict[str, tuple[tuple[int, ...], str]] = {}
        self.unused: dict[str, str] = {}
        self.warnings: dict[str, None] = {}
        self.missing: list[str] = []
        self.hash = hashlib.blake2b(digest_size=16)

    def add(self, key: str, array: Any) -> None:
        """Read an array with numbers for each step; keep one of images for later; warn of any other."""
        self.shapes[key] = (tuple(array.shape), str(array.dtype))
        is_depth = is_depth_array(key, array) and array.shape[0] >= self.stop
        reason = "" if is_depth else self._reason_unusable(array)
        if not reason and has_zarr_images(array):
            self._hashed[key] = array
        if reason:
            self.leave_out(key, reason)
        elif is_depth:
            self.depth[key] = array
        elif has_zarr_images(array):
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
        self.warnings[NotRead(f"{self.prefix}{key} {reason}", key)] = None

    def _reason_unusable(self, array: Any) -> str:
        """Why an array is not stored, or ""."""
        if not array.ndim or array.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        if array.shape[0] < self.stop:
            return _SHORTER
        if has_zarr_images(array):
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
        for key, array in self._hashed.items():
            for row in (self.start, (self.start + self.stop) // 2, self.stop - 1):
                with self.translate_errors(f"{self.where}, {self.prefix}{key} row {row}"):
                    self.hash.update(array[row].tobytes())

    def describe_depth(self, locations: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
        """Where the depth is, its range and its unit, by name of the camera; what cannot be read is warned of.

        Args:
            locations: The file of each array, and its name there, where that is not the key.
        """
        described: dict[str, Json] = {}
        for key, array in self.depth.items():
            name, frames = key.replace("/", "."), self.stop - self.start
            try:
                with self.translate_errors(f"{self.where}, {self.prefix}{key}"):
                    pictures = [as_depth_picture(array[self.start + row]) for row in sampled_rows(frames)]
            except SourceError as error:
                self.warnings[NotRead(f"camera {name} left out: {error.reason}")] = None
                continue
            location: dict[str, Json] = {
                "path": self.where,
                "key": f"{self.prefix}{key}",
                "first_row": self.start,
            }
            described[name] = describe_depth(pictures, {**location, **locations.get(key, {})}, frames=frames)
            self.warnings[f"camera {name} left out: {HOLDS_DEPTH}"] = None
        return described

    def signal(self, keys: tuple[str, ...], shape: tuple[int, ...] = ()) -> Signal | None:
        """Arrays joined side by side as one signal, named by the shape of a step where it counts; None for no array."""
        import numpy as np

        if not keys:
            return None
        parts = [self._to_float32(key) for key in keys]
        names = [
            name
            for key, part in zip(keys, parts, strict=True)
            for name in numbered_names(key, part.shape[1], shape)
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
