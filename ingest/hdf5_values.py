"""Arrays and attributes of an HDF5 file as numbers and small JSON; what cannot be kept is told, not raised."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.episode import Camera, Json, Signal
from ares.errors import MediaError
from ares.media.hdf5 import encoded_row, is_encoded, is_raw, reading
from ares.media.imageinfo import image_info
from ares.media.ref import MediaRef
from ares.media.tfrecord import decode_image
from ingest.roles import camera_role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# More numbers a step than this is no signal but a picture, a cloud of points or an embedding.
WIDEST_SIGNAL = 256
LONGEST_TEXT = 1000
LONGEST_LIST = 64
_EXACT_IN_FLOAT32 = 2**24
_BLACK = 24


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which "demo_10" comes after "demo_2"."""
    parts = re.findall(r"\d+|\D+", text)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def arrays(group: Any) -> dict[str, Any]:
    """Every dataset in or below a group by its path from there, each once. Raises SourceError."""
    import h5py  # type: ignore[import-untyped]

    found: dict[str, Any] = {}

    def note(name: str | bytes, thing: Any) -> None:
        label = _text(name)
        # A damaged type is told only when it is looked at.
        if isinstance(thing, h5py.Dataset) and thing.dtype:
            found[label] = thing

    with reading(f"{group.file.filename} {group.name}"):
        group.visititems(note)
    return found


def children(group: Any) -> dict[str, Any]:
    """The class of everything in a group by name, None for a link that leads nowhere. Raises SourceError."""
    with reading(f"{group.file.filename} {group.name}"):
        return {_text(name): _class(group, name) for name in group}


def _class(group: Any, name: str) -> Any:
    import h5py

    try:
        return group.get(name, getclass=True)
    except (OSError, RuntimeError, KeyError):
        if isinstance(group.get(name, getlink=True), h5py.ExternalLink | h5py.SoftLink):
            return None
        raise


def attributes(thing: Any) -> dict[str, Any]:
    """The attributes of a group as Python values. Raises SourceError."""
    with reading(f"{thing.file.filename} {thing.name}"):
        return {_text(name): plain(value) for name, value in thing.attrs.items()}


def plain(value: Any) -> Any:
    """A value of h5py or JSON as bool, number, text that can be stored, list, dict or None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {plain(name): plain(part) for name, part in value.items()}
    return value if isinstance(value, bool | int | float) else None


def document(text: object) -> dict[str, Any] | None:
    """A JSON object that was kept as text; None when it is none."""
    try:
        made = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return plain(made) if isinstance(made, dict) else None


def notes(values: Mapping[str, Any]) -> dict[str, Json]:
    """Those of some values that are small enough for the metadata."""
    import math

    def small(value: Any) -> bool:
        if isinstance(value, str):
            return 0 < len(value) <= LONGEST_TEXT
        if isinstance(value, list):
            return len(value) <= LONGEST_LIST and all(map(small, value))
        return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))

    return {name: value for name, value in values.items() if small(value)}


def texts(value: Any) -> list[str]:
    """The texts in a dataset of strings; none for anything else. Raises SourceError."""
    if value.dtype.kind not in "SO" or value.size > LONGEST_LIST:
        return []
    with reading(f"{value.file.filename} {value.name}"):
        found = plain(value[()])
    return [text for text in (found if isinstance(found, list) else [found]) if isinstance(text, str)]


class Reader:
    """Reads the arrays of one episode; keeps what is odd about them and a hash of what was read.

    Args:
        path: Absolute path of the file.
        group: Where the episode is in the file, "" for all of it.
        steps: Steps of the episode: as many as it has actions.
        rate_hz: Steps per second.
    """

    def __init__(self, path: str, group: str, steps: int, rate_hz: float) -> None:
        self.path = path
        self.group = group
        self.steps = steps
        self.rate_hz = rate_hz
        self.warnings: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def content_hash(self) -> str:
        """32 hex digits over all numbers read and, of each camera, its shape and three pictures."""
        return self._hash.hexdigest()

    def add(self, label: str, data: bytes) -> None:
        """Take something more into the hash."""
        self._hash.update(f"\x1f{label}\x1f{len(data)}\x1f".encode() + data)

    def numbers(self, label: str, values: Any) -> NDArray[np.float32] | None:
        """(T, D) float32 of a dataset with a row for each step; None, and a warning, when it is none."""
        import numpy as np

        why = self._unusable(values)
        if why:
            self.warnings.append(f"{label} {why}")
            return None
        if len(values) > self.steps:
            self.warnings.append(f"{label} is longer than the actions")
        with reading(f"{self.path} {values.name}"):
            rows: NDArray[Any] = np.asarray(values[: self.steps])
        self.add(f"{label} {rows.dtype} {rows.shape}", rows.tobytes())
        rows = rows.reshape(self.steps, -1)
        if rows.dtype.kind in "iu" and rows.size and not _exact(rows):
            self.warnings.append(f"{label} is not stored (whole numbers too large for float32)")
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            made = rows.astype(np.float32)
        if not np.isfinite(made).all():
            self.warnings.append(f"{label} holds numbers that are not finite")
        return made

    def signal(self, named: Mapping[str, Any], names: Sequence[str] = ()) -> Signal | None:
        """Several datasets side by side, or None when none of them can be used.

        Args:
            named: Datasets by label.
            names: Names of the dimensions, where they are known and as many.
        """
        import numpy as np

        parts: list[NDArray[np.float32]] = []
        own: list[str] = []
        for label, values in named.items():
            part = self.numbers(label, values)
            if part is not None:
                parts.append(part)
                own += _dimension_names(short(label).replace("/", "."), part.shape[1])
        if not parts:
            return None
        return Signal(np.concatenate(parts, axis=1), tuple(names) if len(names) == len(own) else tuple(own))

    def camera(self, name: str, label: str, pictures: Any) -> Camera | None:
        """A camera whose pictures are a dataset; None, and a warning, when there is not one for each step."""
        if len(pictures) < self.steps:
            self.warnings.append(f"camera {name} {'lacks pictures' if len(pictures) else 'has no picture'}")
            return None
        if pictures.external or pictures.is_virtual:
            self.warnings.append(f"camera {name} is not stored (its pictures lie in another file)")
            return None
        if len(pictures) > self.steps:
            self.warnings.append(f"camera {name} has more pictures than there are actions")
        rows = [_bytes_of(pictures, number) for number in (0, self.steps // 2, self.steps - 1)]
        for row in rows:
            self.add(f"{name} {pictures.dtype} {pictures.shape[1:]}", row)
        if is_raw(pictures):
            (height, width), codec = pictures.shape[1:3], "raw"
        else:
            info = image_info(rows[0])
            if info is None:
                self.warnings.append(f"camera {name} holds no JPEG or PNG")
                return None
            width, height, codec = info
        flags = self._flags(pictures, rows)
        self.warnings.extend(f"camera {name} is {flag}" for flag in flags)
        media = self._media(label)
        return Camera(
            name=name,
            role=camera_role(name),
            width=int(width),
            height=int(height),
            codec=codec,
            media=media,
            flags=flags,
        )

    def _unusable(self, values: Any) -> str:
        """Why a dataset is no signal, or ""."""
        if values.shape is None or values.ndim == 0 or values.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        width = int(values.size // len(values)) if len(values) else 0
        if width > WIDEST_SIGNAL:
            return "is not stored (too wide for a signal)"
        if values.external or values.is_virtual:
            return "is not stored (its values lie in another file)"
        if len(values) < self.steps:
            return "is shorter than the actions"
        return "" if width else "is not stored (it is empty)"

    def _flags(self, pictures: Any, rows: Sequence[bytes]) -> tuple[str, ...]:
        """What is wrong with a camera: all pictures are looked at only when three of them are the same."""
        first = rows[0]
        if self.steps < 3 or any(row != first for row in rows):
            return ()
        if any(_bytes_of(pictures, number) != first for number in range(self.steps)):
            return ()
        try:
            brightest = max(first) if is_raw(pictures) else decode_image(first, pictures.name).max()
        except MediaError:
            return ("broken",)
        return ("black", "frozen") if brightest <= _BLACK else ("frozen",)

    def _media(self, label: str) -> MediaRef:
        return MediaRef(
            kind="hdf5",
            uri=self.path,
            start_seconds=0.0,
            stop_seconds=self.steps / self.rate_hz,
            num_frames=self.steps,
            rate_hz=self.rate_hz,
            # Not its own name, which is another one where the group is a link into another file.
            key=f"{self.group}/{label}".lstrip("/"),
        )


def short(label: str) -> str:
    """The label without the group that all observations are in."""
    return re.sub(r"^(obs|observations?)/(?=.)", "", label)


def has_pictures(values: Any) -> bool:
    """Whether a dataset holds colour or grey pictures, by its shape and, of bytes, by the first row."""
    if is_raw(values):
        return "depth" not in values.name.rpartition("/")[2]
    return bool(is_encoded(values) and len(values) and image_info(encoded_row(values, 0)))


def _text(name: str | bytes) -> str:
    """A name; h5py gives one that is no UTF-8 as bytes."""
    if isinstance(name, bytes):
        raise ValueError(f"name {name!r} is not UTF-8")
    return name


def _bytes_of(pictures: Any, number: int) -> bytes:
    if is_encoded(pictures):
        return encoded_row(pictures, number)
    with reading(f"{pictures.file.filename} {pictures.name} row {number}"):
        row: bytes = pictures[number].tobytes()
    return row


def _exact(rows: NDArray[Any]) -> bool:
    return max(-int(rows.min()), int(rows.max())) <= _EXACT_IN_FLOAT32


def _dimension_names(name: str, width: int) -> list[str]:
    return [name] if width == 1 else [f"{name}_{number}" for number in range(width)]
