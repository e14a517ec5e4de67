"""Cameras whose frames are numbered image files in a folder."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ares.errors import MediaError, SourceError
from ares.input import check_relative_path, decode_image, read_input
from ares.io import file_state, list_folder
from ares.media.readers.csv_table import read_csv_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ares.episode import MediaRef
    from ares.io import FileState


IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")

_NUMBER_IN_NAME = re.compile(r"^(?P<prefix>.*?)(?P<number>\d+(?:\.\d+)?)$")

# Smallest whole number that is a stamp, with its unit in seconds: 10^9 s since 1970 was in 2001.
_STAMP_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3), (1e9, 1.0))

_LARGEST_IMAGE_BYTES = 2**28


class CameraImageFiles(NamedTuple):
    """The images of one camera.

    Attributes:
        names: Names in the folder, in the order of their numbers.
        seconds: Stamps of the names in seconds, strictly rising; None where the numbers are no stamps.
    """

    names: tuple[str, ...]
    seconds: tuple[float, ...] | None


def group_images(
    names: Sequence[str], suffixes: tuple[str, ...] = IMAGE_SUFFIXES
) -> dict[str, CameraImageFiles]:
    """The images among the names of a folder by the text before their numbers; other files are left out."""
    numbered: dict[str, list[tuple[float, str, str]]] = {}
    for name in names:
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}".lower() not in suffixes or name.startswith("."):
            continue
        match = _NUMBER_IN_NAME.match(stem)
        if match:
            numbered.setdefault(match["prefix"], []).append((float(match["number"]), match["number"], name))
    groups = {}
    for prefix, images in numbered.items():
        images.sort()
        groups[prefix] = CameraImageFiles(
            tuple(name for _, _, name in images), _stamp_seconds([number for _, number, _ in images])
        )
    return groups


def _stamp_seconds(numbers: Sequence[str]) -> tuple[float, ...] | None:
    """Seconds of numbers that are stamps; None for plain numbers, or stamps that do not strictly rise."""
    if any("." in number for number in numbers):
        seconds = tuple(float(number) for number in numbers)
    else:
        unit = next((unit for smallest, unit in _STAMP_UNITS if float(numbers[0]) >= smallest), None)
        if unit is None:
            return None
        # Whole numbers are divided as such, so that no digit is lost before.
        seconds = tuple(int(number) / round(1 / unit) for number in numbers)
    is_rising = all(first < second for first, second in pairwise(seconds))
    return seconds if is_rising else None


def folder_images(ref: MediaRef) -> CameraImageFiles:
    """The images of a camera. Raises MediaError when there are none, SourceError for a table that cannot be read."""
    if ref.uri.endswith("/"):
        images = _list_images(ref.uri, file_state(ref.uri)).get(ref.key)
    else:
        column = read_csv_table(ref.uri, file_state(ref.uri)).texts(ref.key)
        images = CameraImageFiles(tuple(column), None) if column else None
    if images is None:
        raise MediaError("folder holds no such images", f"{ref.uri} {ref.key}")
    return images


@functools.lru_cache(maxsize=32)  # 10^5 names take about 10 MB
def _list_images(folder: str, state: FileState) -> dict[str, CameraImageFiles]:
    return group_images(list(list_folder(Path(folder)).files))


def sample_images(uri: str, count: int) -> list[str]:
    """Paths of up to `count` images of a folder, evenly spread. Raises OSError when it is missing."""
    groups = _list_images(uri, file_state(uri)).values()
    names = [name for images in groups for name in images.names]
    step = max(1, -(-len(names) // count))
    return [f"{uri}{name}" for name in names[::step]]


def image_file_seconds(ref: MediaRef) -> list[float] | None:
    """When each image is shown, in seconds of the episode; None where the names hold no stamps. Raises MediaError."""
    seconds = folder_images(ref).seconds
    return [second - ref.start_seconds for second in seconds] if seconds else None


def frame_numbers(ref: MediaRef, seconds: Sequence[float], tolerance: float) -> list[int] | None:
    """Number of the last image at or before each second, by the stamps; None where the names hold none."""
    stamps = image_file_seconds(ref)
    if stamps is None:
        return None
    return [max(bisect_right(stamps, second + tolerance) - 1, 0) for second in seconds]


def read_image_files(ref: MediaRef, numbers: Sequence[int]) -> Iterator[bytes]:
    """Yield the files of some images, as they are. Raises MediaError for a missing file, and OSError."""
    images = folder_images(ref)
    folder = ref.uri if ref.uri.endswith("/") else f"{Path(ref.uri).parent}/"
    for number in numbers:
        if number >= len(images.names):
            raise MediaError(
                "there are fewer images", f"{ref.uri} {ref.key}: {number} of {len(images.names)}"
            )
        try:
            path = folder + check_relative_path(images.names[number], ref.uri)
            yield read_input(path, _LARGEST_IMAGE_BYTES)
        except FileNotFoundError:
            raise MediaError("image file is missing", f"{images.names[number]!r} of {ref.uri}") from None
        except SourceError as error:
            raise MediaError(error.reason, error.detail) from None


def read_image_file_frames(ref: MediaRef, numbers: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of rising numbers, (H, W, 3) uint8 RGB. Raises MediaError."""
    for number, data in zip(numbers, read_image_files(ref, numbers), strict=True):
        yield decode_image(data, f"image {number} of {ref.uri} {ref.key}")
