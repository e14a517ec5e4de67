"""Reads HDF5 datasets and attributes as signals, cameras and small JSON; unusable ones become warnings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ares.console import count_of
from ares.episode import ArrayUse, Camera, Json, MediaRef, NotRead, Signal, SourceArray
from ares.errors import MediaError, SourceError
from ares.input import (
    ImageInfo,
    decode_image,
    has_own_storage,
    parse_image_header,
    require_own_storage,
    translate_hdf5_errors,
)
from ares.media import HOLDS_DEPTH, has_encoded_images, has_raw_images, read_encoded_image, read_raw_bytes
from ares_ingest.depth import (
    as_depth_picture,
    decode_depth,
    describe_depth,
    is_deep_image,
    is_depth_array,
    is_named_depth,
    sampled_rows,
)
from ares_ingest.files import describe_camera
from ares_ingest.mapping import turn_camera
from ares_ingest.signals import MAX_SIGNAL_WIDTH, numbered_names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_EXACT_IN_FLOAT32 = 2**24
_BLACK_LEVEL = 24


class HDF5EpisodeReader:
    """Reads the arrays of one episode, collects warnings about them and hashes what was read.

    Args:
        path: Absolute path of the file.
        group: HDF5 group of the episode, "" for a file that is one episode.
        steps: Steps of the episode, which is the number of its actions.
        rate_hz: Steps per second.
        channels: Stored order of the colours of its cameras, and their turn, as `MediaRef.channels` has them.
        has_final_observation: Whether the source observes once more after the last action, by its format.
    """

    def __init__(
        self,
        path: str,
        group: str,
        steps: int,
        rate_hz: float,
        channels: str = "rgb",
        has_final_observation: bool = False,
    ) -> None:
        self.path = path
        self.group = group
        self.steps = steps
        self.rate_hz = rate_hz
        self.channels = channels
        self.has_final_observation = has_final_observation
        self.warnings: list[str] = []
        self.arrays: list[SourceArray] = []
        self.depth: dict[str, Json] = {}
        self.missing: list[str] = []  # cameras that the source names and of which it has no pictures
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def content_hash(self) -> str:
        """32 hex digits over all numbers read and, for each camera, its shape and three images."""
        return self._hash.hexdigest()

    def add_to_hash(self, label: str, data: bytes) -> None:
        """Add labelled bytes to the content hash."""
        self._hash.update(f"\x1f{label}\x1f{len(data)}\x1f".encode() + data)

    def read_numbers(self, label: str, values: Any) -> NDArray[np.float32] | None:
        """(T, D) float32 of a dataset with a row for each step; None, and a warning, when it cannot be used."""
        import numpy as np

        reason = self._reason_unusable(values)
        if reason:
            self.warnings.append(NotRead(f"{label} {reason}", label))
            shape = () if values.shape is None else values.shape
            self.arrays.append(
                SourceArray(key=label, use="unused", shape=shape, dtype=str(values.dtype), note=reason)
            )
            return None
        self._warn_of_more_rows(len(values), f"{label} is longer than the actions")
        with translate_hdf5_errors(f"{self.path} {values.name}"):
            rows: NDArray[Any] = np.asarray(require_own_storage(values)[: self.steps])
        self.add_to_hash(f"{label} {rows.dtype} {rows.shape}", rows.tobytes())
        rows = rows.reshape(self.steps, -1)
        if rows.dtype.kind in "iu" and rows.size and not _fits_float32(rows):
            self.warnings.append(NotRead(f"{label} is not stored (integers too large for float32)", label))
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = rows.astype(np.float32)
        if not np.isfinite(numbers).all():
            self.warnings.append(f"{label} holds numbers that are not finite")
        return numbers

    def read_stored(self, label: str, values: Any) -> NDArray[Any]:
        """(T, ...) rows of a dataset as stored, for its times. Raises SourceError when it lacks a number for a step."""
        import numpy as np

        reason = self._reason_unusable(values)
        if reason:
            raise SourceError(
                "timestamps of the spec cannot be read", f"{self.path} {self.group} {label} {reason}"
            )
        with translate_hdf5_errors(f"{self.path} {values.name}"):
            rows: NDArray[Any] = np.asarray(require_own_storage(values)[: self.steps])
        self.add_to_hash(f"{label} {rows.dtype} {rows.shape}", rows.tobytes())
        shape = (self.steps, *values.shape[1:])
        self.arrays.append(SourceArray(key=label, use="time", shape=shape, dtype=str(values.dtype)))
        return rows

    def read_signal(
        self,
        datasets: Mapping[str, Any],
        names: Sequence[str] = (),
        *,
        use: ArrayUse = "extra",
        signal_name: str = "",
    ) -> Signal | None:
        """Datasets joined side by side as one signal, or None when none of them can be used.

        Args:
            datasets: Datasets by label.
            names: Names of the dimensions, used when their number matches.
            use: What the signal is.
            signal_name: Its name among the extra signals.
        """
        import numpy as np

        parts: list[NDArray[np.float32]] = []
        own_names: list[str] = []
        for label, values in datasets.items():
            part = self.read_numbers(label, values)
            if part is not None:
                parts.append(part)
                shape, dtype = (self.steps, *values.shape[1:]), str(values.dtype)
                if use in ("state", "action") and sum(size > 1 for size in shape[1:]) > 1:
                    text = f"{label} has more than two dimensions ({' x '.join(['T', *map(str, shape[1:])])})"
                    self.warnings.append(f"{text}; the numbers of a step stand side by side")
                self.arrays.append(
                    SourceArray(key=label, use=use, name=signal_name, shape=shape, dtype=dtype)
                )
                table = shape[1:] if use == "extra" else ()
                own_names += numbered_names(
                    shorten_array_label(label).replace("/", "."), part.shape[1], table
                )
        if not parts and datasets and use == "state":
            detail = f"{self.path} {self.group}: {', '.join(datasets)}; {'; '.join(self.warnings[-3:])}"
            raise SourceError("a signal cannot be stored", detail)
        if not parts:
            return None
        return Signal(
            np.concatenate(parts, axis=1), tuple(names) if len(names) == len(own_names) else tuple(own_names)
        )

    def read_camera(self, name: str, label: str, images: Any) -> Camera | None:
        """A camera whose images are a dataset; None, and a warning, when there is not one image per step."""
        if len(images) < self.steps:
            self.warnings.append(f"camera {name} {'lacks images' if len(images) else 'has no image'}")
            self.missing.append(name)
            return None
        if not has_own_storage(images):
            self.warnings.append(NotRead(f"camera {name} is not stored (its images are in another file)"))
            return None
        self._warn_of_more_rows(len(images), f"camera {name} has more images than there are actions")
        samples = [_image_bytes(images, number) for number in (0, self.steps // 2, self.steps - 1)]
        for image in samples:
            self.add_to_hash(f"{name} {images.dtype} {images.shape[1:]}", image)
        info = _image_info(images, samples[0])
        if info is None:
            self.warnings.append(f"camera {name} holds no JPEG or PNG")
            return None
        flags = self._frozen_flags(images, samples)
        return turn_camera(describe_camera(name, info, self._media_ref(label), flags=flags))

    def keep_depth(self, name: str, label: str, images: Any) -> None:
        """Note where the depth of a camera is, with its range and unit; warn where there is not one image per step."""
        if len(images) < self.steps or not has_own_storage(images):
            reason = "its images are in another file" if len(images) >= self.steps else "it lacks images"
            self.warnings.append(NotRead(f"camera {name} is not stored ({reason})"))
            return
        self._warn_of_more_rows(len(images), f"camera {name} has more images than there are actions")
        try:
            pictures = [_depth_picture(images, row) for row in sampled_rows(self.steps)]
        except SourceError as error:
            self.warnings.append(NotRead(f"camera {name} left out: {error.reason}"))
            return
        location: dict[str, Json] = {"path": self.path, "key": f"{self.group}/{label}".lstrip("/")}
        self.depth[name] = describe_depth(pictures, location, frames=self.steps)
        self.warnings.append(f"camera {name} left out: {HOLDS_DEPTH}")

    def _warn_of_more_rows(self, rows: int, warning: str) -> None:
        """Warn of one row after the last step; the final observation that a format promises has its own warning.

        Raises SourceError for more rows.
        """
        if self.has_final_observation and rows == self.steps + 1:
            self.warnings.append("the observation after the last action is not stored")
        elif rows == self.steps + 1:
            self.warnings.append(f"{warning} by one: the terminal one is not stored")
        elif rows > self.steps:
            detail = f"{self.path} {self.group}: {warning}: {count_of(rows, 'row')} for {count_of(self.steps, 'step')}"
            raise SourceError("data has more rows than there are steps", detail)

    def _reason_unusable(self, values: Any) -> str:
        """Why a dataset cannot be a signal, or ""."""
        if values.shape is None or values.ndim == 0 or values.dtype.kind not in "biuf":
            return "is not stored (no numbers for each step)"
        width = int(values.size // len(values)) if len(values) else 0
        if width > MAX_SIGNAL_WIDTH:
            return "is not stored (too wide for a signal)"
        if not has_own_storage(values):
            return "is not stored (its values are in another file)"
        if len(values) < self.steps:
            return "is shorter than the actions"
        return "" if width else "is not stored (it is empty)"

    def _frozen_flags(self, images: Any, samples: Sequence[bytes]) -> tuple[str, ...]:
        """Flags of a camera that never changes; all images are compared only when three samples are equal."""
        first = samples[0]
        if self.steps < 3 or any(image != first for image in samples):
            return ()
        if any(_image_bytes(images, number) != first for number in range(self.steps)):
            return ()
        try:
            brightest = max(first) if has_raw_images(images) else decode_image(first, images.name).max()
        except MediaError:
            return ("broken",)
        return ("black", "frozen") if brightest <= _BLACK_LEVEL else ("frozen",)

    def _media_ref(self, label: str) -> MediaRef:
        return MediaRef(
            kind="hdf5",
            uri=self.path,
            start_seconds=0.0,
            stop_seconds=self.steps / self.rate_hz,
            num_frames=self.steps,
            rate_hz=self.rate_hz,
            channels=self.channels,
            # Not the dataset's own name, which differs when the group is a link into another file.
            key=f"{self.group}/{label}".lstrip("/"),
        )


def shorten_array_label(label: str) -> str:
    """The label without its leading group "obs", "observation" or "observations"."""
    return re.sub(r"^(obs|observations?)/(?=.)", "", label)


def holds_images(dataset: Any) -> bool:
    """Whether a dataset holds colour or grey images: by its shape or, for encoded bytes, by its first row."""
    if has_raw_images(dataset):
        return "depth" not in dataset.name.rpartition("/")[2]
    return bool(
        has_encoded_images(dataset)
        and len(dataset)
        and has_own_storage(dataset)
        and parse_image_header(read_encoded_image(dataset, 0))
    )


def holds_depth(label: str, dataset: Any) -> bool:
    """Whether a dataset holds depth: by its shape and name or type or, for encoded bytes, by its name and first row."""
    if dataset.shape is None or not dataset.ndim:
        return False
    if is_depth_array(label, dataset):
        return True
    if not (has_encoded_images(dataset) and len(dataset) and has_own_storage(dataset)):
        return False
    data = read_encoded_image(dataset, 0)
    return is_deep_image(data) or bool(is_named_depth(label) and parse_image_header(data))


def _depth_picture(images: Any, row: int) -> NDArray[Any]:
    """(H, W) as stored. Raises SourceError."""
    import numpy as np

    if not has_encoded_images(images):
        rows: NDArray[Any] = np.frombuffer(read_raw_bytes(images, row), images.dtype)
        return as_depth_picture(rows.reshape(images.shape[1:]))
    return decode_depth(read_encoded_image(images, row))


def _image_info(images: Any, first_image: bytes) -> ImageInfo | None:
    """Size and codec of a camera's images; None when they are encoded but neither JPEG nor PNG."""
    if has_raw_images(images):
        height, width = images.shape[1:3]
        return ImageInfo(int(width), int(height), "raw")
    return parse_image_header(first_image)


def _image_bytes(images: Any, number: int) -> bytes:
    if has_encoded_images(images):
        return read_encoded_image(images, number)
    return read_raw_bytes(images, number)


def _fits_float32(rows: NDArray[Any]) -> bool:
    return max(-int(rows.min()), int(rows.max())) <= _EXACT_IN_FLOAT32
